//! Any frames in any order on several connections of one broker: nothing may panic, and afterwards a well-behaved
//! client is served. The fuzz target `broker` does the same with bytes, for longer.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::seat;

use broker::{Limits, Settings};
use contract::{Contract, Epoch, NodeId, Reign, Span, Time, TrafficClass};
use engine::testing::Log;
use engine::{BrokerNode, Node};
use proptest::prelude::*;
use seat::Seat;
use wire::{
    Announce, Carry, ClockDifference, Decoded, Effects, Frame, Hello, LinkChange, LinkId, Mark, MarkKind,
    Message, MessageFlags, MessageKind, Outbox, Protocol, Received, Register, Secret, Standing, Trouble,
    decode,
};

/// One thing that happens.
#[derive(Clone, Debug)]
struct Step {
    link: u32,
    what: u8,
    number: u32,
    seq: u64,
    word: u8,
    flag: bool,
}

const LINKS: u32 = 5;
const WORDS: [&str; 6] = ["a", "a/b", "+/b", "#", "c", "bad/#/x"];

fn any_step() -> impl Strategy<Value = Step> {
    let seq = prop_oneof![0_u64..20, Just(u64::MAX), any::<u64>()];
    let number = prop_oneof![8 => 0_u32..6, 1 => any::<u32>()];
    (0..LINKS, 0_u8..35, number, seq, 0..WORDS.len() as u8, any::<bool>())
        .prop_map(|(link, what, number, seq, word, flag)| Step { link, what, number, seq, word, flag })
}

struct Stand {
    seat: Seat<BrokerNode<Log>>,
}

impl Stand {
    fn new() -> Stand {
        let now = Time(1_000_000_000_000);
        let limits =
            Limits { streams: 100, store_bytes: 1 << 20, deferred_per_subscriber: 8, ..Default::default() };
        let settings = Settings { limits, ..Settings::new("tried", NodeId(50), now) };
        let mut bench = Stand { seat: Seat::new(BrokerNode::new(settings, Log::default()), now) };
        let accepted = LinkChange::Accepted(Protocol::Verge);
        (0..LINKS + 1).for_each(|_| _ = bench.seat.open(accepted));
        bench
    }

    fn feed(&mut self, link: LinkId, outbox: &mut Outbox) {
        self.seat.bring(link, outbox.unsent());
        self.seat.rest();
        self.settle();
    }

    /// Whoever is not wanted comes again, and nobody is where the node wants to connect to.
    fn settle(&mut self) {
        let (ended, dials) = (self.seat.wires.take_ended(), std::mem::take(&mut self.seat.wires.dials));
        ended.iter().for_each(|link| self.seat.reopen(*link, LinkChange::Accepted(Protocol::Verge)));
        dials.iter().for_each(|peer| self.seat.dial_failed(*peer, false));
        if !ended.is_empty() || !dials.is_empty() {
            self.seat.rest();
        }
    }

    fn pass(&mut self, span: Span) {
        self.seat.now = self.seat.now + span;
        for _ in 0..20 {
            if self.seat.node.next_deadline() > self.seat.now {
                return;
            }
            self.seat.rest();
            self.settle();
        }
        // Something that is due must be done and then no longer be due, or a driver would never sleep.
        assert!(
            self.seat.node.next_deadline() > self.seat.now,
            "the broker asks to be woken again and again"
        );
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each frame")]
    fn step(&mut self, step: &Step) {
        let link = LinkId(step.link);
        let word = WORDS[usize::from(step.word)];
        let mut out = Outbox::default();
        match step.what {
            0..=4 => out.push(&Frame::Hello(hello(step, word))),
            5..=7 => out.push(&Frame::Register(Register {
                stream: step.number,
                incarnation: 1,
                contract: contract(step),
                topic: word,
            })),
            8..=16 => message(step, &mut out),
            17 => out.push(&Frame::Subscribe { number: step.number, needs: needs(step), filter: word }),
            19 if step.flag => {
                let (stream, seq) = (step.number, step.seq);
                let contract = contract(step).unwrap_or(Contract::every(Span::millis(100)).retain(1));
                out.push(&Frame::Carry(Carry {
                    stream,
                    incarnation: seq % 3,
                    first_seq: seq,
                    contract,
                    topic: word,
                    publisher: "pump@north",
                    origin: "north",
                    crossing: contract::Crossing::NONE,
                }));
                out.push(&Frame::AskInterest { topics: seq % 3 == 0 });
                out.push(&Frame::Pace { rate: seq });
                out.push(&Frame::Published { published: seq % 2 == 1, topic: word });
                out.push(&Frame::Interest { wanted: seq % 2 == 0, onward: Span(seq as i64), filter: word });
            }
            18 if step.flag => {
                let (stream, run) = (step.number, step.seq as u32);
                let trouble = Trouble { stream, lost: u32::MAX, run, late: run, by: Span(step.seq as i64) };
                out.push(&Frame::Trouble(trouble));
                let (class, latency_nanos) = (step.seq as u16, u64::MAX);
                out.push(&Frame::Received(Received {
                    class,
                    latency: [u32::MAX; wire::LATENCY_COUNTS],
                    latency_nanos,
                }));
            }
            18 => out.push(&Frame::Unsubscribe { number: step.number }),
            19 => out.push(&Frame::Unregister { stream: step.number }),
            20 => out.push_mark(MarkKind::Confirm, Mark { stream: step.number, seq: step.seq }),
            21 => out.push_mark(MarkKind::Prune, Mark { stream: step.number, seq: step.seq }),
            22 => {
                let (stream, seq) = (step.number, step.seq);
                let contract = contract(step).unwrap_or(Contract::every(Span::millis(100)).retain(1));
                let announce = Announce {
                    stream,
                    incarnation: seq,
                    next_seq: seq,
                    contract,
                    gapless: seq % 2 == 0,
                    class: seq as u16,
                    topic: word,
                    publisher: "p",
                    origin: "",
                    crossing: contract::Crossing::NONE,
                };
                out.push(&Frame::Announce(announce));
            }
            23 => out.push(&Frame::Session {
                incarnation: step.seq,
                present: step.flag,
                needs: needs(step),
                client: "c",
                filter: word,
            }),
            24 => out.push(&Frame::Join),
            25 => out.push(if step.flag { &Frame::Synced } else { &Frame::Standby }),
            26 => out.push(&Frame::TakeOver { epoch: Epoch(step.seq) }),
            27 => out.push(&Frame::Reign { reign: reign(step), standing: standing(step) }),
            28 if step.flag => out.push(&Frame::Handover),
            28 => out.push(&Frame::Retire { stream: step.number }),
            29 => out.push(&Frame::StatusRequest { first_stream: step.number, rows: step.number }),
            30 if step.number.is_multiple_of(2) => {
                let (ahead, within) = (Span(step.seq as i64), Span(step.seq.swap_bytes() as i64));
                let known = step.flag.then_some(ClockDifference { ahead, within });
                out.push(&Frame::ClockRequest { sent: Time(step.seq), known });
            }
            30 => {
                out.push(if step.flag {
                    &Frame::Poll { number: 1 }
                } else {
                    &Frame::PollReply { number: 1 }
                });
            }
            31 => self.seat.wires.hang_up(link),
            32 => self.pass(Span::millis(i64::from(step.number % 3_000))),
            33 => {
                let bytes = [7; 50];
                let mut greeting = Outbox::default();
                greeting.push(&Frame::Hello(Hello { standing: Standing::CutOff, ..hello(step, word) }));
                let opening = if step.flag { greeting.unsent() } else { &bytes };
                out.push(&match step.seq % 5 {
                    0 | 1 => Frame::RelayOpen {
                        channel: step.number,
                        client: word,
                        address: word,
                        certificate: "",
                    },
                    2 => Frame::Relay { channel: step.number, bytes: opening },
                    3 => Frame::RelayRoom { channel: step.number, bytes: step.number },
                    _ => Frame::RelayEnd { channel: step.number },
                });
            }
            _ => self.seat.node.handle_link(self.seat.now, link, LinkChange::Drained, &mut self.seat.wires),
        }
        self.feed(link, &mut out);
    }
}

fn standing(step: &Step) -> Standing {
    let all = [
        Standing::Seeking,
        Standing::Primary,
        Standing::Backup,
        Standing::Following,
        Standing::Orphaned,
        Standing::CutOff,
    ];
    all[step.seq as usize % all.len()]
}

fn reign(step: &Step) -> Reign {
    Reign { epoch: Epoch(step.seq), node: NodeId(u64::from(step.number)) }
}

fn hello<'a>(step: &Step, name: &'a str) -> Hello<'a> {
    let node = NodeId(u64::from(step.number));
    Hello {
        standing: standing(step),
        prefers_to_reign: step.flag,
        reign: reign(step),
        node,
        incarnation: step.seq,
        name,
        user: "",
        password: Secret(""),
        knows: wire::Knows::NOTHING,
    }
}

/// Mostly nothing, and then anything.
fn needs(step: &Step) -> contract::Needs {
    let some = |bit: u64| step.seq >> bit & 3 == 3;
    contract::Needs {
        deadline: some(0).then_some(Span((step.seq >> 1) as i64)),
        loss: some(1).then_some(step.number),
        link: some(2).then(|| if step.flag { "edge" } else { "moon" }.parse().unwrap()),
        best_effort: some(3),
        confirm: some(4),
        onward: if some(5) { Span::millis((step.seq % 90) as i64) } else { Span::ZERO },
        class: some(6).then_some(if step.flag { TrafficClass::Bulk } else { TrafficClass::Promised }),
    }
}

fn contract(step: &Step) -> Option<Contract> {
    let period = Span::millis(1 + i64::from(step.number % 200));
    let contract = Contract::every(period).tolerate(step.number % 4).retain(step.number % 3);
    (step.number % 7 != 6).then_some(if step.flag { contract.confirmed() } else { contract })
}

fn message(step: &Step, out: &mut Outbox) {
    let kinds = [MessageKind::Publish, MessageKind::Publish, MessageKind::Replicate, MessageKind::Forward];
    let flags = if step.flag { MessageFlags::RESEND } else { MessageFlags::NONE };
    let payload = vec![7; (step.seq % 50) as usize];
    let created = Time(1_000_000_000_000_u64.wrapping_add(step.seq));
    let sent = Message { stream: step.number, flags, seq: step.seq, created, payload: &payload };
    out.push_message(kinds[usize::from(step.what) % kinds.len()], &sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn nothing_that_peers_send_breaks_a_broker(steps in prop::collection::vec(any_step(), 1..120)) {
        let mut bench = Stand::new();
        bench.pass(Span::secs(1));
        for step in &steps {
            bench.step(step);
        }
        // Everybody leaves; after a while the broker serves again, whatever it was told.
        (0..LINKS).for_each(|link| bench.seat.wires.hang_up(LinkId(link)));
        bench.settle();
        (0..400).for_each(|_| bench.pass(Span::millis(20)));
        let good = LinkId(LINKS);
        bench.seat.wires.hang_up(good);
        bench.settle();
        let mut out = Outbox::default();
        let name = "good";
        let reign = Reign::default();
        out.push(&Frame::Hello(Hello { standing: Standing::Orphaned, prefers_to_reign: false, reign, node: NodeId(0), incarnation: 1, name, user: "", password: Secret(""), knows: wire::Knows::NOTHING }));
        out.push(&Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "good" });
        let contract = Some(Contract::every(Span::millis(50)).retain(2));
        out.push(&Frame::Register(Register { stream: 0, incarnation: 1, contract, topic: "good" }));
        let created = bench.seat.now;
        out.push_message(MessageKind::Publish, &Message { stream: 0, flags: MessageFlags::NONE, seq: 0, created, payload: b"served" });
        bench.feed(good, &mut out);
        let bytes = bench.seat.wires.outbox(good).unsent().to_vec();
        let (mut rest, mut served) = (&bytes[..], false);
        while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
            if let Frame::Deliver(mut run) = frame {
                served |= run.any(|message| message.payload == b"served");
            }
            rest = &rest[used..];
        }
        prop_assert!(bench.seat.node.broker().is_primary(), "nobody else is there");
        prop_assert!(served);
    }
}
