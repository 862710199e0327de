//! Operators on invented processors: what they compute says what it was made of, and what they are given is written down for
//! the checkers.
//!
//! Workers serve the levels as those of a host without priorities do: the most urgent run first, then what is to be handed
//! over from its level, then the next level. A run takes a while, and its process may die meanwhile.

use crate::scene::{PAYLOAD_HEAD, read_payload, write_payload};
use contract::Time;
use processing::{
    Answer, Answers, Built, Crew, Event, Factory, Fault, Input, LevelQueue, Marks, Memory, Operator, Outlet,
    Parameters, PayloadType, Place, Product, Put, Recalled, Results, Route, Run, Setup, Station, Stats,
    Streams, Value,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The stream that payloads of joined results name.
pub(crate) const MIXED: u32 = u32::MAX - 1;
/// Bytes of one message in such a payload.
const PART: usize = 12;
/// Levels of urgency.
pub(crate) const LEVELS: u8 = 3;
/// Messages that a broker's operators may have at once.
pub(crate) const UNDER_WAY_MAX: usize = 4_096;
/// Most messages that a joined result names.
const PARTS_MAX: usize = 64;

/// A message that something was made of: the simulator's number of the stream, and the message's number.
pub(crate) type Part = (u32, u64);

/// What a payload was made of.
pub(crate) fn parts_of(payload: &[u8]) -> Vec<Part> {
    let (stream, seq, _) = read_payload(payload);
    if stream != MIXED {
        return vec![(stream, seq)];
    }
    let parts = payload.get(PAYLOAD_HEAD..).unwrap_or_default().chunks_exact(PART);
    parts.map(read_payload).map(|(stream, seq, _)| (stream, seq)).collect()
}

/// The kinds that simulations use. `step` is a `tag` that also says, by the length of what it makes, how many messages came between this and
/// the one before it; see [`step_of`]. `tag` hands a message on under the number of a stream of results; `mix` names all the
/// messages that it was made of.
pub(crate) struct Kinds;

struct Tag(u32);

struct Mix;

/// By stream: the message before.
struct Steps {
    offset: u32,
    before: BTreeMap<u32, u64>,
}

/// What a result of `step` says of its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// There was none before it.
    First,
    /// So many numbers lie between it and the one before, itself included.
    On(u64),
    /// The one before had a higher number.
    Back,
}

/// Longer steps are not told apart.
const STEP_MAX: u64 = 29;

/// What the length of a payload says.
pub(crate) fn step_of(bytes: usize) -> Step {
    match bytes.saturating_sub(PAYLOAD_HEAD) as u64 {
        0 => Step::First,
        step @ 1..=STEP_MAX => Step::On(step),
        _ => Step::Back,
    }
}

impl Operator for Steps {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let payload = inputs.first().map_or(&[][..], |input| input.payload);
        let (stream, seq, intact) = read_payload(payload);
        if !intact {
            return Err(Fault::Malformed { slot: 0, reason: "not what was published" });
        }
        let step = match self.before.insert(stream, seq) {
            None => 0,
            Some(before) => seq.checked_sub(before).map_or(STEP_MAX + 1, |step| step.clamp(1, STEP_MAX)),
        };
        write_payload(output, stream + self.offset, seq, PAYLOAD_HEAD + step as usize);
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        self.before.iter().for_each(|(stream, seq)| {
            [u64::from(*stream), *seq].iter().for_each(|value| memory.put_u64(*value));
        });
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let mut recalled = Recalled(memory);
        self.before.clear();
        while let (Some(stream), Some(seq)) = (recalled.u64(), recalled.u64()) {
            self.before.insert(stream as u32, seq);
        }
        Ok(())
    }
}

impl Operator for Tag {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let payload = inputs.first().map_or(&[][..], |input| input.payload);
        let (stream, seq, intact) = read_payload(payload);
        if !intact {
            return Err(Fault::Malformed { slot: 0, reason: "not what was published" });
        }
        write_payload(output, stream + self.0, seq, payload.len());
        Ok(Answer::Result)
    }
}

impl Operator for Mix {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let parts: Vec<Part> =
            inputs.iter().flat_map(|input| parts_of(input.payload)).take(PARTS_MAX).collect();
        write_payload(output, MIXED, parts.len() as u64, 0);
        for (stream, seq) in parts {
            output.extend_from_slice(&stream.to_le_bytes());
            output.extend_from_slice(&seq.to_le_bytes());
        }
        Ok(Answer::Result)
    }
}

/// By how much the stream of an operator's results is numbered above that of its messages.
pub(crate) fn offset_of(parameters: &Parameters) -> u32 {
    match parameters.get("offset") {
        Some(Value::Number(offset)) => *offset as u32,
        _ => 0,
    }
}

impl Factory for Kinds {
    fn build(&self, kind: &str, setup: &Setup<'_>) -> Result<Built, String> {
        let (output, answers) = (PayloadType::Bytes, Answers::Always);
        match kind {
            "tag" => {
                let operator = Box::new(Tag(offset_of(setup.parameters)));
                Ok(Built { operator, output, answers, memory: Memory::Nothing })
            }
            "mix" => Ok(Built { operator: Box::new(Mix), output, answers, memory: Memory::Nothing }),
            "step" => {
                let operator =
                    Box::new(Steps { offset: offset_of(setup.parameters), before: BTreeMap::new() });
                Ok(Built { operator, output, answers, memory: Memory::Saved })
            }
            kind => Err(format!("there is no `{kind}` here")),
        }
    }
}

/// An event as an operator was given it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    /// As which input.
    pub(crate) slot: usize,
    pub(crate) parts: Vec<Part>,
    pub(crate) begins: Time,
    pub(crate) ends: Time,
    pub(crate) marks: Marks,
}

/// A run that has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    pub(crate) operator: Arc<str>,
    pub(crate) place: Place,
    pub(crate) inputs: Vec<Given>,
    pub(crate) marks: Marks,
    /// For each input that comes from a supplier: the newest that was offered there, and how often this one was.
    pub(crate) offers: Vec<Option<(Part, u32)>>,
}

/// What a crew was seen to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Begun(Begun),
    /// A result for somebody outside of the graph.
    Result(Given),
}

/// The workers of one broker.
pub(crate) struct Workers {
    levels: Vec<LevelQueue>,
    running: Vec<Option<Run>>,
    products: VecDeque<Product>,
    names: BTreeMap<Place, Arc<str>>,
    newest: BTreeMap<(Place, u8), Part>,
    /// How often each event was offered; a message that comes again late may be.
    offered: BTreeMap<(Place, u8, Part), u32>,
    pub(crate) seen: Vec<Seen>,
}

impl Workers {
    pub(crate) fn new(count: usize) -> Workers {
        Workers {
            levels: (0..LEVELS).map(|_| LevelQueue::default()).collect(),
            running: (0..count).map(|_| None).collect(),
            products: VecDeque::new(),
            names: BTreeMap::new(),
            newest: BTreeMap::new(),
            offered: BTreeMap::new(),
            seen: Vec::new(),
        }
    }

    /// Whether the data thread has something to collect.
    pub(crate) fn has_products(&self) -> bool {
        !self.products.is_empty()
    }

    /// A worker that is free begins the next run, if there is one. Returns which.
    pub(crate) fn begin(&mut self, now: Time) -> Option<usize> {
        let worker = self.running.iter().position(Option::is_none)?;
        let mut level = 0;
        while level < self.levels.len() {
            if let Some(run) = self.levels[level].begin(now) {
                self.note(&run);
                self.running[worker] = Some(run);
                return Some(worker);
            }
            match self.levels[level].hand_over() {
                Some((route, event)) => {
                    self.levels[usize::from(route.to.level)].offer(route, event);
                    // From the most urgent level again.
                    level = 0;
                }
                None => level += 1,
            }
        }
        None
    }

    /// A worker has done its work.
    pub(crate) fn end(&mut self, worker: usize, now: Time) {
        let Some(mut run) = self.running.get_mut(worker).and_then(Option::take) else { return };
        let outcome = run.work();
        let Workers { levels, products, seen, .. } = self;
        levels[usize::from(run.place().level)].end(now, run, &outcome, &mut Sink { products, seen });
    }

    fn note(&mut self, run: &Run) {
        let place = run.place();
        let inputs: Vec<Given> = run.inputs().map(|(slot, event)| given(slot, event)).collect();
        let offer = |input: &Given| {
            let (slot, part) = (input.slot as u8, *input.parts.first()?);
            let newest = self.newest.get(&(place, slot)).copied()?;
            Some((newest, self.offered.get(&(place, slot, part)).copied().unwrap_or(0)))
        };
        let offers = inputs.iter().map(offer).collect();
        let operator = self.names.get(&place).cloned().unwrap_or_else(|| "".into());
        self.seen.push(Seen::Begun(Begun { operator, place, inputs, marks: run.marks(), offers }));
    }
}

fn given(slot: usize, event: &Event) -> Given {
    let (begins, ends) = (event.validity.begins, event.validity.ends);
    Given { slot, parts: parts_of(&event.payload), begins, ends, marks: event.marks }
}

struct Sink<'a> {
    products: &'a mut VecDeque<Product>,
    seen: &'a mut Vec<Seen>,
}

impl Results for Sink<'_> {
    fn result(&mut self, outlet: Outlet, event: Event) {
        self.seen.push(Seen::Result(given(0, &event)));
        self.products.push_back(Product::Result(outlet, event));
    }

    fn fault(&mut self, operator: &Arc<str>, stats: &Arc<Stats>, fault: &Fault) {
        let (operator, stats, fault) = (Arc::clone(operator), Arc::clone(stats), fault.clone());
        self.products.push_back(Product::Fault { operator, stats, fault });
    }
}

impl Crew for Workers {
    fn add(&mut self, station: Box<Station>) {
        let place = station.place();
        self.names.insert(place, Arc::clone(station.name()));
        self.levels[usize::from(place.level)].add(station);
    }

    fn remove(&mut self, place: Place) {
        self.names.remove(&place);
        self.levels[usize::from(place.level)].remove(place);
    }

    fn offer(&mut self, route: Route, event: Event) -> bool {
        if let [part] = parts_of(&event.payload)[..] {
            self.newest.insert((route.to, route.slot), part);
            *self.offered.entry((route.to, route.slot, part)).or_default() += 1;
        }
        self.levels[usize::from(route.to.level)].offer(route, event);
        true
    }

    fn save(&mut self, place: Place, ticket: u32) {
        let level = &mut self.levels[usize::from(place.level)];
        let saved = level.begin_save(place).and_then(|mut save| {
            save.work();
            level.end_save(save)
        });
        self.products.push_back(Product::Saved { place, ticket, memory: saved });
    }

    fn restore(&mut self, place: Place, memory: Vec<u8>, streams: Streams) {
        let Workers { levels, products, seen, .. } = self;
        let level = &mut levels[usize::from(place.level)];
        level.restore(place, &memory, &streams, &mut Sink { products, seen });
    }

    fn collect(&mut self) -> Option<Product> {
        self.products.pop_front()
    }

    fn is_idle(&self) -> bool {
        let idle = |level: &LevelQueue| !level.is_ready() && !level.has_moving();
        self.products.is_empty() && self.running.iter().all(Option::is_none) && self.levels.iter().all(idle)
    }
}
