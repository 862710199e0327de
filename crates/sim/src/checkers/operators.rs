//! What operators are given is what their configuration says, and so is what they make of it.
//!
//! Source: C1 to C4 (CPEP §2.3 and §2.4), computed here from the messages that events were made of, and not taken from
//! events: what is out of date or too far apart is shed, or marked; an event is used once by an operator; an input that
//! keeps the newest has the newest; a step is as urgent as the most urgent that wants its results. Where clocks are far apart,
//! times are not looked at: events from the future are taken for new.

use crate::ledger::Ledger;
use crate::operators::{Begun, Given, Part, Seen};
use crate::scenario::Scenario;
use contract::{Span, Time};
use processing::{GraphSpec, Join, Keep, Level, Marks, OperatorSpec, Place, Violation, captures};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "operators";
pub(super) const STATEMENT: &str =
    "operators use what is true, belongs together and is new, each event once, at their level";

/// An event of an operator's input: the operator, the input, and what the event was made of.
type Use = (Place, usize, Vec<Part>);

/// The graphs of a configuration.
#[derive(Clone)]
struct Plan {
    graphs: Vec<GraphSpec>,
    /// By operator: its graph, its place there, and its level.
    known: BTreeMap<String, (usize, usize, Level)>,
}

impl Plan {
    fn new(graphs: &[GraphSpec]) -> Plan {
        let mut known = BTreeMap::new();
        for (index, graph) in graphs.iter().enumerate() {
            for (place, operator) in graph.operators.iter().enumerate() {
                let level = urgency(graph, &operator.name).unwrap_or(Level(u8::MAX));
                known.insert(operator.name.clone(), (index, place, level));
            }
        }
        Plan { graphs: graphs.to_vec(), known }
    }
}

#[derive(Clone)]
pub(super) struct Operators {
    plans: Vec<Plan>,
    /// Which one each broker has.
    loaded: [usize; 2],
    used: [BTreeMap<Use, u32>; 2],
    /// Clocks are apart by little, so that events have the times of their messages.
    in_step: bool,
}

impl Operators {
    pub(super) fn new(scenario: &Scenario) -> Operators {
        let plans = scenario.plans().map(|graphs| Plan::new(graphs)).collect();
        Operators { plans, loaded: [0; 2], used: Default::default(), in_step: scenario.assumed }
    }

    /// A broker has these graphs from now on. Whoever is not among them runs no more.
    pub(super) fn loads(&mut self, host: usize, plan: usize) {
        self.loaded[host] = plan;
    }

    /// A broker's process begins anew.
    pub(super) fn begins_anew(&mut self, host: usize) {
        if let Some(used) = self.used.get_mut(host) {
            used.clear();
        }
    }

    pub(super) fn sees(
        &mut self,
        ledger: &Ledger,
        host: usize,
        local: Time,
        seen: &Seen,
    ) -> Result<(), String> {
        match seen {
            Seen::Begun(begun) => self.begins(ledger, host, local, begun),
            Seen::Result(result) => self.results(ledger, result),
        }
    }

    fn begins(&mut self, ledger: &Ledger, host: usize, local: Time, begun: &Begun) -> Result<(), String> {
        let name = begun.operator.split('[').next().unwrap_or_default();
        let plan = &self.plans[self.loaded[host]];
        let Some((graph, place, level)) = plan.known.get(name).copied() else {
            return Err(format!("`{name}` runs, and nobody configured it"));
        };
        let graph = &plan.graphs[graph];
        let operator = &graph.operators[place];
        if begun.place.level != level.0 {
            return Err(format!(
                "{name} runs at level {}, and is as urgent as level {}",
                begun.place.level, level.0
            ));
        }
        let truths: Vec<(Time, Time)> =
            begun.inputs.iter().map(|input| truth(graph, ledger, input)).collect::<Result<_, _>>()?;
        if self.in_step {
            in_time(operator, begun, &truths, local)?;
        }
        if operator.keep == Keep::Latest && operator.join == Join::All {
            for (input, offer) in begun.inputs.iter().zip(&begun.offers) {
                if let Some((newest, _)) = offer.filter(|(newest, _)| input.parts != [*newest]) {
                    return Err(format!("{name} uses {:?}, and {newest:?} is newer", input.parts));
                }
            }
        }
        for (input, offer) in begun.inputs.iter().zip(&begun.offers) {
            let Some((_, offered)) = offer else { continue };
            let used = self.used[host].entry((begun.place, input.slot, input.parts.clone())).or_default();
            *used += 1;
            if *used > *offered {
                return Err(format!("{name} uses {:?} again", input.parts));
            }
        }
        Ok(())
    }

    /// C2: a result is true while all that it was made of is.
    fn results(&self, ledger: &Ledger, result: &Given) -> Result<(), String> {
        let parts = &result.parts;
        let streams: Option<Vec<_>> = parts.iter().map(|(stream, _)| ledger.stream(*stream)).collect();
        // The number of a stream of results stands for the message.
        let origins = streams.into_iter().flatten().zip(parts);
        let begins = origins.map(|(stream, (_, seq))| stream.message(*seq).map(|message| message.stamped));
        match begins.collect::<Option<Vec<_>>>().and_then(|begins| begins.into_iter().max()) {
            None => Err(format!("a result was made of {parts:?}, which nobody published")),
            Some(newest) if newest != result.begins && self.in_step => Err(format!(
                "a result of {parts:?} is true from {:?} on, and not from {newest:?}",
                result.begins
            )),
            Some(_) => Ok(()),
        }
    }
}

/// C4, the naive way: the most urgent consumer that anything leads to.
fn urgency(graph: &GraphSpec, operator: &str) -> Option<Level> {
    let own =
        graph.consumers.iter().filter(|consumer| consumer.from == operator).map(|consumer| consumer.level);
    let fed = graph.operators.iter().filter(|other| other.inputs.iter().any(|input| input == operator));
    own.chain(fed.filter_map(|other| urgency(graph, &other.name))).min()
}

/// From when to when an event is true, by what it was made of (C1, C2).
fn truth(graph: &GraphSpec, ledger: &Ledger, event: &Given) -> Result<(Time, Time), String> {
    let mut truth = (Time::ZERO, Time::NEVER);
    for (number, seq) in &event.parts {
        let stream = ledger.stream(*number);
        let message = stream.and_then(|stream| stream.message(*seq));
        let Some((stream, message)) = stream.zip(message) else {
            return Err(format!("an event was made of #{seq} of stream {number}, which nobody published"));
        };
        let supplier =
            graph.suppliers.iter().find(|supplier| captures(&supplier.name, &stream.topic).is_some());
        let validity = supplier.map_or(Span::FOREVER, |supplier| supplier.validity);
        truth = (truth.0.max(message.stamped), truth.1.min(message.stamped + validity));
    }
    Ok(truth)
}

/// C1 and C3 for what an operator was given.
fn in_time(
    operator: &OperatorSpec,
    begun: &Begun,
    truths: &[(Time, Time)],
    local: Time,
) -> Result<(), String> {
    let name = &operator.name;
    let (begins, ends) = truths
        .iter()
        .fold((Time::ZERO, Time::NEVER), |(begins, ends), truth| (begins.max(truth.0), ends.min(truth.1)));
    let outdated = local >= ends || begins >= ends;
    let apart = operator.join == Join::All
        && operator.sets.iter().any(|set| {
            let places =
                set.inputs.iter().filter_map(|input| operator.inputs.iter().position(|own| own == input));
            let times: Vec<Time> =
                places.filter_map(|place| truths.get(place)).map(|truth| truth.0).collect();
            let spread =
                times.iter().max().zip(times.iter().min()).map(|(newest, oldest)| newest.since(*oldest));
            spread.is_some_and(|spread| spread > set.within)
        });
    let inherited = begun.inputs.iter().fold(Marks::NONE, |marks, input| marks.with(input.marks));
    let has = |mark| begun.marks.contains(mark) && !inherited.contains(mark);
    match operator.violation {
        Violation::Shed if outdated => Err(format!("{name} runs on what is out of date")),
        Violation::Shed if apart => Err(format!("{name} runs on what is too far apart")),
        Violation::Mark if outdated && !begun.marks.contains(Marks::OUT_OF_DATE) => {
            Err(format!("{name} does not mark what is out of date"))
        }
        Violation::Mark if apart && !begun.marks.contains(Marks::APART) => {
            Err(format!("{name} does not mark what is too far apart"))
        }
        _ if has(Marks::OUT_OF_DATE) && !outdated => Err(format!("{name} marks as out of date what is true")),
        _ if has(Marks::APART) && !apart => {
            Err(format!("{name} marks as too far apart what belongs together"))
        }
        _ => Ok(()),
    }
}
