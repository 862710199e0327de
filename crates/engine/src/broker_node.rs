//! A broker as a node.

use crate::node::{Node, for_each_frame};
use crate::processing::{NoOperators, Operators, Processor};
use broker::{Broker, Event, Outputs, Processed, Processing, Settings, Snapshot, Survey};
use contract::{Span, Time};
use std::ops::Range;
use stream::{Change, Crew, GraphError, GraphSpec};
use wire::{Effects, Farewell, Frame, LinkChange, LinkId, Mark, MarkKind, Message, MessageKind, PeerIndex};

/// Hears what a broker has to tell its operator.
pub trait Reporter {
    /// An event.
    fn report(&mut self, event: &Event<'_>);
}

/// A broker, wired to bytes and to operators.
#[derive(Clone)]
pub struct BrokerNode<R, O = NoOperators> {
    broker: Broker,
    reporter: R,
    operators: O,
}

/// Jobs that run before new bytes are looked at. Fewer would cost more calls, more would make an urgent message wait.
const JOBS_PER_PORTION: usize = 64;
/// The same for results.
const RESULTS_PER_PORTION: usize = 64;

impl<R: Reporter> BrokerNode<R> {
    /// A broker that has just started, without operators.
    pub fn new(settings: Settings, reporter: R) -> BrokerNode<R> {
        BrokerNode::with_operators(settings, reporter, NoOperators)
    }
}

impl<R: Reporter, C: Crew> BrokerNode<R, Processor<C>> {
    /// Changes the graphs of operators: those that are the same go on, the others end or begin. Nothing changes if one of
    /// them is not right.
    pub fn change_graphs(
        &mut self,
        now: Time,
        graphs: Vec<GraphSpec>,
        net: &mut impl Effects,
    ) -> Result<Change, Vec<GraphError>> {
        let change = self.operators.change(graphs)?;
        let BrokerNode { broker, reporter, operators } = self;
        broker.rebind(now, &mut Wired { net, reporter, operators });
        Ok(change)
    }
}

impl<R: Reporter, O: Operators> BrokerNode<R, O> {
    /// A broker that has just started.
    pub fn with_operators(settings: Settings, reporter: R, operators: O) -> BrokerNode<R, O> {
        BrokerNode { broker: Broker::new(settings), reporter, operators }
    }

    /// Its operators.
    pub fn operators(&mut self) -> &mut O {
        &mut self.operators
    }

    /// Publishes some of what operators have made, and settles the messages with which they are done. Returns whether there may be more.
    fn take_results(&mut self, now: Time, net: &mut impl Effects) -> bool {
        let BrokerNode { broker, reporter, operators } = self;
        let mut taken = 0;
        while taken < RESULTS_PER_PORTION {
            let Some(made) = operators.next_result(now, reporter) else { break };
            taken += 1;
            let result = made.outcome();
            let published = broker.publish_result(now, &result, &mut Wired { net, reporter, operators });
            if !published {
                operators.release(result.lineage);
            }
        }
        while let Some(receipt) = operators.processed() {
            broker.processed(receipt, &mut Wired { net, reporter, operators });
        }
        taken == RESULTS_PER_PORTION
    }

    /// The broker itself.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Fills a snapshot of the broker and its operators.
    pub fn fill(&self, now: Time, into: &mut Snapshot) {
        // Levels come with the first of the operators' rows.
        self.broker.fill(now, &self.operators.survey(0..1), into);
    }

    /// Who hears of events.
    pub fn reporter(&mut self) -> &mut R {
        &mut self.reporter
    }

    /// Runs at most so many jobs; [`Node::run`] with a portion of another size.
    pub fn run_jobs(&mut self, now: Time, budget: usize, net: &mut impl Effects) -> bool {
        let more = self.take_results(now, net);
        let BrokerNode { broker, reporter, operators } = self;
        broker.run(now, budget, &mut Wired { net, reporter, operators }) | more
    }

    /// Begins to end; see [`Broker::leave`].
    pub fn leave(&mut self, now: Time, net: &mut impl Effects) {
        self.broker
            .leave(now, &mut Wired { net, reporter: &mut self.reporter, operators: &mut self.operators });
    }

    /// Whether nothing keeps it any more; see [`Broker::has_left`].
    pub fn has_left(&self, now: Time) -> bool {
        self.broker.has_left(now, self.operators.is_idle())
    }

    /// Says farewell to everybody.
    pub fn say_farewell(&mut self, net: &mut impl Effects) {
        self.broker.say_farewell(&mut Wired {
            net,
            reporter: &mut self.reporter,
            operators: &mut self.operators,
        });
    }
}

impl<R: Reporter, O: Operators> Node for BrokerNode<R, O> {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        self.broker.handle_link(
            now,
            link,
            change,
            &mut Wired { net, reporter: &mut self.reporter, operators: &mut self.operators },
        );
    }

    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        self.broker.handle_dial_failed(
            now,
            peer,
            refused,
            &mut Wired { net, reporter: &mut self.reporter, operators: &mut self.operators },
        );
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        let mut out = Wired { net, reporter: &mut self.reporter, operators: &mut self.operators };
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
        self.broker.handle_timeout(
            now,
            &mut Wired { net, reporter: &mut self.reporter, operators: &mut self.operators },
        );
    }

    fn next_deadline(&self) -> Time {
        self.broker.next_deadline()
    }
}

/// The network, the reporter and the operators as one.
struct Wired<'a, N, R, O> {
    net: &'a mut N,
    reporter: &'a mut R,
    operators: &'a mut O,
}

impl<N: Effects, R: Reporter, O: Operators> Outputs for Wired<'_, N, R, O> {
    fn report(&mut self, event: &Event<'_>) {
        self.reporter.report(event);
    }

    fn bind(&mut self, topic: &str) -> Option<Processing> {
        self.operators.bind(topic)
    }

    fn unbind(&mut self, handle: u32) {
        self.operators.unbind(handle);
    }

    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool {
        self.operators.process(handle, message)
    }

    fn has_output(&mut self, output: u32) -> bool {
        self.operators.has_output(output)
    }

    fn release(&mut self, lineage: u32) {
        self.operators.release(lineage);
    }

    fn survey(&mut self, wanted: Range<u32>) -> Survey {
        self.operators.survey(wanted)
    }
}

impl<N: Effects, R, O> Effects for Wired<'_, N, R, O> {
    crate::node::effects_through!(net);
}
