//! Event processing as a part of a broker: messages become events, results become messages.

use crate::broker_node::Reporter;
use broker::{Outcome, Processed, Processing};
use contract::{Receipt, Span, Time};
use std::sync::Arc;
use stream::{
    Change, Crew, Event, GraphError, GraphSpec, Marks, Number, Output, Product, Router, SharedFactory, Supply,
};
use wire::MessageFlags;

/// The operators of a broker, as it is wired to them.
pub trait Operators {
    /// A topic has come. `Some`: its messages are to be processed.
    fn bind(&mut self, topic: &str) -> Option<Processing>;

    /// A topic has gone, or has been bound anew.
    fn unbind(&mut self, handle: u32);

    /// Gives a message to the operators that its topic feeds. `false`: they cannot take it.
    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool;

    /// A result has been dispatched, or never will be.
    fn release(&mut self, lineage: u32);

    /// A message with which operators are done.
    fn processed(&mut self) -> Option<Receipt>;

    /// The next result. What it is made of is kept until its lineage is released.
    fn next_result(&mut self, now: Time, reporter: &mut impl Reporter) -> Option<Made>;

    /// Whether everything that could be done has been.
    fn is_idle(&self) -> bool;
}

/// A broker without operators.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOperators;

impl Operators for NoOperators {
    fn bind(&mut self, _topic: &str) -> Option<Processing> {
        None
    }
    fn unbind(&mut self, _handle: u32) {}
    fn process(&mut self, _handle: u32, _message: &Processed<'_>) -> bool {
        false
    }
    fn release(&mut self, _lineage: u32) {}
    fn processed(&mut self) -> Option<Receipt> {
        None
    }
    fn next_result(&mut self, _now: Time, _reporter: &mut impl Reporter) -> Option<Made> {
        None
    }
    fn is_idle(&self) -> bool {
        true
    }
}

/// The operators of the configured graphs, with a crew that runs them.
pub struct Processor<C> {
    router: Router,
    crew: C,
    /// Results that are being published, by lineage.
    kept: Vec<Option<Event>>,
    free: Vec<u32>,
}

/// A result, and where it is to be published.
#[derive(Clone, Debug)]
pub struct Made {
    lineage: u32,
    number: u32,
    output: Arc<Output>,
    event: Event,
}

impl Made {
    /// As the broker takes it.
    pub(crate) fn outcome(&self) -> Outcome<'_> {
        let Made { output, event, .. } = self;
        let mut flags = MessageFlags::NONE;
        for (mark, flag) in
            [(Marks::OUT_OF_DATE, MessageFlags::OUT_OF_DATE), (Marks::APART, MessageFlags::APART)]
        {
            flags = if event.marks.contains(mark) { flags.with(flag) } else { flags };
        }
        Outcome {
            output: self.number,
            topic: &output.topic,
            period: output.period,
            deadline: output.deadline,
            gapless: output.gapless,
            stream: event.number.stream,
            incarnation: event.number.incarnation,
            seq: event.number.seq,
            created: event.validity.begins,
            flags,
            payload: &event.payload,
            lineage: self.lineage,
        }
    }
}

/// Between two reports of the same operator's failures.
const TELL_EVERY: Span = Span::secs(60);

impl<C: Crew> Processor<C> {
    /// Without graphs. `levels`: how many there are. `limit`: messages that may be under way at once.
    pub fn new(factory: SharedFactory, levels: u8, limit: usize, crew: C) -> Processor<C> {
        Processor { router: Router::new(factory, levels, limit), crew, kept: Vec::new(), free: Vec::new() }
    }

    /// Changes the graphs; see [`Router::change`]. The broker has to bind its topics anew.
    pub fn change(&mut self, graphs: Vec<GraphSpec>) -> Result<Change, Vec<GraphError>> {
        self.router.change(graphs)
    }

    /// What is processed, and where.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Who runs it.
    pub fn crew(&mut self) -> &mut C {
        &mut self.crew
    }
}

impl<C: Crew> Operators for Processor<C> {
    fn bind(&mut self, topic: &str) -> Option<Processing> {
        let bound = self.router.bind(topic, &mut self.crew)?;
        Some(Processing { handle: bound.handle, within: bound.within })
    }

    fn unbind(&mut self, handle: u32) {
        self.router.unbind(handle, &mut self.crew);
    }

    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool {
        let Processed { receipt, incarnation, message } = *message;
        let number = Number { stream: message.stream, incarnation, seq: message.seq };
        let supply = Supply { receipt, number, created: message.created, payload: message.payload };
        self.router.supply(handle, &supply, &mut self.crew)
    }

    fn release(&mut self, lineage: u32) {
        if self.kept.get_mut(lineage as usize).and_then(Option::take).is_some() {
            self.free.push(lineage);
        }
    }

    fn processed(&mut self) -> Option<Receipt> {
        self.router.processed()
    }

    fn next_result(&mut self, now: Time, reporter: &mut impl Reporter) -> Option<Made> {
        loop {
            match self.crew.collect()? {
                Product::Result(outlet, event) => {
                    // Its graph may have been taken away meanwhile.
                    let Some(output) = self.router.output(outlet.output) else { continue };
                    let lineage = self.free.pop().unwrap_or_else(|| {
                        self.kept.push(None);
                        self.kept.len() as u32 - 1
                    });
                    self.kept[lineage as usize] = Some(event.clone());
                    return Some(Made { lineage, number: outlet.output, output: Arc::clone(output), event });
                }
                Product::Fault { operator, stats, fault } if stats.tell(now, TELL_EVERY) => {
                    let (reason, faults) = (fault.to_string(), stats.counts().faults);
                    reporter.report(&broker::Event::OperatorFailed {
                        operator: &operator,
                        reason: &reason,
                        faults,
                    });
                }
                Product::Fault { .. } => {}
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.crew.is_idle()
    }
}
