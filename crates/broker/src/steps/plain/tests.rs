//! A broker whose every message takes the general way beside one as it is shipped: whatever comes, they say and hold the same.

use crate::broker::Broker;
use crate::outputs::{Processes, RelaysNothing, RemembersNothing, Reports, Routes};
use crate::settings::{Limits, Replication, Settings, TopicRule};
use crate::steps::posting::Route;
use crate::steps::process::Processed;
use crate::store::results::Processing;
use crate::watch::events::Event;
use crate::watch::snapshot::Snapshot;
use crate::watch::status::Survey;
use contract::admission::Costs;
use contract::{Contract, Delays, Lazy, NodeId, Receipt, Span, StreamId, Time};
use proptest::prelude::*;
use proptest::sample::select;
use std::ops::Range;
use wire::{
    ClientRow, Decoded, Effects, Farewell, FarewellReason, Frame, Hello, LinkChange, LinkId, Mark, MarkKind,
    Message, MessageFlags, MessageKind, Order, Outbox, PeerIndex, Protocol, Register, Routed, Secret,
    Standing,
};

const START: Time = Time(1_000_000_000_000);
const PUBLISHER: LinkId = LinkId(0);
const PARTNER: LinkId = LinkId(1);
const SUBSCRIBERS: [LinkId; 3] = [LinkId(2), LinkId(3), LinkId(4)];
/// What each subscribes: `plain` has one receiver, `shared` two, `unheard` none.
const FILTERS: [&[&str]; 3] = [&["plain/#", "shared", "made", "confirmed"], &["shared"], &[]];
const TOPICS: [&str; 9] = [
    "plain/a",
    "plain/b",
    "plain/rare",
    "shared",
    "unheard",
    "made",
    "confirmed",
    "plain/odd",
    "plain/seldom",
];

/// The place of that one.
const UNHEARD: usize = 4;

/// What a broker says, in order.
#[derive(Clone, Default)]
struct Heard {
    said: Vec<String>,
    /// What waits on each link.
    waiting: [usize; 5],
    given: Vec<Receipt>,
}

impl RemembersNothing for Heard {}
impl RelaysNothing for Heard {}

impl Reports for Heard {
    fn report(&mut self, event: &Event<'_>) {
        self.said.push(format!("report {event}"));
    }
    fn survey(&mut self, _wanted: Range<u32>) -> Survey {
        Survey::default()
    }
}

impl Processes for Heard {
    fn bind(&mut self, topic: &str) -> Option<Processing> {
        (topic == "made").then_some(Processing { handle: 9, within: Span::millis(5), remembers: false })
    }
    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool {
        self.said.push(format!("process {handle} {message:?}"));
        self.given.push(message.receipt);
        !self.given.len().is_multiple_of(5)
    }
    fn release(&mut self, lineage: u32) {
        self.said.push(format!("release {lineage}"));
    }
    fn unbind(&mut self, _handle: u32) {}
    fn has_output(&mut self, _output: u32) -> bool {
        false
    }
    fn offered(&mut self, _lineage: u32) {}
}

impl Routes for Heard {
    fn covered(&mut self, stream: StreamId, seq: u64) {
        self.said.push(format!("covered {} {seq}", stream.0));
    }
    fn given_up(&mut self, _stream: StreamId, _seq: u64) {}
    fn route(&mut self, _topic: &str) -> Option<Route> {
        None
    }
    fn unroute(&mut self, _route: u32) {}
    fn deliver(&mut self, _now: Time, _route: u32, _message: &Routed<'_>) {}
    fn list_clients(
        &mut self,
        _after: &str,
        _most: usize,
        _hear: &mut dyn FnMut(&ClientRow<'_>),
    ) -> Option<String> {
        None
    }
    fn drop_client(&mut self, _now: Time, _client: &str, _ends: bool) -> bool {
        false
    }
}

impl Effects for Heard {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        self.said.push(format!("send {link:?} {frame:?}"));
    }
    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        self.said.push(format!("message {link:?} {kind:?} {message:?}"));
        self.waiting[link.0 as usize] += message.encoded_bytes();
    }
    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        self.said.push(format!("mark {link:?} {kind:?} {mark:?}"));
    }
    fn backlog(&self, link: LinkId) -> usize {
        self.waiting[link.0 as usize]
    }
    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }
    fn taken(&self, _link: LinkId) -> u64 {
        0
    }
    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}
    fn dial(&mut self, _peer: PeerIndex, _within: Span) {}
    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
        self.said.push(format!("close {link:?} {farewell:?}"));
    }
    fn append(&mut self, _link: LinkId, _order: Order, _write: impl FnOnce(&mut Vec<u8>)) {}
    fn present_again(&mut self, _link: LinkId) {}
    fn hang_up(&mut self, _link: LinkId) {}
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    /// Messages of one topic after the other, in one frame.
    Publish(Vec<Sent>),
    Pass(i64),
    Run(usize),
    /// Everything that waits on this link has left, and the broker is told, or not yet.
    Drain(usize, bool),
    /// The subscriber confirms.
    Confirm(usize, u32, u64),
    /// Operators are done with what they were given first.
    Process,
    /// One message comes by another protocol, with what is true of it.
    Post(u32, u8),
    /// It is not known which number comes next.
    Forget(u32),
    /// The newest message of a topic is a result, of which something is to be released.
    Tie(u32),
    /// The numbers of a topic that nobody hears are nearly used up.
    Exhaust,
    /// A subscriber says farewell, its connection ends, or comes back.
    Part(usize),
    Leave(usize),
    Return(usize),
    /// The backup leaves, or comes.
    Alone,
    Protected,
    Timeout,
}

#[derive(Clone, Debug)]
struct Sent {
    topic: u32,
    /// How far its number is from the one that comes next.
    step: i64,
    /// How long ago it was created, in microseconds.
    age: i64,
    flags: u8,
    length: usize,
}

fn any_sent() -> impl Strategy<Value = Sent> {
    let step = prop_oneof![12 => Just(0_i64), 1 => 1_i64..4, 1 => -4_i64..0];
    let age = prop_oneof![12 => 0_i64..400, 1 => select(vec![-1, -20_000, 10_001, 60_000, 499_999, 500_001, 900_000, 3_000_000])];
    let flags = prop_oneof![15 => Just(0_u8), 1 => select(vec![1_u8, 2, 4, 8, 255])];
    let length = prop_oneof![9 => 0_usize..70, 1 => select(vec![79_usize, 80, 81, 300])];
    (0..TOPICS.len() as u32, step, age, flags, length).prop_map(|(topic, step, age, flags, length)| Sent {
        topic,
        step,
        age,
        flags,
        length,
    })
}

fn any_act() -> impl Strategy<Value = Act> {
    let who = || 0..SUBSCRIBERS.len();
    prop_oneof![
        20 => proptest::collection::vec(any_sent(), 1..24).prop_map(Act::Publish),
        12 => prop_oneof![6 => 1_000_i64..12_000, 1 => 0_i64..900, 1 => 20_000_i64..900_000].prop_map(Act::Pass),
        12 => prop_oneof![4 => Just(64_usize), 1 => 0_usize..6].prop_map(Act::Run),
        7 => (0_usize..5, any::<bool>()).prop_map(|(link, told)| Act::Drain(link, told)),
        2 => (who(), 0_u32..7, 0_u64..40).prop_map(|(who, stream, seq)| Act::Confirm(who, stream, seq)),
        3 => Just(Act::Process),
        3 => (0_u32..3, select(vec![0_u8, 16, 128, 240])).prop_map(|(topic, marks)| Act::Post(topic, marks)),
        1 => (0..TOPICS.len() as u32).prop_map(Act::Forget),
        1 => (0..TOPICS.len() as u32).prop_map(Act::Tie),
        1 => Just(Act::Exhaust),
        1 => who().prop_map(Act::Part),
        1 => who().prop_map(Act::Leave),
        2 => who().prop_map(Act::Return),
        1 => Just(Act::Alone),
        2 => Just(Act::Protected),
        2 => Just(Act::Timeout),
    ]
}

struct Tried {
    broker: Broker,
    out: Heard,
    now: Time,
    next: [u64; TOPICS.len()],
}

impl Tried {
    fn new(replication: Replication, limits: Limits, nothing_is_plain: bool) -> Tried {
        let cost = Span(1_000);
        let settings = Settings {
            name: "tried".to_owned(),
            node: NodeId(50),
            nonce: [7; 16],
            started: START - Span::secs(10),
            prefers_to_reign: true,
            has_peer: false,
            policy: Default::default(),
            replication,
            delays: Delays::default(),
            reassigned: contract::path::REASSIGNED_WITHIN,
            links: Default::default(),
            costs: Costs::of_messages(cost, cost, cost),
            supply: contract::Supply { share_ppm: 900_000, blocking: Span::ZERO },
            schedulability: false,
            best_effort_subscriptions: false,
            topics: vec![TopicRule::new("plain/a".parse().unwrap(), contract_of("plain/a"))],
            detection: Default::default(),
            limits,
        };
        let mut broker = Broker::new(settings);
        broker.flow.work.nothing_is_plain = nothing_is_plain;
        let (out, next) = (Heard::default(), [0; TOPICS.len()]);
        let mut tried = Tried { broker, out, now: START, next };
        tried.broker.handle_timeout(START, &mut tried.out);
        assert!(tried.broker.is_primary());
        tried.greet(PUBLISHER, Standing::Orphaned, "publisher");
        for (stream, topic) in TOPICS.iter().enumerate() {
            let contract = Some(contract_of(topic));
            tried.say(
                PUBLISHER,
                &Frame::Register(Register { stream: stream as u32, incarnation: 1, contract, topic }),
            );
        }
        assert_eq!(tried.broker.occupancy().streams, TOPICS.len(), "{:?}", tried.out.said);
        (0..SUBSCRIBERS.len()).for_each(|who| tried.come(who));
        tried
    }

    fn greet(&mut self, link: LinkId, standing: Standing, name: &str) {
        let Tried { broker, out, now, .. } = self;
        broker.handle_link(*now, link, LinkChange::Accepted(Protocol::Verge), out);
        self.say(
            link,
            &Frame::Hello(Hello {
                standing,
                prefers_to_reign: false,
                reign: Default::default(),
                node: NodeId(u64::from(link.0) + 100),
                incarnation: 1,
                name,
                user: "",
                password: Secret(""),
                knows: wire::Knows::NOTHING,
            }),
        );
    }

    fn say(&mut self, link: LinkId, frame: &Frame<'_>) {
        self.broker.handle_frame(self.now, link, *frame, &mut self.out);
    }

    fn come(&mut self, who: usize) {
        self.greet(SUBSCRIBERS[who], Standing::Orphaned, ["first", "second", "third"][who]);
        for (number, filter) in FILTERS[who].iter().enumerate() {
            self.say(
                SUBSCRIBERS[who],
                &Frame::Subscribe { number: number as u32, needs: contract::Needs::NONE, filter },
            );
        }
    }

    fn end(&mut self, link: LinkId) {
        self.out.waiting[link.0 as usize] = 0;
        self.broker.handle_link(self.now, link, LinkChange::Closed, &mut self.out);
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Publish(sent) => self.publish(sent),
            Act::Pass(micros) => self.now = self.now + Span::micros(*micros),
            Act::Run(budget) => {
                self.broker.run(self.now, *budget, &mut self.out);
            }
            Act::Drain(link, told) => {
                self.out.waiting[*link] = 0;
                if *told {
                    self.broker.handle_link(
                        self.now,
                        LinkId(*link as u32),
                        LinkChange::Drained,
                        &mut self.out,
                    );
                }
            }
            Act::Confirm(who, stream, seq) => {
                let mut outbox = Outbox::default();
                outbox.push_mark(MarkKind::Confirm, Mark { stream: *stream, seq: *seq });
                self.bytes(SUBSCRIBERS[*who], &mut outbox);
            }
            Act::Process => {
                if !self.out.given.is_empty() {
                    let receipt = self.out.given.remove(0);
                    self.broker.processed(receipt, &mut self.out);
                }
            }
            Act::Post(stream, marks) => {
                let seq = self.number(*stream, 0);
                let (flags, created) = (MessageFlags(*marks), self.now);
                let message = Message { stream: *stream, flags, seq, created, payload: b"posted\0\0" };
                let _ = self.broker.steps().store_message(
                    self.now,
                    None,
                    StreamId(*stream),
                    &message,
                    false,
                    &mut self.out,
                );
            }
            Act::Forget(stream) => {
                self.broker.flow.store.table.stream_mut(StreamId(*stream)).unwrap().guess_next_seq(true);
            }
            Act::Tie(stream) => {
                let ring = &mut self.broker.flow.store.table.stream_mut(StreamId(*stream)).unwrap().ring;
                let newest = ring.next_ticket().before(1);
                ring.slot_mut(newest).into_iter().for_each(|slot| slot.lineage = 5);
            }
            Act::Exhaust => self.next[UNHEARD] = self.next[UNHEARD].max(u64::MAX - 3),
            Act::Part(who) => {
                let text = "farewell";
                let reason = FarewellReason::Busy;
                self.say(SUBSCRIBERS[*who], &Frame::Farewell(Farewell { reason, text }));
            }
            Act::Leave(who) => self.end(SUBSCRIBERS[*who]),
            Act::Return(who) => {
                self.end(SUBSCRIBERS[*who]);
                self.come(*who);
            }
            Act::Alone => self.end(PARTNER),
            Act::Protected => {
                self.end(PARTNER);
                self.greet(PARTNER, Standing::Backup, "partner");
                self.say(PARTNER, &Frame::Join);
                self.say(PARTNER, &Frame::Standby);
            }
            Act::Timeout => self.broker.handle_timeout(self.now, &mut self.out),
        }
    }

    fn publish(&mut self, sent: &[Sent]) {
        let mut outbox = Outbox::default();
        for Sent { topic, step, age, flags, length } in sent {
            let seq = self.number(*topic, *step);
            let payload = vec![seq as u8; *length];
            let created = self.now - Span::micros(*age);
            let flags = MessageFlags(*flags);
            outbox.push_message(
                MessageKind::Publish,
                &Message { stream: *topic, flags, seq, created, payload: &payload },
            );
        }
        self.bytes(PUBLISHER, &mut outbox);
    }

    /// The number of the next message, or one so far from it.
    fn number(&mut self, topic: u32, step: i64) -> u64 {
        let next = &mut self.next[topic as usize];
        let seq = next.saturating_add_signed(step);
        *next = (*next).max(seq.saturating_add(1));
        seq
    }

    fn bytes(&mut self, link: LinkId, outbox: &mut Outbox) {
        let bytes = outbox.unsent();
        let Ok(Decoded::Frame(frame, used)) = wire::decode(bytes) else { panic!("our own frame") };
        assert_eq!(used, bytes.len());
        self.broker.handle_frame(self.now, link, frame, &mut self.out);
    }

    /// All that it holds, and all that it counts.
    fn holds(&self) -> String {
        let mut snapshot = Snapshot { with_streams: true, ..Snapshot::default() };
        self.broker.fill(self.now, &Survey::default(), &mut snapshot);
        let mut queue = self.broker.flow.work.queue.clone();
        let jobs: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let streams = self.broker.flow.store.table.streams().map(|(index, stream)| {
            let ring = &stream.ring;
            let slots: Vec<_> = ring.tickets().map(|ticket| ring.message(ticket)).collect();
            let (next, unknown) = (stream.next_seq, stream.next_seq_is_guess());
            format!(
                "{} {next} {unknown} {:?} {:?} {:?} {} {:?} {slots:?}",
                index.0,
                stream.times(),
                stream.copying,
                stream.took,
                stream.arrived(),
                stream.record.troubles
            )
        });
        let streams: Vec<_> = streams.collect();
        format!("{snapshot:?}\n{jobs:?}\n{:?}\n{}", self.broker.next_deadline(), streams.join("\n"))
    }
}

fn contract_of(topic: &str) -> Contract {
    let every = Contract::every(Span::millis(10));
    match topic {
        // So late that a copy is needed.
        "plain/a" => every.deadline(Span::millis(200)).tolerate(0).retain(7),
        "plain/b" => every.deadline(Span::millis(30)).tolerate(1).retain(9),
        "plain/rare" => Contract::every(Span::FOREVER).deadline(Span::secs(2)).tolerate(0).retain(2),
        // Terms that no stream can say in few bytes.
        "plain/odd" => every.deadline(Span(30_000_500)).tolerate(0).retain(6),
        "plain/seldom" => Contract::every(Span::secs(7_200)).deadline(Span::secs(1)).tolerate(0).retain(2),
        "confirmed" => every.tolerate(0).retain(8).confirmed(),
        _ => every.tolerate(0).retain(6),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_plain_message_does_what_it_would_do_on_the_general_way(
        acts in proptest::collection::vec(any_act(), 1..60),
        lazy in any::<bool>(),
        jobs in select(vec![1_usize << 20, 30]),
        backlog in select(vec![900_usize, 100_000]),
    ) {
        let replication = if lazy { Replication::Lazy(Lazy::default()) } else { Replication::Eager };
        let limits = Limits {
            subscriber_backlog_bytes: backlog,
            deferred_per_subscriber: 6,
            jobs,
            ..Limits::default()
        };
        let [mut shipped, mut general] = [false, true].map(|nothing| Tried::new(replication, limits, nothing));
        for act in &acts {
            shipped.act(act);
            general.act(act);
            prop_assert_eq!(&shipped.out.said, &general.out.said, "said, {:?}", act);
            prop_assert_eq!(shipped.holds(), general.holds(), "held, {:?}", act);
        }
    }
}
