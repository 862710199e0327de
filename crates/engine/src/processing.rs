//! Event processing as a part of a broker: messages become events, results become messages.

use crate::reporter::Reporter;
use broker::{FAILING_MAX, Failing, FailureCause, OTHERS, Outcome, Processed, Processing, Survey};
use contract::{Mutant, Receipt, Span, StreamId, Time};
use processing::{
    Bound, Cause, Change, Counts, Crew, Event, Fault, GraphError, GraphSpec, Kept, Marks, Number,
    OperatorRow, Output, Overdue, Product, Router, SharedFactory, Supply, Unkept,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use wire::{LevelStatus, LevelStatuses, MessageFlags, OperatorStatus, OperatorStatuses};

/// The operators of a broker, as it is wired to them.
pub trait Operators {
    /// A topic has come. `Some`: its messages are to be processed.
    fn bind(&mut self, topic: &str) -> Option<Processing>;

    /// A filter whose topics they take now, or take no longer; `None`: there are no more.
    fn next_stirred(&mut self) -> Option<(Box<str>, bool)>;

    /// A topic has gone, or has been bound anew.
    fn unbind(&mut self, handle: u32);

    /// Gives a message to the operators that its topic feeds. `false`: they cannot take it.
    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool;

    /// Whether there still is an output of this number.
    fn has_output(&self, output: u32) -> bool;

    /// A result has been dispatched, or never will be.
    fn release(&mut self, lineage: u32);

    /// A result has been sent to everybody who reads, and waits for others. What its operators remember need not wait for those.
    fn offered(&mut self, lineage: u32);

    /// A message with which operators are done.
    fn processed(&mut self) -> Option<Receipt>;

    /// The next result. What it is made of is kept until its lineage is released.
    fn next_result(&mut self, now: Time, reporter: &mut impl Reporter) -> Option<Made>;

    /// Somebody who will keep what operators remember has come, or nobody is there any more.
    fn keep_for(&mut self, somebody: bool);

    /// Whoever keeps it understands it now, and has nothing yet.
    fn keep_all(&mut self);

    /// Whether whoever has just come has been told everything that operators remember.
    fn is_kept(&self) -> bool;

    /// Whether there is anything that remembers.
    fn remembers(&self) -> bool;

    /// What an instance remembers, to be sent to whoever keeps it.
    fn next_kept(&mut self) -> Option<Kept>;

    /// An instance of which it cannot be said what it remembers.
    fn next_unkept(&mut self, now: Time, reporter: &mut impl Reporter) -> Option<Unkept>;

    /// What an instance is to remember. `ours`: our numbers for the streams of whoever says so.
    fn recall(&mut self, now: Time, instance: &str, picture: &[u8], ours: &dyn Fn(u32) -> Option<StreamId>);

    /// This broker does not reign any more.
    fn step_down(&mut self, now: Time);

    /// When there is something to do although nothing comes.
    fn next_deadline(&self) -> Time;

    /// Whether everything that could be done has been.
    fn is_idle(&self) -> bool;

    /// What they do, with these of their rows, and levels with the first. It waits for nobody.
    fn survey(&self, wanted: Range<u32>) -> Survey;
}

/// A broker without operators.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOperators;

impl Operators for NoOperators {
    fn bind(&mut self, _topic: &str) -> Option<Processing> {
        None
    }
    fn next_stirred(&mut self) -> Option<(Box<str>, bool)> {
        None
    }
    fn unbind(&mut self, _handle: u32) {}
    fn process(&mut self, _handle: u32, _message: &Processed<'_>) -> bool {
        false
    }
    fn has_output(&self, _output: u32) -> bool {
        false
    }
    fn release(&mut self, _lineage: u32) {}
    fn processed(&mut self) -> Option<Receipt> {
        None
    }
    fn next_result(&mut self, _now: Time, _reporter: &mut impl Reporter) -> Option<Made> {
        None
    }
    fn offered(&mut self, _lineage: u32) {}
    fn keep_for(&mut self, _somebody: bool) {}
    fn keep_all(&mut self) {}
    fn is_kept(&self) -> bool {
        true
    }
    fn remembers(&self) -> bool {
        false
    }
    fn next_kept(&mut self) -> Option<Kept> {
        None
    }
    fn next_unkept(&mut self, _now: Time, _reporter: &mut impl Reporter) -> Option<Unkept> {
        None
    }
    fn recall(
        &mut self,
        _now: Time,
        _instance: &str,
        _picture: &[u8],
        _ours: &dyn Fn(u32) -> Option<StreamId>,
    ) {
    }
    fn step_down(&mut self, _now: Time) {}
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
    fn survey(&self, _wanted: Range<u32>) -> Survey {
        Survey::default()
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
    told: ToldOfEvents,
    /// Filters whose topics are taken, and those of which that has changed.
    taken: BTreeSet<Box<str>>,
    stirred: Vec<(Box<str>, bool)>,
}

/// What was last told of events.
#[derive(Clone, Copy, Debug, Default)]
struct ToldOfEvents {
    /// When, and how many had been made beyond what is kept.
    at: Time,
    beyond: u64,
    /// When an instance was last named whose memory could not be copied.
    unkept_at: Time,
    /// How many messages may be under way at once by what was said of topics.
    needed: u64,
}

/// A result, and where it is to be published.
#[derive(Clone, Debug)]
pub struct Made {
    lineage: u32,
    number: u32,
    output: Arc<Output>,
    event: Event,
    /// What is wrong with it by now.
    marks: Marks,
}

impl Made {
    /// As the broker takes it.
    pub(crate) fn outcome(&self) -> Outcome<'_> {
        let Made { output, event, marks, .. } = self;
        let mut flags = MessageFlags::NONE;
        for (mark, flag) in
            [(Marks::OUT_OF_DATE, MessageFlags::OUT_OF_DATE), (Marks::APART, MessageFlags::APART)]
        {
            flags = if marks.contains(mark) { flags.with(flag) } else { flags };
        }
        Outcome {
            output: self.number,
            topic: &output.topic,
            period: output.period,
            deadline: output.deadline,
            gaps: output.gaps.as_deref(),
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
        Processor {
            router: Router::new(factory, levels, limit),
            crew,
            kept: Vec::new(),
            free: Vec::new(),
            told: ToldOfEvents::default(),
            taken: BTreeSet::new(),
            stirred: Vec::new(),
        }
    }

    /// From one picture of what an instance remembers to the next.
    pub fn set_interval(&mut self, interval: Span) {
        self.router.set_interval(interval);
    }

    /// Changes the graphs; see [`Router::change`]. The broker has to bind its topics anew.
    pub fn change(&mut self, graphs: Vec<GraphSpec>) -> Result<Change, Vec<GraphError>> {
        let suppliers = graphs.iter().flat_map(|graph| &graph.suppliers);
        let taken: BTreeSet<Box<str>> = suppliers.map(|supplier| supplier.name.as_str().into()).collect();
        let change = self.router.change(graphs)?;
        let before = std::mem::replace(&mut self.taken, taken);
        self.stirred.extend(before.difference(&self.taken).map(|filter| (filter.clone(), false)));
        self.stirred.extend(self.taken.difference(&before).map(|filter| (filter.clone(), true)));
        Ok(change)
    }

    /// Graphs that begin from now on are set up by this. Those that go on keep what set them up.
    pub fn set_factory(&mut self, factory: SharedFactory) {
        self.router.set_factory(factory);
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

impl<C: Crew> Processor<C> {
    /// Tells the admin that more events are in use than graphs keep, or that there will be.
    fn tell_of_events(&mut self, now: Time, reporter: &mut impl Reporter) {
        let beyond = self.router.beyond();
        let (needed, permitted) = self.router.needed();
        if needed != self.told.needed {
            self.told.needed = needed;
            if needed > permitted {
                reporter.report(&broker::Event::EventsShort { needed, permitted });
            }
        }
        let recent = self.told.at <= now && now < self.told.at + TELL_EVERY;
        if beyond != self.told.beyond && !recent {
            let more = beyond - self.told.beyond;
            (self.told.at, self.told.beyond) = (now, beyond);
            reporter.report(&broker::Event::EventsBeyond { events: more });
        }
    }

    /// A level without its operators.
    fn level(&self, level: u8) -> LevelStatus {
        let strain = self.crew.strain(level);
        LevelStatus { level, refused: strain.refused, overdue: strain.overdue, ..LevelStatus::default() }
    }
}

fn append(rows: &mut Vec<u8>, row: &OperatorRow<'_>) {
    let Counts { counters, busy, worst } = row.counts;
    let status = OperatorStatus { name: &row.to_string(), level: row.level, counters, busy, worst };
    OperatorStatuses::append(rows, &status);
}

fn cause_of(fault: &Fault) -> FailureCause {
    match fault.cause() {
        Cause::Budget => FailureCause::Budget,
        Cause::Trap => FailureCause::Trap,
        Cause::Refused => FailureCause::Refused,
    }
}

/// Adds the failed runs of an operator to those of its name, whatever stands in the places of `+`.
fn note(failing: &mut Vec<Failing>, name: &str, faults: [u64; 3]) {
    let known = failing.iter().position(|one| one.operator == name);
    let index = known.unwrap_or_else(|| {
        // The last place is that of all others.
        if failing.len() <= FAILING_MAX {
            let operator = if failing.len() < FAILING_MAX { name } else { OTHERS };
            failing.push(Failing { operator: operator.to_owned(), faults: [0; 3] });
        }
        failing.len() - 1
    });
    failing[index].faults.iter_mut().zip(faults).for_each(|(sum, more)| *sum += more);
}

impl<C: Crew> Operators for Processor<C> {
    fn bind(&mut self, topic: &str) -> Option<Processing> {
        let bound = self.router.bind(topic, &mut self.crew)?;
        let Bound { handle, within, remembers } = bound;
        Some(Processing { handle, within, remembers })
    }

    fn next_stirred(&mut self) -> Option<(Box<str>, bool)> {
        self.stirred.pop()
    }

    fn unbind(&mut self, handle: u32) {
        self.router.unbind(handle, &mut self.crew);
    }

    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool {
        let Processed { receipt, incarnation, message } = *message;
        let number = Number { stream: receipt.stream, incarnation, seq: message.seq };
        let supply = Supply { receipt, number, created: message.created, payload: message.payload };
        self.router.supply(handle, &supply, &mut self.crew)
    }

    fn has_output(&self, output: u32) -> bool {
        self.router.output(output).is_some()
    }

    fn release(&mut self, lineage: u32) {
        if self.kept.get_mut(lineage as usize).and_then(Option::take).is_some() {
            self.free.push(lineage);
        }
    }

    fn offered(&mut self, lineage: u32) {
        if let Some(Some(event)) = self.kept.get_mut(lineage as usize) {
            event.rests();
        }
    }

    fn processed(&mut self) -> Option<Receipt> {
        self.router.processed()
    }

    fn next_result(&mut self, now: Time, reporter: &mut impl Reporter) -> Option<Made> {
        loop {
            let Some(product) = self.crew.collect() else {
                while let Some(overdue) = self.crew.overdue() {
                    let Overdue { operator, level, limit, replaced } = overdue;
                    let operator = &*operator;
                    reporter.report(&broker::Event::OperatorOverdue { operator, level, limit, replaced });
                }
                self.tell_of_events(now, reporter);
                self.router.tend_pictures(now, &mut self.crew);
                return None;
            };
            match product {
                Product::Result(outlet, event) => {
                    // Its graph may have been taken away meanwhile.
                    let Some(output) = self.router.output(outlet.output) else { continue };
                    let Some(marks) = output.check(now, &event) else { continue };
                    let lineage = self.free.pop().unwrap_or_else(|| {
                        self.kept.push(None);
                        self.kept.len() as u32 - 1
                    });
                    self.kept[lineage as usize] = Some(event.clone());
                    return Some(Made {
                        lineage,
                        number: outlet.output,
                        output: Arc::clone(output),
                        event,
                        marks,
                    });
                }
                Product::Fault { operator, stats, fault } if stats.tell(now, TELL_EVERY) => {
                    let (reason, counts) = (fault.to_string(), stats.counts());
                    let budget = match fault {
                        Fault::Runaway { budget } => Some(budget),
                        _ => None,
                    };
                    reporter.report(&broker::Event::OperatorFailed {
                        operator: &operator,
                        cause: cause_of(&fault),
                        reason: &reason,
                        budget,
                        faults: counts.by_cause(),
                    });
                }
                Product::Fault { .. } => {}
                Product::Overran { operator, took, cost, .. } => {
                    let operator = &*operator;
                    reporter.report(&broker::Event::OperatorSlow { operator, took, cost });
                }
                Product::Saved { place, ticket, memory } => {
                    self.router.saved(place, ticket, memory, &mut self.crew);
                }
            }
        }
    }

    fn keep_for(&mut self, somebody: bool) {
        self.router.want_pictures(somebody, &mut self.crew);
    }

    fn keep_all(&mut self) {
        self.router.retake_pictures();
    }

    fn is_kept(&self) -> bool {
        self.router.is_kept()
    }

    fn remembers(&self) -> bool {
        self.router.remembers()
    }

    fn next_kept(&mut self) -> Option<Kept> {
        self.router.next_kept()
    }

    fn next_unkept(&mut self, now: Time, reporter: &mut impl Reporter) -> Option<Unkept> {
        let unkept = self.router.next_unkept()?;
        let recent = self.told.unkept_at <= now && now < self.told.unkept_at + TELL_EVERY;
        if !recent {
            self.told.unkept_at = now;
            let (operator, reason) = (&*unkept.operator, &*unkept.fault.to_string());
            reporter.report(&broker::Event::OperatorForgets { operator, reason });
        }
        Some(unkept)
    }

    fn recall(&mut self, now: Time, instance: &str, picture: &[u8], ours: &dyn Fn(u32) -> Option<StreamId>) {
        if !Mutant::ForgetMemories.is_on() {
            self.router.recall(now, instance, picture, ours, &mut self.crew);
        }
    }

    fn step_down(&mut self, now: Time) {
        self.router.step_down(now, &mut self.crew);
    }

    fn next_deadline(&self) -> Time {
        self.router.next_deadline()
    }

    fn is_idle(&self) -> bool {
        self.crew.is_idle()
    }

    fn survey(&self, wanted: Range<u32>) -> Survey {
        let mut survey = Survey {
            under_way: self.router.under_way() as u64,
            events_beyond: self.router.beyond(),
            ..Survey::default()
        };
        let mut levels: Vec<LevelStatus> = (0..self.router.levels()).map(|level| self.level(level)).collect();
        for (number, row) in (0_u32..).zip(self.router.rows()) {
            survey.operators += 1;
            if let Some(level) = levels.get_mut(usize::from(row.level)) {
                level.operators += 1;
                level.busy += row.counts.busy;
                level.worst = level.worst.max(row.counts.worst);
            }
            if row.counts.counters.faults > 0 {
                note(&mut survey.failing, row.name, row.counts.by_cause());
            }
            if wanted.contains(&number) {
                append(&mut survey.rows, &row);
            }
        }
        if wanted.contains(&0) {
            let nothing =
                |level: &LevelStatus| level.operators == 0 && level.refused == 0 && level.overdue == 0;
            let shown = levels.iter().filter(|level| !nothing(level));
            shown.for_each(|level| LevelStatuses::append(&mut survey.levels, level));
        }
        survey
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeepsNothing, KnowsEverybody};
    use processing::{
        BuiltIn, ConsumerSpec, Join, Keep, Level, OperatorSpec, Parameters, PayloadType, Place, Route,
        Station, Strain, Streams, SupplierSpec, Violation,
    };
    use wire::Message;

    /// Runs nothing, and says that it has refused something in level 1.
    struct Idle;

    impl Crew for Idle {
        fn add(&mut self, _station: Box<Station>) {}
        fn remove(&mut self, _place: Place) {}
        fn offer(&mut self, _route: Route, _event: Event) -> bool {
            true
        }
        fn save(&mut self, _place: Place, _ticket: u32) {}
        fn restore(&mut self, _place: Place, _memory: Vec<u8>, _streams: Streams) {}
        fn collect(&mut self) -> Option<Product> {
            None
        }
        fn is_idle(&self) -> bool {
            true
        }
        fn strain(&self, level: u8) -> Strain {
            Strain { refused: u64::from(level == 1), overdue: 0 }
        }
    }

    fn spec() -> GraphSpec {
        let supplier = SupplierSpec {
            name: "t/+".to_owned(),
            payload: "f64".parse::<PayloadType>().unwrap(),
            validity: Span::FOREVER,
            period: Span::millis(1),
        };
        let operator = OperatorSpec {
            name: "same".to_owned(),
            kind: "scale".to_owned(),
            parameters: Parameters::default(),
            inputs: vec!["t/+".to_owned()],
            join: Join::All,
            violation: Violation::Mark,
            sets: Vec::new(),
            keep: Keep::Latest,
            cost: None,
        };
        let consumer = ConsumerSpec {
            name: "out/+".to_owned(),
            from: "same".to_owned(),
            level: Level(0),
            deadline: Span::FOREVER,
        };
        GraphSpec { suppliers: vec![supplier], operators: vec![operator], consumers: vec![consumer] }
    }

    #[test]
    fn operators_are_shown_page_by_page_and_levels_with_the_first() {
        let mut processor = Processor::new(Arc::new(BuiltIn), 3, 16, Idle);
        processor.change(vec![spec()]).unwrap();
        for number in 0..5 {
            processor.bind(&format!("t/{number}")).unwrap();
        }
        let mut names = Vec::new();
        for first in [0, 2, 4, 6] {
            let survey = processor.survey(first..first + 2);
            assert_eq!((survey.operators, survey.under_way), (5, 0));
            names.extend(OperatorStatuses::of(&survey.rows).map(|row| row.name.to_owned()));
            let levels: Vec<(u8, u32, u64)> = LevelStatuses::of(&survey.levels)
                .map(|level| (level.level, level.operators, level.refused))
                .collect();
            let expected: &[(u8, u32, u64)] = if first == 0 { &[(0, 5, 0), (1, 0, 1)] } else { &[] };
            assert_eq!(levels, expected);
        }
        assert_eq!(names, ["same[0]", "same[1]", "same[2]", "same[3]", "same[4]"]);
        assert!(processor.survey(0..0).rows.is_empty(), "none asked for");
        assert!(processor.survey(0..2).failing.is_empty(), "none has failed");
    }

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl KeepsNothing for Heard {}
    impl KnowsEverybody for Heard {}

    impl Reporter for Heard {
        fn report(&mut self, event: &broker::Event<'_>) {
            self.0.push(event.kind().to_owned());
        }

        fn next_alarm(&mut self, _out: &mut String) -> bool {
            false
        }

        fn tidy(&mut self, _freed: usize) {}
    }

    #[test]
    fn more_messages_than_may_be_under_way_are_told_before_the_first_is_lost() {
        let mut processor = Processor::new(Arc::new(BuiltIn), 3, 16, Idle);
        processor.change(vec![spec()]).unwrap();
        let (mut heard, now) = (Heard::default(), Time(1_000_000_000_000));
        let handles: Vec<u32> =
            (0..16).map(|number| processor.bind(&format!("t/{number}")).unwrap().handle).collect();
        assert!(processor.next_result(now, &mut heard).is_none());
        assert_eq!(heard.0, [""; 0], "one for each topic, since no deadline is said");
        processor.bind("t/16").unwrap();
        (0..2).for_each(|_| assert!(processor.next_result(now, &mut heard).is_none()));
        assert_eq!(heard.0, ["events_short"], "once");
        handles.iter().for_each(|handle| processor.unbind(*handle));
        assert_eq!(processor.router().needed(), (1, 16));
    }

    #[test]
    fn events_beyond_what_is_kept_are_counted_and_told_once_in_a_while() {
        let mut graph = spec();
        graph.suppliers[0].validity = Span::millis(2);
        let mut processor = Processor::new(Arc::new(BuiltIn), 3, 16, Holds(Vec::new()));
        processor.change(vec![graph]).unwrap();
        let handle = processor.bind("t/0").unwrap().handle;
        let (mut heard, now) = (Heard::default(), Time(1_000_000_000_000));
        for seq in 0..8 {
            let message = Message { stream: 0, flags: MessageFlags::NONE, seq, created: now, payload: b"x" };
            let processed = Processed { receipt: Receipt::default(), incarnation: 0, message: &message };
            assert!(processor.process(handle, &processed));
            assert!(processor.next_result(now, &mut heard).is_none());
        }
        let ring = processor.router().graphs().next().unwrap().suppliers[0].ring as u64;
        assert_eq!(processor.survey(0..0).events_beyond, 8 - ring);
        assert_eq!(heard.0, ["events_beyond"]);
    }

    /// Keeps every event and never runs.
    struct Holds(Vec<Event>);

    impl Crew for Holds {
        fn add(&mut self, _station: Box<Station>) {}
        fn remove(&mut self, _place: Place) {}
        fn offer(&mut self, _route: Route, event: Event) -> bool {
            self.0.push(event);
            true
        }
        fn save(&mut self, _place: Place, _ticket: u32) {}
        fn restore(&mut self, _place: Place, _memory: Vec<u8>, _streams: Streams) {}
        fn collect(&mut self) -> Option<Product> {
            None
        }
        fn is_idle(&self) -> bool {
            true
        }
    }

    #[test]
    fn operators_that_fail_are_added_up_by_name_and_those_beyond_the_limit_as_others() {
        let mut failing = Vec::new();
        for round in 0..2 {
            for number in 0..FAILING_MAX + 3 {
                note(&mut failing, &format!("operator-{number}"), [1, round, number as u64]);
            }
        }
        assert_eq!(failing.len(), FAILING_MAX + 1);
        assert_eq!(failing[7], Failing { operator: "operator-7".to_owned(), faults: [2, 1, 14] });
        let others = (FAILING_MAX..FAILING_MAX + 3).sum::<usize>() as u64 * 2;
        assert_eq!(failing[FAILING_MAX], Failing { operator: OTHERS.to_owned(), faults: [6, 3, others] });
    }

    #[test]
    fn causes_have_the_same_order_everywhere() {
        let budget = Span::millis(1);
        let faults = [Fault::Runaway { budget }, Fault::Stopped("broke off"), Fault::Failed("no room")];
        assert_eq!(faults.map(|fault| cause_of(&fault)), FailureCause::ALL);
        let counts = Counts {
            counters: contract::OperatorCounters { faults: 6, runaways: 1, traps: 2, ..Default::default() },
            ..Counts::default()
        };
        assert_eq!(counts.by_cause(), [1, 2, 3]);
    }
}
