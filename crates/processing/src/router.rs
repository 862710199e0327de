//! From messages to events, and from graphs to operators at their places: the broker's side of event processing.
//!
//! A graph is a pattern. When a topic comes that one of its suppliers means, the graph gets an instance for what stands in
//! the places of `+`: its operators are given places in their levels, and its outputs are named. When the last such topic
//! is gone, so is the instance.

mod keeping;

use crate::event::{Event, Marks, Number, Permits, Pulse, Store};
use crate::graph::{Factory, Feed, Graph, GraphError, Origin, Step, permits_for};
use crate::memory::Streams;
use crate::operator::{Memory, Setup};
use crate::pattern::{captures, fill};
use crate::slab::Slab;
use crate::spec::{GraphSpec, Join, Violation};
use crate::station::{Maker, Outlet, Place, Product, Route, Siting, Station};
use crate::stats::{Counts, Stats, count};
use crate::validity::Validity;
use contract::{Mutant, Receipt, Span, Time};
use keeping::{Keeping, Pictures};
pub use keeping::{Kept, Unkept};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who runs operators: threads on a host, invented processors in a simulation.
pub trait Crew {
    /// An operator comes to its place.
    fn add(&mut self, station: Box<Station>);

    /// The operator at this place goes.
    fn remove(&mut self, place: Place);

    /// An event for an operator. `false`: too much waits for its level, and it is dropped.
    fn offer(&mut self, route: Route, event: Event) -> bool;

    /// The operator at this place is asked what it remembers. The answer is a product.
    fn save(&mut self, place: Place, ticket: u32);

    /// The operator at this place is to go on as the one that has saved this.
    fn restore(&mut self, place: Place, memory: Vec<u8>, streams: Streams);

    /// What has come of the work since the last time, one by one.
    fn collect(&mut self) -> Option<Product>;

    /// Whether nothing is ready or running.
    fn is_idle(&self) -> bool;

    /// The next operator that was found not to return, once for each run.
    fn overdue(&mut self) -> Option<Overdue> {
        None
    }

    /// How a level stands. It must not wait for those who run it.
    fn strain(&self, level: u8) -> Strain {
        let _ = level;
        Strain::default()
    }
}

/// An operator that has been in one run for too long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overdue {
    /// Its name, with its instance.
    pub operator: Arc<str>,
    /// Its level.
    pub level: u8,
    /// For how long it has not returned, at least.
    pub limit: Span,
    /// Whether somebody else has taken over from whoever runs it.
    pub replaced: bool,
}

/// How a level stands, as those see it who run its operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strain {
    /// Events that were dropped because too many waited.
    pub refused: u64,
    /// Runs that are overdue now.
    pub overdue: u32,
}

/// How a topic is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Under which handle its messages are supplied.
    pub handle: u32,
    /// When the last result of a message is due, counted from its creation; forever if one has no deadline.
    pub within: Span,
    /// Whether an operator that it feeds remembers, or one after that.
    pub remembers: bool,
}

/// Sets up operators, also on the threads that run them.
pub type SharedFactory = Arc<dyn Factory + Send + Sync>;

/// What is processed, and where.
pub struct Router {
    factory: SharedFactory,
    levels: u8,
    graphs: Vec<Running>,
    /// By handle: what a topic's messages feed.
    bindings: Slab<Binding>,
    /// By number. A number is never used again: results may still be on their way to it.
    outputs: BTreeMap<u32, Arc<Output>>,
    numbered: u32,
    sites: Vec<Sites>,
    permits: Arc<Permits>,
    /// By permit: the message that has it, and the binding of its topic.
    under_way: Vec<(Receipt, u32)>,
    /// Permits that nobody has.
    free: Vec<u32>,
    /// Messages that have been processed, for the broker.
    done: Vec<Receipt>,
    refused: u64,
    /// Events that were made although as many were in use as can be true at once (C6).
    beyond: Arc<AtomicU64>,
    /// Messages of all topics that are under way at once if suppliers and operators keep to what was said of them.
    needed: u64,
    /// The least urgent level that a topic has fed so far.
    lowest: u8,
    pictures: Pictures,
}

/// The places of one level: the life of each, and those that are free.
#[derive(Default)]
struct Sites {
    lives: Vec<u32>,
    free: Vec<u32>,
}

struct Running {
    spec: GraphSpec,
    graph: Arc<Graph>,
    factory: SharedFactory,
    instances: BTreeMap<Vec<String>, Instance>,
}

struct Instance {
    /// By supplier.
    taps: Vec<Tap>,
    places: Vec<Option<Place>>,
    stats: Vec<Arc<Stats>>,
    outputs: Vec<u32>,
    /// The number under which it is kept, if it remembers.
    keeping: Option<u32>,
    /// Topics that feed it.
    topics: usize,
}

/// Where the events of a supplier go.
#[derive(Clone)]
struct Tap {
    store: Arc<Store>,
    routes: Vec<Route>,
    validity: Span,
    deadline: Span,
    done: Span,
    under_way: u64,
    level: u8,
    /// The number under which its instance is kept, if that remembers.
    keeping: Option<u32>,
}

struct Binding {
    taps: Vec<Tap>,
    /// The most urgent that it feeds.
    level: u8,
    /// How many of its messages are under way at once.
    needed: u64,
    /// The instances that they belong to.
    instances: Vec<(Arc<Graph>, Vec<String>)>,
}

/// A topic on which results are published.
#[derive(Clone, Debug)]
pub struct Output {
    /// The topic.
    pub topic: String,
    /// The shortest time between two results.
    pub period: Span,
    /// When a result is due, counted from the newest reading that it is made of.
    pub deadline: Span,
    /// Why some numbers of its supplier have no result, in words; `None` if each has one.
    pub gaps: Option<String>,
    /// What happens to results that are out of date by the time at which they are published.
    violation: Violation,
    /// The counts of who makes them.
    stats: Arc<Stats>,
}

impl Output {
    /// Whether a result may go to those who wait for it, and with which marks: it must be true then as well (C1), for it may have waited
    /// since it was made. `None`: it is shed, and counted so.
    pub fn check(&self, now: Time, result: &Event) -> Option<Marks> {
        let late = Marks::OUT_OF_DATE;
        if !result.validity.is_over(now) || result.marks.contains(late) || Mutant::KeepOutdated.is_on() {
            return Some(result.marks);
        }
        let (counted, marks) = match self.violation {
            Violation::Shed => (&self.stats.shed_absolute, None),
            Violation::Mark => (&self.stats.marked, Some(result.marks.with(late))),
        };
        count(counted);
        marks
    }
}

/// What one operator of one instance has done so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// What stands in the places of `+`.
    pub instance: &'a [String],
    /// Its level.
    pub level: u8,
    /// Its counts.
    pub counts: Counts,
}

/// The name with the instance: `rms[7]`.
impl fmt::Display for OperatorRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OperatorRow { name, instance, .. } = self;
        if instance.is_empty() { f.write_str(name) } else { write!(f, "{name}[{}]", instance.join(",")) }
    }
}

/// A message to be processed.
#[derive(Clone, Copy, Debug)]
pub struct Supply<'a> {
    /// What comes back when it has been processed.
    pub receipt: Receipt,
    /// Its number.
    pub number: Number,
    /// When it was created.
    pub created: Time,
    /// What it carries.
    pub payload: &'a [u8],
}

/// What a change of graphs did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Graphs that go on as they were.
    pub kept: usize,
    /// New ones.
    pub added: usize,
    /// Those that are gone.
    pub removed: usize,
}

impl Router {
    /// Without graphs. `levels`: how many there are. `limit`: messages that may be under way at once.
    pub fn new(factory: SharedFactory, levels: u8, limit: usize) -> Router {
        Router {
            factory,
            levels,
            graphs: Vec::new(),
            bindings: Slab::default(),
            outputs: BTreeMap::new(),
            numbered: 0,
            sites: (0..levels).map(|_| Sites::default()).collect(),
            permits: Arc::new(Permits::new(limit)),
            under_way: vec![(Receipt::default(), 0); limit],
            free: (0..limit as u32).rev().collect(),
            done: Vec::with_capacity(limit),
            refused: 0,
            beyond: Arc::default(),
            needed: 0,
            lowest: 0,
            pictures: Pictures::default(),
        }
    }

    /// Changes the graphs to these: what is the same goes on, what is not there any more ends, what is new begins with the
    /// next topic that is bound. Topics must be bound anew afterwards. Nothing changes if one of them is not right.
    pub fn change(&mut self, specs: Vec<GraphSpec>) -> Result<Change, Vec<GraphError>> {
        let mut running = Vec::new();
        let (mut errors, mut kept) = (Vec::new(), Vec::new());
        for spec in specs {
            let known = self.graphs.iter().position(|known| known.spec == spec);
            if let Some(index) = known.filter(|_| !Mutant::EndEveryGraph.is_on()) {
                kept.push(index);
                continue;
            }
            match Graph::build(&spec, self.levels, &*self.factory) {
                Ok(graph) => {
                    let instances = BTreeMap::new();
                    let (graph, factory) = (Arc::new(graph), Arc::clone(&self.factory));
                    running.push(Running { spec, graph, factory, instances });
                }
                Err(wrong) => errors.extend(wrong),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let change =
            Change { kept: kept.len(), added: running.len(), removed: self.graphs.len() - kept.len() };
        // Instances of what goes stay until their topics are bound anew.
        let gone = self.graphs.iter_mut().enumerate().filter(|(index, _)| !kept.contains(index));
        gone.for_each(|(_, graph)| graph.spec = GraphSpec::default());
        self.graphs.extend(running);
        Ok(change)
    }

    /// Graphs that begin from now on are set up by this.
    pub fn set_factory(&mut self, factory: SharedFactory) {
        self.factory = factory;
    }

    /// The graphs as they are.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.graphs.iter().filter(|running| running.is_wanted()).map(|running| &*running.graph)
    }

    /// A topic has come. `Some`: its messages are to be processed, under this handle.
    pub fn bind(&mut self, topic: &str, crew: &mut impl Crew) -> Option<Bound> {
        let mut binding = Binding { taps: Vec::new(), level: u8::MAX, needed: 0, instances: Vec::new() };
        for index in 0..self.graphs.len() {
            let running = &self.graphs[index];
            let suppliers = running.graph.suppliers.iter().enumerate();
            let wanted = suppliers.filter(|(_, supplier)| running.is_wanted() && supplier.level.is_some());
            let meant: Vec<(usize, Vec<String>)> = wanted
                .filter_map(|(place, supplier)| {
                    let found = captures(&supplier.name, topic)?;
                    Some((place, found.into_iter().map(str::to_owned).collect()))
                })
                .collect();
            for (supplier, captured) in meant {
                let Some(instance) = self.instance(index, &captured, crew) else { continue };
                instance.topics += 1;
                binding.needed = binding.needed.max(instance.taps[supplier].under_way);
                binding.level = binding.level.min(instance.taps[supplier].level);
                binding.taps.push(instance.taps[supplier].clone());
                binding.instances.push((Arc::clone(&self.graphs[index].graph), captured));
            }
        }
        let within = binding.taps.iter().map(|tap| tap.done).max()?;
        // Where an instance remembers, a message counts as processed when a picture has it.
        let remembers = binding.taps.iter().any(|tap| tap.keeping.is_some());
        let within = if remembers { within + self.pictures.interval * 2 } else { within };
        self.needed += binding.needed;
        self.lowest = self.lowest.max(binding.level);
        Some(Bound { handle: self.bindings.insert(binding), within, remembers })
    }

    /// A topic has gone, or has been bound anew.
    pub fn unbind(&mut self, handle: u32, crew: &mut impl Crew) {
        let Some(binding) = self.bindings.remove(handle) else { return };
        self.needed -= binding.needed;
        for (graph, captured) in binding.instances {
            let Some(running) = self.graphs.iter_mut().find(|running| Arc::ptr_eq(&running.graph, &graph))
            else {
                continue;
            };
            let Some(instance) = running.instances.get_mut(&captured) else { continue };
            instance.topics -= 1;
            if instance.topics > 0 {
                continue;
            }
            let gone = running.instances.remove(&captured);
            for keeping in gone.iter().filter_map(|gone| gone.keeping) {
                self.pictures.remove(keeping, &mut self.done);
            }
            for place in gone.iter().flat_map(|gone| &gone.places).copied().flatten() {
                crew.remove(place);
                self.sites[usize::from(place.level)].free.push(place.index);
            }
            for output in gone.iter().flat_map(|gone| &gone.outputs) {
                self.outputs.remove(output);
            }
        }
        self.graphs.retain(|running| running.is_wanted() || !running.instances.is_empty());
    }

    /// Gives a message to the operators that its topic feeds. `false`: to none, since too many are under way.
    pub fn supply(&mut self, handle: u32, message: &Supply<'_>, crew: &mut impl Crew) -> bool {
        let Some(binding) = self.bindings.get(handle) else { return false };
        // What is urgent finds a permit however many the others hold: each level leaves a share to those above it.
        let limit = self.under_way.len();
        let reserved = limit - permits_for(limit, self.levels, binding.level);
        let permit = if self.free.len() > reserved { self.free.pop() } else { None };
        let Some(permit) = permit else {
            self.refused += 1;
            return false;
        };
        self.under_way[permit as usize] = (message.receipt, handle);
        let mut first: Option<Event> = None;
        for tap in &binding.taps {
            let mut draft = tap.store.draft(first.is_none().then_some(permit));
            let body = draft.body();
            body.validity = Validity::of(message.created, tap.validity);
            body.deadline = message.created + tap.deadline;
            body.number = message.number;
            body.payload.extend_from_slice(message.payload);
            // Patterns that overlap give a message several events; it has been processed when the last is gone.
            body.parents.extend(first.clone());
            let event = draft.done();
            match tap.keeping {
                Some(index) => {
                    self.refused += self.pictures.give(index, &message.number, &tap.routes, &event, crew);
                }
                None => {
                    let offered = tap.routes.iter().map(|route| crew.offer(*route, event.clone()));
                    self.refused += offered.map(|taken| u64::from(!taken)).sum::<u64>();
                }
            }
            first.get_or_insert(event);
        }
        true
    }

    /// The next message that has been processed.
    pub fn processed(&mut self) -> Option<Receipt> {
        if self.done.is_empty() && self.under_way() > 0 {
            let Router { permits, under_way, free, done, pictures, bindings, .. } = self;
            permits.collect(|permit| {
                free.push(permit);
                let (receipt, handle) = under_way[permit as usize];
                let taps = bindings.get(handle).map_or(&[][..], |binding| &binding.taps);
                if !pictures.delay(receipt, taps.iter().filter_map(|tap| tap.keeping)) {
                    done.push(receipt);
                }
            });
        }
        self.done.pop()
    }

    /// How many levels there are.
    pub fn levels(&self) -> u8 {
        self.levels
    }

    /// Messages that are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    /// Messages, or events made of them, that were dropped because too many were under way.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Events that were made although as many were in use as can be true at once (C6): operators are behind.
    pub fn beyond(&self) -> u64 {
        self.beyond.load(Relaxed)
    }

    /// How many messages of the topics that are bound are under way at once, if suppliers and operators keep to what was said of them; and
    /// how many may be.
    pub fn needed(&self) -> (u64, u64) {
        (self.needed, permits_for(self.under_way.len(), self.levels, self.lowest) as u64)
    }

    /// The numbers of the topics of results that there are at present, from this one on. Later ones have higher numbers.
    pub fn outputs_from(&self, first: u32) -> impl Iterator<Item = u32> {
        self.outputs.range(first..).map(|(number, _)| *number)
    }

    /// A topic of results, by its number.
    pub fn output(&self, index: u32) -> Option<&Arc<Output>> {
        self.outputs.get(&index)
    }

    /// All operators that are at work.
    pub fn rows(&self) -> impl Iterator<Item = OperatorRow<'_>> {
        self.graphs.iter().flat_map(|running| {
            running.instances.iter().flat_map(|(captured, instance)| {
                let operators = running.graph.operators.iter().zip(&instance.stats);
                operators.filter_map(|(step, stats)| {
                    Some(OperatorRow {
                        name: &step.source.name,
                        instance: captured,
                        level: step.source.level?.0,
                        counts: stats.counts(),
                    })
                })
            })
        })
    }

    /// The instance of a graph for what stands in the places of `+`, made if need be.
    fn instance(&mut self, index: usize, captured: &[String], crew: &mut impl Crew) -> Option<&mut Instance> {
        if !self.graphs[index].instances.contains_key(captured) {
            let Running { graph, factory, .. } = &self.graphs[index];
            let (graph, factory) = (Arc::clone(graph), Arc::clone(factory));
            let made = self.make(&graph, &factory, captured, crew)?;
            self.graphs[index].instances.insert(captured.to_vec(), made);
        }
        self.graphs[index].instances.get_mut(captured)
    }

    fn make(
        &mut self,
        graph: &Arc<Graph>,
        factory: &SharedFactory,
        captured: &[String],
        crew: &mut impl Crew,
    ) -> Option<Instance> {
        let captured: Vec<&str> = captured.iter().map(String::as_str).collect();
        let names = graph.consumers.iter().map(|consumer| fill(&consumer.name, &captured));
        let names: Vec<String> = names.collect::<Option<_>>()?;
        let levels = graph.operators.iter().map(|step| step.source.level);
        let places: Vec<Option<Place>> = levels.map(|level| Some(self.site(level?.0))).collect();
        let stats: Vec<Arc<Stats>> = graph.operators.iter().map(|_| Arc::default()).collect();
        let outputs = names.iter().enumerate();
        let outputs: Vec<u32> =
            outputs.map(|(consumer, name)| self.name_output(graph, consumer, name, &stats)).collect();
        let routes = |feeds: &[Feed]| -> Vec<Route> {
            let to = |feed: &Feed| Some(Route { to: places[feed.operator]?, slot: feed.slot as u8 });
            feeds.iter().filter_map(to).collect()
        };
        let remembers = |operator: usize| {
            let step = &graph.operators[operator];
            places[operator]
                .filter(|_| step.memory == Memory::Saved || (step.inputs.len() > 1 && step.join == Join::All))
        };
        let saved = |operator: &usize| {
            places[*operator].is_some() && graph.operators[*operator].memory == Memory::Saved
        };
        let pulse: Option<Arc<Pulse>> = (0..places.len()).any(|operator| saved(&operator)).then(Arc::default);
        for (operator, step) in graph.operators.iter().enumerate() {
            let Some(place) = places[operator] else { continue };
            let outlet = |consumer: &usize| Outlet {
                output: outputs[*consumer],
                deadline: graph.consumers[*consumer].deadline,
            };
            let siting = Siting {
                place,
                name: operator_name(&step.source.name, &captured),
                routes: routes(&step.source.feeds),
                outlets: step.consumers.iter().map(outlet).collect(),
                stats: Arc::clone(&stats[operator]),
                make: maker(graph, factory, operator),
                beyond: Arc::clone(&self.beyond),
                pulse: pulse.clone(),
            };
            // Building the graph has set up one like it; without it, what feeds it finds nobody there.
            if let Some(station) = Station::new(graph, operator, siting) {
                crew.add(Box::new(station));
            }
        }
        let keeping = pulse.map(|pulse| {
            let asks: Vec<Option<Place>> = (0..places.len()).map(remembers).collect();
            let called = |step: &Step| operator_name(&step.source.name, &captured);
            let operators: Vec<Arc<str>> = graph.operators.iter().map(called).collect();
            let name = (0..places.len())
                .find(saved)
                .map_or_else(|| "".into(), |first| Arc::clone(&operators[first]));
            let keeping = Keeping::new(name, graph.fingerprint(), asks, operators, names, pulse);
            self.pictures.add(keeping, crew)
        });
        let taps = graph.suppliers.iter().map(|supplier| Tap {
            keeping,
            store: Store::new(supplier.ring, Some(Arc::clone(&self.permits)), &self.beyond),
            routes: routes(&supplier.feeds),
            validity: supplier.validity,
            deadline: supplier.deadline,
            done: supplier.done,
            under_way: supplier.under_way(),
            level: supplier.level.map_or(u8::MAX, |level| level.0),
        });
        Some(Instance { taps: taps.collect(), places, stats, outputs, keeping, topics: 0 })
    }

    fn site(&mut self, level: u8) -> Place {
        let sites = &mut self.sites[usize::from(level)];
        let index = sites.free.pop().unwrap_or_else(|| {
            sites.lives.push(0);
            sites.lives.len() as u32 - 1
        });
        let life = &mut sites.lives[index as usize];
        *life = life.wrapping_add(1);
        Place { level, index, life: *life }
    }

    fn name_output(&mut self, graph: &Graph, consumer: usize, topic: &str, stats: &[Arc<Stats>]) -> u32 {
        let operator = graph.consumers[consumer].operator;
        let source = graph.source(Origin::Operator(operator));
        let output = Output {
            topic: topic.to_owned(),
            period: source.period,
            deadline: graph.consumers[consumer].deadline,
            gaps: source.gaps.as_ref().map(ToString::to_string),
            violation: graph.operators[operator].violation,
            stats: Arc::clone(&stats[operator]),
        };
        let number = self.numbered;
        self.numbered = number.wrapping_add(1);
        self.outputs.insert(number, Arc::new(output));
        number
    }
}

/// Makes the value of an operator of a graph.
fn maker(graph: &Arc<Graph>, factory: &SharedFactory, operator: usize) -> Maker {
    let (graph, factory) = (Arc::clone(graph), Arc::clone(factory));
    let inputs = graph.input_types(operator);
    Arc::new(move || {
        let step = &graph.operators[operator];
        let setup = Setup { inputs: &inputs, parameters: &step.parameters };
        factory.build(&step.kind, &setup).ok().map(|built| built.operator)
    })
}

/// An operator's name with its instance: `rms[7]`.
fn operator_name(name: &str, captured: &[&str]) -> Arc<str> {
    if captured.is_empty() { name.into() } else { format!("{name}[{}]", captured.join(",")).into() }
}

impl Running {
    /// Whether it has not been taken out of the configuration.
    fn is_wanted(&self) -> bool {
        !self.spec.operators.is_empty()
    }
}
