//! A broker as a node.

use crate::node::{Node, for_each_frame};
use broker::{Broker, Event, Outputs, Settings};
use contract::{Span, Time};
use wire::{Effects, Farewell, Frame, LinkChange, LinkId, Mark, MarkKind, Message, MessageKind, PeerIndex};

/// Hears what a broker has to tell its operator.
pub trait Reporter {
    /// An event.
    fn report(&mut self, event: &Event<'_>);
}

/// A broker, wired to bytes.
#[derive(Clone)]
pub struct BrokerNode<R> {
    broker: Broker,
    reporter: R,
}

/// Jobs that run before new bytes are looked at. Fewer would cost more calls, more would make an urgent message wait.
const JOBS_PER_PORTION: usize = 64;

impl<R: Reporter> BrokerNode<R> {
    /// A broker that has just started.
    pub fn new(settings: Settings, reporter: R) -> BrokerNode<R> {
        BrokerNode { broker: Broker::new(settings), reporter }
    }

    /// The broker itself.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Who hears of events.
    pub fn reporter(&mut self) -> &mut R {
        &mut self.reporter
    }

    /// Runs at most so many jobs; [`Node::run`] with a portion of another size.
    pub fn run_jobs(&mut self, now: Time, budget: usize, net: &mut impl Effects) -> bool {
        self.broker.run(now, budget, &mut Wired { net, reporter: &mut self.reporter })
    }

    /// Begins to end; see [`Broker::leave`].
    pub fn leave(&mut self, now: Time, net: &mut impl Effects) {
        self.broker.leave(now, &mut Wired { net, reporter: &mut self.reporter });
    }

    /// Whether nothing keeps it any more; see [`Broker::has_left`].
    pub fn has_left(&self, now: Time) -> bool {
        self.broker.has_left(now)
    }

    /// Says farewell to everybody.
    pub fn say_farewell(&mut self, net: &mut impl Effects) {
        self.broker.say_farewell(&mut Wired { net, reporter: &mut self.reporter });
    }
}

impl<R: Reporter> Node for BrokerNode<R> {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        self.broker.handle_link(now, link, change, &mut Wired { net, reporter: &mut self.reporter });
    }

    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        self.broker.handle_dial_failed(now, peer, refused, &mut Wired { net, reporter: &mut self.reporter });
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        let mut out = Wired { net, reporter: &mut self.reporter };
        let result = for_each_frame(bytes, |frame| self.broker.handle_frame(now, link, frame, &mut out));
        result.unwrap_or_else(|error| {
            self.broker.handle_garbage(link, &error, &mut out);
            bytes.len()
        })
    }

    fn run(&mut self, now: Time, net: &mut impl Effects) -> bool {
        self.run_jobs(now, JOBS_PER_PORTION, net)
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        self.broker.handle_timeout(now, &mut Wired { net, reporter: &mut self.reporter });
    }

    fn next_deadline(&self) -> Time {
        self.broker.next_deadline()
    }
}

/// The network and the reporter as one.
struct Wired<'a, N, R> {
    net: &'a mut N,
    reporter: &'a mut R,
}

impl<N: Effects, R: Reporter> Outputs for Wired<'_, N, R> {
    fn report(&mut self, event: &Event<'_>) {
        self.reporter.report(event);
    }
}

impl<N: Effects, R> Effects for Wired<'_, N, R> {
    crate::node::effects_through!(net);
}
