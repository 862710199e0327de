//! A function that runs: messages come to it as long as it does, and what has become of them is remembered.

use crate::doing::{Doing, Judging, Making};
use crate::outlets::shown;
use crate::runner::Hosting;
use crate::spec::{Does, FunctionSpec, OperatorSpec};
use contract::{Span, Time};
use peer_host::Duty;
use processing::Answer;
use processing::quality::Serves;
use processing::rules::{RuleSet, Tuple, Verdict};
use report::{QualityReport, RuleReport, RunningReport, TracedReport, TracedRule};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use verge::{Found, Message, Peers};

/// How long it is waited before it is looked whether to end.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// How long it is waited before a function that could not run is tried again.
const RESTS: Duration = Duration::from_secs(2);
/// Messages that are remembered, and how long each may be for that.
const TRACED_MAX: usize = 64;
const TRACED_BYTES_MAX: usize = 16 << 10;
/// About so many bytes of reasons one answer has.
const TRACE_BYTES_MAX: usize = 1 << 20;
/// The most letters of a message that are shown.
const SHOWN_MAX: usize = 200;

/// A function that this peer runs.
pub(crate) struct Running {
    pub(crate) duty: Duty,
    /// What `every` of rules goes by: nobody sets it.
    since: Instant,
    ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    since: u64,
    /// Whether it waits until somebody starts it.
    waits: bool,
    trouble: Option<String>,
    messages: u64,
    unread: u64,
    dropped: u64,
    results: u64,
    failed: u64,
    why: Option<String>,
    /// Of two operators.
    quality: Option<QualityReport>,
    /// `None`: its text cannot be read.
    spec: Option<FunctionSpec>,
    /// Its rules, if it has some.
    rules: Option<(RuleSet, Tuple)>,
    /// By rule, how often what it should have done could not be done, and why the last time.
    rules_failed: Vec<(u64, Option<String>)>,
    traced: VecDeque<Traced>,
}

struct Traced {
    at: u64,
    topic: Arc<str>,
    message: Vec<u8>,
    is_whole: bool,
    seen: Result<Seen, String>,
}

/// What has become of a message.
#[derive(Clone, Copy)]
enum Seen {
    Judged(Verdict),
    Answered(Answer, Option<Serves>),
}

/// What is counted of two operators.
fn quality(spec: &FunctionSpec) -> Option<QualityReport> {
    let Does::Operator(OperatorSpec { cheaper: Some(cheaper), .. }) = &spec.does else { return None };
    let budget_ns = u64::try_from(cheaper.budget.0).unwrap_or_default();
    Some(QualityReport { budget_ns, ..QualityReport::default() })
}

/// Nanoseconds since the Unix epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

impl Running {
    /// One that does not run yet.
    pub(crate) fn new(duty: Duty, hosting: &Hosting) -> Running {
        let text = std::str::from_utf8(&duty.text).map_err(|error| error.to_string());
        let read = text.and_then(|text| {
            let spec = FunctionSpec::parse(text, &hosting.space).map_err(|error| error.to_string())?;
            let rules = match spec.does {
                Does::Rules(_) => Some(spec.set().map_err(|error| error.to_string())?),
                Does::Operator(_) => None,
            };
            Ok((spec, rules))
        });
        let (spec, rules, trouble) = match read {
            Ok((spec, rules)) => (Some(spec), rules, None),
            Err(why) => (None, None, Some(why)),
        };
        let count = spec.as_ref().map_or(0, |spec| spec.rules().len());
        let state = State {
            since: now(),
            waits: spec.as_ref().is_some_and(|spec| spec.is_asked),
            trouble,
            messages: 0,
            unread: 0,
            dropped: 0,
            results: 0,
            failed: 0,
            why: None,
            quality: spec.as_ref().and_then(quality),
            spec,
            rules: rules.map(|rules| (rules.clone(), rules.tuple())),
            rules_failed: vec![(0, None); count],
            traced: VecDeque::new(),
        };
        Running { duty, since: Instant::now(), ended: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Whether it is to run: always, unless it waits for somebody to start it.
    pub(crate) fn is_due(&self, is_started: bool) -> bool {
        is_started || !self.state().spec.as_ref().is_some_and(|spec| spec.is_asked)
    }

    /// It could not begin.
    pub(crate) fn have_no_thread(&self, error: &std::io::Error) {
        self.state().trouble = Some(format!("it has no thread: {error}"));
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
        let Some(spec) = self.state().spec.clone() else {
            let why = self.state().trouble.clone().unwrap_or_default();
            return hosting.journal.warn(&format!("the function {} cannot be read: {why}", self.duty.name));
        };
        {
            let mut state = self.state();
            (state.waits, state.trouble) = (false, Some("it is about to begin".to_owned()));
        }
        let mut said = None;
        while !self.has_ended() {
            let Err(why) = self.serve(&spec, hosting, number) else { return };
            self.state().trouble = Some(why.clone());
            if said.as_ref() != Some(&why) {
                let name = &self.duty.name;
                hosting.journal.warn(&format!("the function {name} does not run: {why}; it is tried again"));
                said = Some(why);
            }
            let rested = Instant::now() + RESTS;
            while !self.has_ended() && Instant::now() < rested {
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
        let around = (&client, &peers, hosting);
        let mut does: Box<dyn Doing> = match &spec.does {
            Does::Rules(rules) => Box::new(Judging::begin(self, rules, around).map_err(words)?),
            Does::Operator(operator) => {
                let made = spec.operators().map_err(|error| error.to_string())?;
                let made = made.ok_or("it has no operator")?;
                Box::new(Making::begin(self, operator, made, around).map_err(words)?)
            }
        };
        let (journal, whose) = (Arc::clone(&hosting.journal), Arc::clone(name));
        let found = client.interest_with(&peers, &spec.on, move |met| {
            if let verge::Met::Unfit { other, why } = met {
                journal.warn(&format!("function {whose}: `{other}` does not fit: {why}"));
            }
            if let verge::Met::Refused { topic, why } = met {
                journal.warn(&format!("function {whose}: {topic} is refused: {why}"));
            }
        });
        let found: Found = found.map_err(words)?;
        if self.has_ended() {
            return Ok(());
        }
        self.state().trouble = None;
        hosting.journal.note(&format!("function {name} runs"));
        let before = self.state().dropped;
        while !self.has_ended() {
            self.state().dropped = before + found.dropped();
            let Some(message) = found.next_within(LOOKS_EVERY) else {
                client.check().map_err(words)?;
                found.check().map_err(words)?;
                // Nothing comes without one, and it goes on by itself.
                let trouble = client.without_primary().map_err(words)?;
                self.state().trouble = trouble;
                continue;
            };
            self.state().trouble = None;
            does.take(&message, found.waiting())?;
        }
        // What was published last is still on its way.
        _ = client.settle();
        Ok(())
    }

    /// Judges a message. Returns the rule that fires.
    pub(crate) fn judge(&self, message: &Message) -> Option<usize> {
        let at = now();
        let passed = Time(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut state = self.state();
        let state = &mut *state;
        let ((rules, tuple), spec) = (state.rules.as_mut()?, state.spec.as_ref()?);
        let seen = match tuple.read(&spec.payload, &message.payload) {
            Ok(()) => Ok(rules.judge(passed, tuple)),
            Err(fault) => Err(fault.to_string()),
        };
        let fires = match seen {
            Ok(Verdict::Fires(index)) => Some(index),
            _ => None,
        };
        state.see(at, message, seen.map(Seen::Judged));
        fires
    }

    /// An operator has run for a message: of two, this one.
    pub(crate) fn see(&self, message: &Message, by: Option<Serves>, seen: Result<Answer, String>) {
        let mut state = self.state();
        if let (Some(Serves::Cheaper), Some(quality)) = (by, &mut state.quality) {
            quality.cheaper += 1;
        }
        state.see(now(), message, seen.map(|answer| Seen::Answered(answer, by)));
    }

    /// A message was served: of two operators they take so long, and it may have been after its time.
    pub(crate) fn count_served(&self, is_late: bool, (dearer, cheaper): (Span, Span)) {
        if let Some(quality) = &mut self.state().quality {
            quality.late += u64::from(is_late);
            quality.dearer_p99_ns = u64::try_from(dearer.0).unwrap_or_default();
            quality.cheaper_p99_ns = u64::try_from(cheaper.0).unwrap_or_default();
        }
    }

    /// Something was said.
    pub(crate) fn count(&self) {
        self.state().results += 1;
    }

    /// What should have been done could not be.
    pub(crate) fn fail(&self, rule: Option<usize>, why: String) {
        let mut state = self.state();
        state.failed += 1;
        state.why = Some(why.clone());
        if let Some((count, last)) = rule.and_then(|rule| state.rules_failed.get_mut(rule)) {
            *count += 1;
            *last = Some(why);
        }
    }

    pub(crate) fn report(&self) -> RunningReport {
        let state = self.state();
        let rules = state.rules.as_ref().zip(state.spec.as_ref()).map(|((rules, _), spec)| {
            let counts = rules.counts();
            let rules = spec.rules().iter().zip(&counts).zip(&state.rules_failed);
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
            kind: state.spec.as_ref().map_or("unread", |spec| spec.kind()).to_owned(),
            waits: state.waits,
            trouble: state.trouble.clone(),
            since: state.since,
            messages: state.messages,
            unread: state.unread,
            dropped: state.dropped,
            results: state.results,
            failed: state.failed,
            why: state.why.clone(),
            quality: state.quality.clone(),
            rules: rules.unwrap_or_default(),
        }
    }

    /// The last messages, and what it made of them.
    pub(crate) fn trace(&self) -> Vec<TracedReport> {
        let state = self.state();
        let Some(spec) = &state.spec else { return Vec::new() };
        let mut rules = state.rules.as_ref().map(|(rules, _)| (rules, rules.tuple()));
        // The newest ones, as long as that is not too much.
        let (mut shown, mut bytes) = (Vec::new(), 0);
        for traced in state.traced.iter().rev() {
            let report = traced.report(spec, rules.as_mut());
            let parts = report.rules.iter().flat_map(|rule| &rule.parts);
            bytes += parts.map(String::len).sum::<usize>();
            shown.push(report);
            if bytes > TRACE_BYTES_MAX {
                break;
            }
        }
        shown.reverse();
        shown
    }
}

impl State {
    fn see(&mut self, at: u64, message: &Message, seen: Result<Seen, String>) {
        self.messages += 1;
        self.unread += u64::from(seen.is_err());
        if self.traced.len() >= TRACED_MAX {
            self.traced.pop_front();
        }
        let is_whole = message.payload.len() <= TRACED_BYTES_MAX;
        let kept = if is_whole { &*message.payload } else { &message.payload[..SHOWN_MAX * 4] };
        let topic = Arc::clone(&message.topic);
        self.traced.push_back(Traced { at, topic, message: kept.to_vec(), is_whole, seen });
    }
}

impl Traced {
    fn report(&self, spec: &FunctionSpec, rules: Option<&mut (&RuleSet, Tuple)>) -> TracedReport {
        let name =
            |index: usize| spec.rules().get(index).map(|rule| rule.when.name.clone()).unwrap_or_default();
        let (verdict, rule) = match &self.seen {
            Ok(Seen::Judged(Verdict::Fires(index))) => ("fired", Some(name(*index))),
            Ok(Seen::Judged(Verdict::HeldBack(index))) => ("held back", Some(name(*index))),
            Ok(Seen::Judged(Verdict::None)) => ("none", None),
            Ok(Seen::Answered(Answer::Result, Some(Serves::Cheaper))) => ("result, cheaper", None),
            Ok(Seen::Answered(Answer::Nothing, Some(Serves::Cheaper))) => ("nothing, cheaper", None),
            Ok(Seen::Answered(Answer::Result, _)) => ("result", None),
            Ok(Seen::Answered(Answer::Nothing, _)) => ("nothing", None),
            Err(_) => ("unread", None),
        };
        let only = |why: String| vec![TracedRule { name: String::new(), holds: None, parts: vec![why] }];
        let rules = match (&self.seen, rules) {
            (Err(why), _) => only(why.clone()),
            (_, None) => Vec::new(),
            _ if !self.is_whole => {
                only(format!("it has more than {TRACED_BYTES_MAX} bytes, and is not remembered"))
            }
            (_, Some((rules, tuple))) => match tuple.read(&spec.payload, &self.message) {
                Err(fault) => only(fault.to_string()),
                Ok(()) => { rules.explain(tuple).into_iter() }
                    .map(|(index, explanation)| TracedRule {
                        name: name(index),
                        holds: explanation.holds.ok(),
                        parts: explanation.findings.iter().map(ToString::to_string).collect(),
                    })
                    .collect(),
            },
        };
        TracedReport {
            at: self.at,
            topic: self.topic.to_string(),
            message: shown(&self.message, SHOWN_MAX),
            verdict: verdict.to_owned(),
            rule,
            rules,
        }
    }
}
