//! What a broker will say: the configured topics, and the results that operators make of them, are brought to a broker that has no
//! host, no clients and no time. It is the broker's own code that answers, with everything that it looks at: deadlines, processors,
//! memory, room in its tables, and what operators need.

use crate::settings::{Identity, settings};
use crate::{Host, PlanError, names};
use broker::{
    Broker, Event, Outcome, Processed, Processes, Processing, RelaysNothing, RemembersNothing, Reports,
    RoutesNowhere, Survey,
};
use config::{BrokerAddress, Config};
use contract::{NodeId, Reign, Span, Time, TopicFilter};
use engine::{Operators, Processor};
use processing::{Crew, Place, Product, Route, Station, Streams};
use std::ops::Range;
use wire::{
    Effects, Farewell, Frame, Hello, Knows, LinkChange, LinkId, Mark, MarkKind, Message, MessageFlags,
    MessageKind, Order, PeerIndex, Protocol, Register, Secret, Standing,
};

/// A time like any other.
const NOW: Time = Time(1_000_000_000_000_000_000);
/// Whose start it is does not matter.
const IDENTITY: Identity = Identity { node: NodeId(1), nonce: [0; 16], started: NOW };
/// Publishers have the numbers from zero on.
const SUBSCRIBER: LinkId = LinkId(1 << 20);

/// What became of the topics of one family.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Streams that were admitted.
    pub admitted: u32,
    /// Why the next was not.
    pub refusal: Option<String>,
    /// The share of a processor that they take.
    pub utilisation: f64,
}

/// Results that would not be carried: their topic, and why.
pub type Refused = Vec<(String, String)>;

/// All answers.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    /// By family of topics.
    pub families: Vec<Answer>,
    /// Results of operators.
    pub results: Refused,
    /// The share of a processor that everything takes together.
    pub utilisation: f64,
}

impl Rehearsal {
    /// Asks for everything in the order of the configuration, each topic with as many subscribers as it is expected to have.
    pub fn of(config: &Config, host: &Host) -> Result<Rehearsal, PlanError> {
        let Some(own) = config.brokers.first() else { return Ok(Rehearsal::default()) };
        let mut stage = Stage::new(config, own, host)?;
        let mut rehearsal = Rehearsal::default();
        let graphs = || stage.world.processor.router().graphs();
        let outputs: Vec<TopicFilter> = graphs()
            .flat_map(|graph| graph.consumers.iter().filter_map(|consumer| consumer.name.parse().ok()))
            .collect();
        // Operators publish there, and nobody else; their results are judged with the messages that they are made of.
        let is_made = |topic: &String| outputs.iter().any(|output| output.matches(topic));
        let sources = sources(config);
        let mut more = Vec::new();
        for (index, family) in config.topics.iter().enumerate() {
            let mut topics = names::of_family(index, &config.topics)?;
            if !names::is_plain(family.rule.filter.as_str()) {
                // The topics that operators take are among those that there will be, whatever the others are called.
                let own =
                    |name: &&String| names::governing(name, &config.topics) == Some(index) && !is_made(name);
                let own: Vec<&String> =
                    sources.iter().filter(own).filter(|name| !topics.contains(name)).collect();
                let (first, rest) = own.split_at(own.len().min(topics.len()));
                topics.splice(..first.len(), first.iter().map(|name| (*name).clone()));
                more.extend(rest.iter().map(|name| (*name).clone()));
            }
            // A topic without wildcards is one, and each of its publishers a stream of it.
            let streams = topics.iter().cycle().take(family.streams as usize);
            let streams = streams.enumerate().map(|(number, topic)| (number / topics.len(), topic));
            rehearsal
                .families
                .push(stage.family(streams.filter(|(_, topic)| !is_made(topic)), family.streams));
        }
        let refused = more.iter().filter_map(|topic| Some((topic.clone(), stage.register(0, topic).err()?)));
        let refused: Refused = refused.collect();
        rehearsal.results = stage.results();
        rehearsal.results.extend(refused);
        rehearsal.utilisation = stage.broker.utilisation();
        Ok(rehearsal)
    }
}

/// The topics that operators take and that are called by their names.
fn sources(config: &Config) -> Vec<String> {
    let suppliers = config.processing.graphs.iter().flat_map(|graph| &graph.suppliers);
    let mut sources: Vec<String> =
        suppliers.map(|supplier| supplier.name.clone()).filter(|name| names::is_plain(name)).collect();
    sources.sort();
    sources.dedup();
    sources
}

struct Stage {
    broker: Broker,
    world: World,
    /// How many are there.
    publishers: u32,
    subscribers: u32,
    /// The next number of a registration.
    next: u32,
    /// The streams to whose messages results belong, by the number of the output.
    outputs: Vec<(u32, contract::StreamId)>,
    /// The first number of an output that has not been seen.
    seen: u32,
}

impl Stage {
    fn new(config: &Config, own: &BrokerAddress, host: &Host) -> Result<Stage, PlanError> {
        let settings = settings(config, own, false, host, IDENTITY);
        let operators = &config.processing;
        let mut processor = Processor::new(config.kinds.clone(), operators.levels, operators.events, Nobody);
        processor.set_interval(operators.snapshots);
        processor
            .change(operators.graphs.clone())
            .map_err(|errors| PlanError(errors.first().map_or_else(String::new, ToString::to_string)))?;
        let world = World { processor, verdict: None, refused: Vec::new() };
        let mut stage = Stage {
            broker: Broker::new(settings),
            world,
            publishers: 0,
            subscribers: 0,
            next: 0,
            outputs: Vec::new(),
            seen: 0,
        };
        stage.broker.handle_timeout(NOW, &mut stage.world);
        stage.subscribe(0, 0, "#")?;
        for (number, family) in (1..).zip(&config.topics) {
            for subscriber in 1..family.subscribers {
                stage.subscribe(subscriber, number, family.rule.filter.as_str())?;
            }
        }
        Ok(stage)
    }

    /// A subscriber asks for the topics of a filter.
    fn subscribe(&mut self, subscriber: u32, number: u32, filter: &str) -> Result<(), PlanError> {
        let link = LinkId(SUBSCRIBER.0 + subscriber);
        while self.subscribers <= subscriber {
            self.greet(LinkId(SUBSCRIBER.0 + self.subscribers), &format!("subscriber-{}", self.subscribers));
            self.subscribers += 1;
        }
        self.world.verdict = None;
        self.broker.handle_frame(
            NOW,
            link,
            Frame::Subscribe { number, needs: contract::Needs::NONE, filter },
            &mut self.world,
        );
        match self.world.verdict.take() {
            Some(Err(reason)) => {
                Err(PlanError(format!("subscriber {} of `{filter}`: {reason}", subscriber + 1)))
            }
            _ => Ok(()),
        }
    }

    /// The streams of a family, each with the number of its publisher and its topic, of `all`: the others are results.
    fn family<'t>(&mut self, streams: impl Iterator<Item = (usize, &'t String)>, all: u32) -> Answer {
        let before = self.broker.utilisation();
        let mut answer = Answer { admitted: all, ..Answer::default() };
        for (asked, (publisher, topic)) in (0..).zip(streams) {
            if let Err(refusal) = self.register(publisher, topic) {
                (answer.admitted, answer.refusal) = (asked, Some(refusal));
                break;
            }
        }
        answer.utilisation = self.broker.utilisation() - before;
        answer
    }

    /// Somebody is there.
    fn greet(&mut self, link: LinkId, name: &str) {
        self.broker.handle_link(NOW, link, LinkChange::Accepted(Protocol::Verge), &mut self.world);
        let hello = Hello {
            standing: Standing::Orphaned,
            prefers_to_reign: false,
            reign: Reign::default(),
            node: NodeId(0),
            incarnation: 1,
            name,
            user: "",
            password: Secret(""),
            knows: Knows::NOTHING,
        };
        self.broker.handle_frame(NOW, link, Frame::Hello(hello), &mut self.world);
    }

    fn register(&mut self, publisher: usize, topic: &str) -> Result<(), String> {
        let (link, name) = (LinkId(publisher as u32), format!("publisher-{publisher}"));
        while self.publishers <= link.0 {
            self.greet(LinkId(self.publishers), &format!("publisher-{}", self.publishers));
            self.publishers += 1;
        }
        let register = Register { stream: self.next, incarnation: 1, contract: None, topic };
        self.next += 1;
        self.world.verdict = None;
        self.broker.handle_frame(NOW, link, Frame::Register(register), &mut self.world);
        let answer = self.world.verdict.take();
        if let Some(stream) = self.broker.stream_of(topic, &name) {
            // The graphs that this topic has completed make their results of it.
            for number in self.world.processor.router().outputs_from(self.seen) {
                self.outputs.push((number, stream));
                self.seen = number + 1;
            }
        }
        answer.unwrap_or_else(|| Err("the broker gives no answer: please report this".to_owned()))
    }

    /// A first result of each output.
    fn results(&mut self) -> Refused {
        for (number, stream) in std::mem::take(&mut self.outputs) {
            let Some(output) = self.world.processor.router().output(number).cloned() else { continue };
            let result = Outcome {
                output: number,
                topic: &output.topic,
                period: output.period,
                deadline: output.deadline,
                gaps: output.gaps.as_deref(),
                stream,
                incarnation: 1,
                seq: 0,
                created: NOW,
                flags: MessageFlags::NONE,
                payload: &[],
                lineage: 0,
            };
            self.broker.publish_result(NOW, &result, &mut self.world);
        }
        std::mem::take(&mut self.world.refused)
    }
}

/// What is around the broker.
struct World {
    processor: Processor<Nobody>,
    verdict: Option<Result<(), String>>,
    refused: Refused,
}

impl Effects for World {
    fn send(&mut self, _link: LinkId, frame: &Frame<'_>) {
        match frame {
            Frame::Verdict(verdict) => {
                self.verdict = Some(if verdict.admitted { Ok(()) } else { Err(verdict.text.to_owned()) });
            }
            Frame::Subscribed { admitted: false, text, .. } => self.verdict = Some(Err((*text).to_owned())),
            _ => {}
        }
    }

    fn send_message(&mut self, _link: LinkId, _kind: MessageKind, _message: &Message<'_>) {}

    fn send_mark(&mut self, _link: LinkId, _kind: MarkKind, _mark: Mark) {}

    fn backlog(&self, _link: LinkId) -> usize {
        0
    }

    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }

    fn taken(&self, _link: LinkId) -> u64 {
        0
    }

    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}

    fn dial(&mut self, _peer: PeerIndex, _within: Span) {}

    fn close(&mut self, _link: LinkId, farewell: &Farewell<'_>) {
        self.verdict = Some(Err(farewell.text.to_owned()));
    }

    fn append(&mut self, _link: LinkId, _order: Order, _write: impl FnOnce(&mut Vec<u8>)) {}

    fn present_again(&mut self, _link: LinkId) {}

    fn hang_up(&mut self, _link: LinkId) {}
}

impl RoutesNowhere for World {}
impl RemembersNothing for World {}
impl RelaysNothing for World {}

impl Reports for World {
    fn report(&mut self, event: &Event<'_>) {
        if let Event::ResultRefused { topic, reason } = event {
            self.refused.push(((*topic).to_owned(), (*reason).to_owned()));
        }
    }

    fn survey(&mut self, _wanted: Range<u32>) -> Survey {
        Survey::default()
    }
}

impl Processes for World {
    fn bind(&mut self, topic: &str) -> Option<Processing> {
        self.processor.bind(topic)
    }

    fn unbind(&mut self, handle: u32) {
        self.processor.unbind(handle);
    }

    fn has_output(&mut self, output: u32) -> bool {
        self.processor.has_output(output)
    }

    fn process(&mut self, _handle: u32, _message: &Processed<'_>) -> bool {
        false
    }

    fn release(&mut self, _lineage: u32) {}

    fn offered(&mut self, _lineage: u32) {}
}

/// Nobody runs the operators: only what they need is asked for.
struct Nobody;

impl Crew for Nobody {
    fn add(&mut self, _station: Box<Station>) {}

    fn remove(&mut self, _place: Place) {}

    fn offer(&mut self, _route: Route, _event: processing::Event) -> bool {
        false
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
