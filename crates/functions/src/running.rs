//! A function that runs: it looks at messages, and does what its rules say.

use crate::outlets::{Alarms, Outlet, shown};
use crate::runner::Hosting;
use crate::spec::FunctionSpec;
use contract::Time;
use peer_host::Duty;
use processing::rules::{RuleSet, Tuple, Verdict};
use report::{RuleReport, RunningReport, TracedReport, TracedRule};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use verge::{Found, Message, Peers};

/// How long it is waited before it is looked whether to end.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// How long it is waited before a function that could not run is tried again.
const RESTS: Duration = Duration::from_secs(2);
/// Messages that are remembered, and how long each may be for that.
const TRACED_MAX: usize = 64;
const TRACED_BYTES_MAX: usize = 16 << 10;
/// The most letters of a message that are shown.
const SHOWN_MAX: usize = 200;

/// A function that this peer runs.
pub(crate) struct Running {
    pub(crate) duty: Duty,
    ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    since: u64,
    trouble: Option<String>,
    messages: u64,
    unread: u64,
    dropped: u64,
    /// `None`: its text cannot be read.
    rules: Option<(FunctionSpec, RuleSet, Tuple)>,
    /// By rule, how often what it should have done could not be done, and why the last time.
    failed: Vec<(u64, Option<String>)>,
    traced: VecDeque<Traced>,
}

struct Traced {
    at: u64,
    topic: Arc<str>,
    message: Vec<u8>,
    is_whole: bool,
    verdict: Result<Verdict, String>,
}

/// Nanoseconds since the Unix epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

impl Running {
    /// One that is about to begin.
    pub(crate) fn new(duty: Duty, hosting: &Hosting) -> Running {
        let text = std::str::from_utf8(&duty.text).map_err(|error| error.to_string());
        let read = text.and_then(|text| {
            let spec = FunctionSpec::read(text, &hosting.space).map_err(|error| error.to_string())?;
            let rules = spec.set().map_err(|error| error.to_string())?;
            let tuple = rules.tuple();
            Ok((spec, rules, tuple))
        });
        let (rules, trouble) = match read {
            Ok(rules) => (Some(rules), Some("it is about to begin".to_owned())),
            Err(why) => (None, Some(why)),
        };
        let count = rules.as_ref().map_or(0, |(spec, ..)| spec.rules.len());
        let state = State {
            since: now(),
            trouble,
            messages: 0,
            unread: 0,
            dropped: 0,
            rules,
            failed: vec![(0, None); count],
            traced: VecDeque::new(),
        };
        Running { duty, ended: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// It ends soon.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs it until it is to end; what keeps it from running is tried again.
    pub(crate) fn run(&self, hosting: &Hosting, number: u64) {
        let Some(spec) = self.state().rules.as_ref().map(|(spec, ..)| spec.clone()) else {
            let why = self.state().trouble.clone().unwrap_or_default();
            return hosting.journal.warn(&format!("the function {} cannot be read: {why}", self.duty.name));
        };
        let mut said = None;
        while !self.has_ended() {
            let Err(why) = self.serve(&spec, hosting, number) else { return };
            self.state().trouble = Some(why.clone());
            if said.as_ref() != Some(&why) {
                hosting
                    .journal
                    .warn(&format!("the function {} does not run: {why}; it is tried again", self.duty.name));
                said = Some(why);
            }
            let rested = std::time::Instant::now() + RESTS;
            while !self.has_ended() && std::time::Instant::now() < rested {
                std::thread::sleep(LOOKS_EVERY);
            }
        }
    }

    fn serve(&self, spec: &FunctionSpec, hosting: &Hosting, number: u64) -> Result<(), String> {
        let words = |error: verge::Error| error.to_string();
        let name = &self.duty.name;
        let place = hosting.http.as_ref().ok_or("this peer has no `http`, where functions ask it")?;
        let peers = Peers::at(place).map_err(words)?;
        let client = (hosting.connect)(&format!("{}.{name}.{number}", hosting.peer))?;
        client.wait_for_primary().map_err(words)?;
        let outlets: Vec<Outlet> = { spec.rules.iter() }
            .map(|rule| Outlet::open(name, rule, (&client, &peers, hosting)).map_err(words))
            .collect::<Result<_, _>>()?;
        let (journal, whose) = (hosting.journal.clone(), Arc::clone(name));
        let found = client.interest_with(&peers, &spec.on, move |met| {
            if let verge::Met::Unfit { other, why } = met {
                journal.warn(&format!("function {whose}: `{other}` does not fit: {why}"));
            }
            if let verge::Met::Refused { topic, why } = met {
                journal.warn(&format!("function {whose}: {topic} is refused: {why}"));
            }
        });
        let found: Found = found.map_err(words)?;
        self.state().trouble = None;
        hosting.journal.note(&format!("function {name} runs"));
        let mut alarms = Alarms::new();
        while !self.has_ended() {
            let Some(message) = found.next_within(LOOKS_EVERY) else {
                client.check().map_err(words)?;
                found.check().map_err(words)?;
                self.state().dropped = found.dropped();
                continue;
            };
            let Some(index) = self.look(&message) else { continue };
            if let Some((rule, outlet)) = spec.rules.get(index).zip(outlets.get(index)) {
                let said = rule.say.as_ref().map_or(&*message.payload, |text| text.as_bytes());
                let published = outlet.publish(said).map_err(words);
                let whose = format!("function {name}, rule {}, {}", rule.when.name, message.topic);
                let alarmed = if rule.alarm { alarms.say(&*hosting.journal, &whose, said) } else { Ok(()) };
                if let Err(why) = published.and(alarmed) {
                    self.fail(index, why);
                }
            }
        }
        // What was published last is still on its way.
        _ = client.settle();
        Ok(())
    }

    /// Looks at a message. Returns the rule that fires.
    fn look(&self, message: &Message) -> Option<usize> {
        let at = now();
        let mut state = self.state();
        let state = &mut *state;
        let (spec, rules, tuple) = state.rules.as_mut()?;
        state.messages += 1;
        let verdict = match tuple.read(&spec.payload, &message.payload) {
            Ok(()) => Ok(rules.judge(Time(at), tuple)),
            Err(fault) => {
                state.unread += 1;
                Err(fault.to_string())
            }
        };
        let fires = match verdict {
            Ok(Verdict::Fires(index)) => Some(index),
            _ => None,
        };
        let is_whole = message.payload.len() <= TRACED_BYTES_MAX;
        let kept = if is_whole { &*message.payload } else { &message.payload[..SHOWN_MAX * 4] };
        if state.traced.len() >= TRACED_MAX {
            state.traced.pop_front();
        }
        let topic = Arc::clone(&message.topic);
        state.traced.push_back(Traced { at, topic, message: kept.to_vec(), is_whole, verdict });
        fires
    }

    fn fail(&self, index: usize, why: String) {
        if let Some((count, last)) = self.state().failed.get_mut(index) {
            *count += 1;
            *last = Some(why);
        }
    }

    pub(crate) fn report(&self) -> RunningReport {
        let state = self.state();
        let rules = state.rules.as_ref().map(|(spec, rules, _)| {
            let counts = rules.counts();
            let rules = spec.rules.iter().zip(&counts).zip(&state.failed);
            rules
                .map(|((rule, counts), (failed, why))| RuleReport {
                    name: rule.when.name.clone(),
                    condition: rule.when.condition.clone(),
                    priority: rule.when.priority,
                    fired: counts.fired,
                    held_back: counts.held_back,
                    unclear: counts.unclear,
                    failed: *failed,
                    why: why.clone(),
                })
                .collect()
        });
        RunningReport {
            name: self.duty.name.to_string(),
            version: self.duty.version,
            trouble: state.trouble.clone(),
            since: state.since,
            messages: state.messages,
            unread: state.unread,
            dropped: state.dropped,
            rules: rules.unwrap_or_default(),
        }
    }

    /// The last messages, and what its rules made of them.
    pub(crate) fn trace(&self) -> Vec<TracedReport> {
        let state = self.state();
        let Some((spec, rules, _)) = &state.rules else { return Vec::new() };
        let mut tuple = rules.tuple();
        let name =
            |index: usize| spec.rules.get(index).map(|rule| rule.when.name.clone()).unwrap_or_default();
        let mut explained = |traced: &Traced| -> Vec<TracedRule> {
            let why = if traced.is_whole {
                tuple.read(&spec.payload, &traced.message).err().map(|fault| fault.to_string())
            } else {
                Some(format!("it has more than {TRACED_BYTES_MAX} bytes, and is not remembered"))
            };
            if let Some(why) = why {
                return vec![TracedRule { name: String::new(), holds: None, parts: vec![why] }];
            }
            let rules = rules.explain(&tuple).into_iter();
            rules
                .map(|(index, explanation)| TracedRule {
                    name: name(index),
                    holds: explanation.holds.ok(),
                    parts: explanation.findings.iter().map(ToString::to_string).collect(),
                })
                .collect()
        };
        let report = |traced: &Traced| {
            let (verdict, rule) = match &traced.verdict {
                Ok(Verdict::Fires(index)) => ("fired", Some(name(*index))),
                Ok(Verdict::HeldBack(index)) => ("held back", Some(name(*index))),
                Ok(Verdict::None) => ("none", None),
                Err(_) => ("unread", None),
            };
            TracedReport {
                at: traced.at,
                topic: traced.topic.to_string(),
                message: shown(&traced.message, SHOWN_MAX),
                verdict: verdict.to_owned(),
                rule,
                rules: explained(traced),
            }
        };
        state.traced.iter().map(report).collect()
    }
}
