//! What a function does with a message: rules judge it, or an operator makes something of it.

use crate::outlets::{Alarms, Outlet, Starter};
use crate::runner::Hosting;
use crate::running::Running;
use crate::spec::{OperatorSpec, Rule};
use contract::{Span, Time};
use peer_host::Journal;
use processing::quality::{Quality, Serves};
use processing::{Answer, Input, Operator};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use verge::{Client, Error, Message, Peers};

/// Does something with messages.
pub(crate) trait Doing {
    /// Takes one. An error ends the function, which begins anew.
    /// So many others wait behind it.
    fn take(&mut self, message: &Message, behind: usize) -> Result<(), String>;
}

/// Whether brokers have refused a topic that they had admitted. All is opened anew then.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::NotPublished(verge::PublishError::Refused(_)) | Error::Refused { .. })
}

/// What rules do.
pub(crate) struct Judging<'a> {
    running: &'a Running,
    rules: Vec<(&'a Rule, Outlet, Option<Starter>)>,
    alarms: Alarms,
    peers: Peers,
    journal: Arc<dyn Journal>,
}

impl<'a> Judging<'a> {
    /// Opens what they need.
    pub(crate) fn begin(
        running: &'a Running,
        rules: &'a [Rule],
        (client, peers, hosting): (&Client, &Peers, &Hosting),
    ) -> Result<Judging<'a>, Error> {
        let open = |rule: &'a Rule| {
            let whose = format!("function {}, rule {}", running.duty.name, rule.when.name);
            let outlet = Outlet::open(whose, &rule.outlet, (client, peers, hosting))?;
            let starter = rule.start.as_ref().map(|(name, lasts)| Starter::new(name, *lasts));
            Ok((rule, outlet, starter))
        };
        let rules = rules.iter().map(open).collect::<Result<_, Error>>()?;
        let journal = Arc::clone(&hosting.journal);
        Ok(Judging { running, rules, alarms: Alarms::new(), peers: peers.clone(), journal })
    }
}

impl Doing for Judging<'_> {
    fn take(&mut self, message: &Message, _behind: usize) -> Result<(), String> {
        let Some(index) = self.running.judge(message) else { return Ok(()) };
        let Some((rule, outlet, starter)) = self.rules.get_mut(index) else { return Ok(()) };
        let said = rule.say.as_ref().map_or(&*message.payload, |text| text.as_bytes());
        let words = |error: Error| error.to_string();
        // Somebody may have stopped it meanwhile. Of one that is given nothing nobody knows.
        let is_there = !outlet.gives() || outlet.is_wanted();
        let started =
            starter.as_mut().map_or(Ok(false), |starter| starter.start(&self.peers, is_there)).map_err(words);
        let has_come = started != Ok(true) || !outlet.gives() || outlet.wait();
        let published = outlet.publish(said);
        let nobody = if starter.is_some() && outlet.gives() && !(has_come && outlet.is_wanted()) {
            Err("what it has started does not want what it gives".to_owned())
        } else {
            Ok(())
        };
        let alarmed = if rule.alarm {
            let whose =
                format!("function {}, rule {}, {}", self.running.duty.name, rule.when.name, message.topic);
            self.alarms.say(&*self.journal, &whose, said)
        } else {
            Ok(())
        };
        let is_refused = matches!(&published, Err(error) if is_refused(error));
        match started.and(published.map_err(words)).and(nobody).and(alarmed) {
            Ok(()) => self.running.count(),
            Err(why) => {
                self.running.fail(Some(index), why.clone());
                if is_refused {
                    return Err(format!("rule {}: {why}", rule.when.name));
                }
            }
        }
        Ok(())
    }
}

/// What an operator does.
pub(crate) struct Making<'a> {
    running: &'a Running,
    outlet: Outlet,
    operator: Box<dyn Operator>,
    /// One that takes less time, and which of the two serves.
    cheaper: Option<(Box<dyn Operator>, Quality)>,
    budget: Span,
    since: Instant,
    result: Vec<u8>,
}

impl<'a> Making<'a> {
    /// Opens what it needs.
    pub(crate) fn begin(
        running: &'a Running,
        spec: &OperatorSpec,
        (operator, cheaper): (Box<dyn Operator>, Option<Box<dyn Operator>>),
        around: (&Client, &Peers, &Hosting),
    ) -> Result<Making<'a>, Error> {
        let outlet = Outlet::open(format!("function {}", running.duty.name), &spec.outlet, around)?;
        let budget = spec.cheaper.as_ref().map_or(Span::ZERO, |cheaper| cheaper.budget);
        let cheaper = cheaper.map(|operator| (operator, Quality::new(budget)));
        Ok(Making { running, outlet, operator, cheaper, budget, since: Instant::now(), result: Vec::new() })
    }

    /// Time since it began.
    fn now(&self) -> Time {
        Time(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Runs one of its operators, and publishes what that says. Returns whether it has said something.
    fn serve(&mut self, message: &Message, by: Option<Serves>) -> Result<bool, String> {
        self.result.clear();
        let operator = match (&mut self.cheaper, by) {
            (Some((cheaper, _)), Some(Serves::Cheaper)) => cheaper,
            _ => &mut self.operator,
        };
        let input = Input { slot: 0, payload: &message.payload, created: Time(message.created.0) };
        // One that panics begins anew, and its peer goes on.
        let run = catch_unwind(AssertUnwindSafe(|| operator.run(&[input], &mut self.result)));
        let Ok(answer) = run else { return Err("its operator panicked".to_owned()) };
        self.running.see(message, by, answer.clone().map_err(|fault| fault.to_string()));
        if answer == Ok(Answer::Result) {
            match self.outlet.publish(&self.result) {
                Ok(()) => {
                    self.running.count();
                    return Ok(true);
                }
                Err(error) => {
                    self.running.fail(None, error.to_string());
                    if is_refused(&error) {
                        return Err(error.to_string());
                    }
                }
            }
        }
        Ok(false)
    }
}

fn span(passed: Duration) -> Span {
    Span(i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX))
}

impl Doing for Making<'_> {
    fn take(&mut self, message: &Message, behind: usize) -> Result<(), String> {
        let began = self.now();
        let Some((_, quality)) = &mut self.cheaper else { return self.serve(message, None).map(drop) };
        let by = quality.choose(began, span(message.arrived.elapsed()), behind);
        let has_said = self.serve(message, Some(by))?;
        let ended = self.now();
        if let Some((_, quality)) = &mut self.cheaper {
            quality.note(ended, by, ended.since(began));
            let is_late = has_said && span(message.arrived.elapsed()) > self.budget;
            self.running.count_served(is_late, quality.p99());
        }
        Ok(())
    }
}
