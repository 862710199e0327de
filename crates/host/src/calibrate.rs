//! What a message and a turn cost on this host, measured before the first contract is given.
//!
//! The shipped broker, through the shipped wire format and real sockets, carries messages to one subscriber, to two,
//! and to one with copies to a backup; differences give the cost of each step. Messages come in batches of sixteen, as
//! they do when a host has much to do, which is when the costs matter.

mod carriers;

use contract::admission::Costs;
use contract::{Contract, NodeId, Span, Time};
use engine::driving::{JOBS_PER_PORTION, Portion};
use engine::{BrokerNode, Node, Reporter};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::unix::net::UnixStream;
use wire::{
    Effects, Farewell, Frame, Hello, LinkChange, LinkId, Mark, MarkKind, Message, MessageFlags, MessageKind,
    Order, Outbox, PeerIndex, Protocol, Register, Secret, Standing,
};

/// The costs, with a margin, and the longest time for which the loop looks at nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Per message and step.
    pub costs: Costs,
    /// Reading as much as is read from one connection at once, and one portion of jobs.
    pub blocking: Span,
}

const BATCH: u64 = 16;
const ROUNDS: usize = 120;
const PAYLOAD: [u8; 64] = [7; 64];
/// A message at its smallest.
const MESSAGE_BYTES: usize = 40;
/// What is measured is multiplied by this: an idle host at start is kinder than a busy one later.
const HEADROOM: i64 = 2;

/// Measures. Takes a tenth of a second.
pub fn calibrate() -> Option<Calibration> {
    let [one, two, copied] = measure([Rig::new(1, false)?, Rig::new(2, false)?, Rig::new(1, true)?])?;
    let least = Span::nanos(50);
    let dispatch = (two - one).max(least);
    let replication = (copied - one).max(least);
    let arrival = (one - dispatch).max(least);
    let scale = |span: Span| Span(span.0 * HEADROOM);
    let io = carriers::measure()?;
    let costs = Costs {
        arrival: scale(arrival),
        dispatch: scale(dispatch),
        replication: scale(replication),
        // Each turn asks for sockets, hears the other broker, and may write to it.
        turn: carriers::measure_waiting()? + io.tcp.read + io.tcp.write,
        io,
    };
    let blocking = Portion::longest(costs.arrival, MESSAGE_BYTES) + costs.dispatch * JOBS_PER_PORTION as u64;
    Some(Calibration { costs, blocking })
}

/// The time per message of each, which a quarter of its rounds stay below: where other programs take the processor, they
/// hold up many rounds, and that is no cost of a message. All take turns, so that a spell in which the host is slow is in
/// all of them and not in one of the differences.
fn measure<const N: usize>(mut benches: [Rig; N]) -> Option<[Span; N]> {
    let mut taken = [const { Vec::new() }; N];
    for round in 0..ROUNDS {
        for (rig, taken) in benches.iter_mut().zip(&mut taken) {
            taken.push(rig.round(round as u64 * BATCH)?);
        }
    }
    Some(taken.map(|mut rounds| {
        rounds.sort_unstable();
        Span(rounds[ROUNDS / 4].0 / BATCH as i64)
    }))
}

struct Silent;

impl engine::KeepsNothing for Silent {}
impl engine::KnowsEverybody for Silent {}

impl Reporter for Silent {
    fn report(&mut self, _event: &broker::Event<'_>) {}

    fn next_alarm(&mut self, _out: &mut String) -> bool {
        false
    }

    fn tidy(&mut self, _freed: usize) {}
}

/// Socket pairs in the place of connections, and the broker between them.
struct Pipes {
    outboxes: Vec<Outbox>,
    sockets: Vec<(UnixStream, UnixStream)>,
}

impl Effects for Pipes {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        self.outboxes[link.0 as usize].push(frame);
    }
    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        self.outboxes[link.0 as usize].push_message(kind, message);
    }
    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        self.outboxes[link.0 as usize].push_mark(kind, mark);
    }
    fn backlog(&self, link: LinkId) -> usize {
        self.outboxes[link.0 as usize].len()
    }
    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }

    fn taken(&self, _link: LinkId) -> u64 {
        0
    }

    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}

    fn dial(&mut self, _peer: PeerIndex, _within: Span) {}
    fn close(&mut self, _link: LinkId, _farewell: &Farewell<'_>) {}
    fn append(&mut self, link: LinkId, _order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        self.outboxes[link.0 as usize].append(write);
    }
    fn present_again(&mut self, _link: LinkId) {}
    fn hang_up(&mut self, _link: LinkId) {}
}

impl Pipes {
    /// Sends what was written, and takes it out at the other end.
    fn flush(&mut self, buffer: &mut [u8]) -> Option<()> {
        for (outbox, (near, far)) in self.outboxes.iter_mut().zip(&self.sockets) {
            if !outbox.is_empty() {
                let sent = send(near, outbox.unsent(), SendFlags::DONTWAIT).ok()?;
                outbox.consume(sent);
                recv(far, &mut *buffer, RecvFlags::DONTWAIT).ok()?;
            }
        }
        Some(())
    }
}

struct Rig {
    node: BrokerNode<Silent>,
    pipes: Pipes,
    buffer: Vec<u8>,
    publisher: Outbox,
}

const PUBLISHER: LinkId = LinkId(0);
const BACKUP: LinkId = LinkId(1);

impl Rig {
    fn new(subscribers: u32, copies: bool) -> Option<Rig> {
        let now = crate::now();
        let policy = if copies { broker::Policy::Fcfs } else { broker::Policy::Frame };
        let settings = broker::Settings {
            has_peer: false,
            policy,
            costs: Costs::of_messages(Span(1), Span(1), Span(1)),
            supply: contract::Supply { share_ppm: 1_000_000, blocking: Span::ZERO },
            schedulability: false,
            ..broker::Settings::new("calibration", NodeId(1), now)
        };
        let links = 2 + subscribers;
        let pairs = (0..links).map(|_| UnixStream::pair().ok());
        let pipes = Pipes {
            outboxes: (0..links).map(|_| Outbox::default()).collect(),
            sockets: pairs.collect::<Option<Vec<_>>>()?,
        };
        let mut rig = Rig {
            node: BrokerNode::new(settings, Silent),
            pipes,
            buffer: vec![0; 256 << 10],
            publisher: Outbox::default(),
        };
        rig.node.handle_timeout(now, &mut rig.pipes);
        rig.enter(now, PUBLISHER, Standing::Orphaned, "publisher");
        let contract = Contract::every(Span::millis(1)).deadline(Span::secs(1)).tolerate(100);
        rig.feed(
            now,
            PUBLISHER,
            &Frame::Register(Register { stream: 0, incarnation: 1, contract: Some(contract), topic: "t" }),
        );
        for index in 0..subscribers {
            let link = LinkId(2 + index);
            rig.enter(now, link, Standing::Orphaned, &format!("subscriber {index}"));
            rig.feed(now, link, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "t" });
        }
        if copies {
            rig.enter(now, BACKUP, Standing::Backup, "backup");
            rig.feed(now, BACKUP, &Frame::Join);
        }
        rig.pipes.flush(&mut rig.buffer)?;
        Some(rig)
    }

    fn enter(&mut self, now: Time, link: LinkId, standing: Standing, name: &str) {
        self.node.handle_link(now, link, LinkChange::Accepted(Protocol::Verge), &mut self.pipes);
        let hello = Hello {
            standing,
            prefers_to_reign: false,
            reign: Default::default(),
            node: NodeId(u64::from(link.0) + 100),
            incarnation: 1,
            name,
            user: "",
            password: Secret(""),
            knows: wire::Knows::NOTHING,
        };
        self.feed(now, link, &Frame::Hello(hello));
    }

    fn feed(&mut self, now: Time, link: LinkId, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.node.handle_bytes(now, link, &bytes, &mut self.pipes);
    }

    /// One batch through the broker, from the publisher's socket to the others.
    fn round(&mut self, first: u64) -> Option<Span> {
        let created = crate::now();
        for seq in first..first + BATCH {
            let message = Message { stream: 0, flags: MessageFlags::NONE, seq, created, payload: &PAYLOAD };
            self.publisher.push_message(MessageKind::Publish, &message);
        }
        let (near, far) = self.pipes.sockets.first()?;
        let sent = send(far, self.publisher.unsent(), SendFlags::DONTWAIT).ok()?;
        self.publisher.consume(sent);

        let begun = crate::now();
        let (_, read) = recv(near, &mut self.buffer[..], RecvFlags::DONTWAIT).ok()?;
        let bytes = std::mem::take(&mut self.buffer);
        self.node.handle_bytes(begun, PUBLISHER, &bytes[..read], &mut self.pipes);
        self.buffer = bytes;
        while self.node.run(crate::now(), &mut self.pipes) {}
        self.pipes.flush(&mut self.buffer)?;
        Some(crate::now().since(begun))
    }
}
