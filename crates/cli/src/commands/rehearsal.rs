//! What a broker will say: the configured topics, and the results that operators make of them, are brought to a broker that has no
//! host, no clients and no time. It is the broker's own code that answers, with everything that it looks at: deadlines, processors,
//! memory, room in its tables, and what operators need.

use super::broker::{memory, processing, settings};
use super::sim::names;
use crate::config::{BrokerAddress, Config, TopicFamily};
use crate::output::Trouble;
use broker::{Broker, Event, Outcome, Outputs, Processing};
use contract::admission::Costs;
use contract::{NodeId, Reign, Span, Time, TopicFilter};
use engine::{Operators, Processor};
use std::collections::BTreeSet;
use stream::{Crew, Place, Product, Route, Station};
use wire::{
    Effects, Farewell, Frame, Hello, Knows, LinkChange, LinkId, Mark, MarkKind, Message, MessageFlags,
    MessageKind, Order, PeerIndex, Protocol, Register, Secret, Standing,
};

/// A time like any other.
const NOW: Time = Time(1_000_000_000_000_000_000);
const PUBLISHER: LinkId = LinkId(0);
const SUBSCRIBER: LinkId = LinkId(1);

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
    pub results: Refused,
    pub utilisation: f64,
}

impl Rehearsal {
    /// Asks for everything in the order of the configuration, each topic with one subscriber.
    pub fn of(config: &Config, costs: Costs, blocking: Span) -> Result<Rehearsal, Trouble> {
        let Some(own) = config.brokers.first() else { return Ok(Rehearsal::default()) };
        let mut stage = Stage::new(config, own, costs, blocking)?;
        let mut rehearsal = Rehearsal::default();
        let graphs = || stage.world.processor.router().graphs();
        let outputs: Vec<TopicFilter> = graphs()
            .flat_map(|graph| graph.consumers.iter().filter_map(|consumer| consumer.name.parse().ok()))
            .collect();
        // Operators publish there, and nobody else; their results are judged with the messages that they are made of.
        let is_made = |topic: &String| outputs.iter().any(|output| output.matches(topic));
        for (index, family) in config.topics.iter().enumerate() {
            let mut topics = names::of_family(index, &config.topics)?;
            topics.retain(|topic| !is_made(topic));
            rehearsal.families.push(stage.family(family, &topics));
        }
        rehearsal.results = stage.results();
        rehearsal.utilisation = stage.broker.utilisation();
        Ok(rehearsal)
    }
}

struct Stage {
    broker: Broker,
    world: World,
    /// Numbers that the publisher has given.
    next: u32,
    /// The streams to whose messages results belong, by the number of the output.
    outputs: Vec<(u32, u32)>,
    known: BTreeSet<u32>,
}

impl Stage {
    fn new(config: &Config, own: &BrokerAddress, costs: Costs, blocking: Span) -> Result<Stage, Trouble> {
        let settings = broker::Settings {
            limits: memory::shares(config).broker,
            node: NodeId(1),
            started: NOW,
            ..settings(config, own, false, costs, blocking + processing::longest_rest(config))
        };
        let operators = &config.processing;
        let mut processor = Processor::new(config.kinds.clone(), operators.levels, operators.events, Nobody);
        processor
            .change(operators.graphs.clone())
            .map_err(|errors| Trouble(errors.first().map_or_else(String::new, ToString::to_string)))?;
        let world = World { processor, verdict: None, refused: Vec::new() };
        let mut stage = Stage {
            broker: Broker::new(settings),
            world,
            next: 0,
            outputs: Vec::new(),
            known: BTreeSet::new(),
        };
        stage.broker.handle_timeout(NOW, &mut stage.world);
        for (link, name) in [(PUBLISHER, "publisher"), (SUBSCRIBER, "subscriber")] {
            stage.broker.handle_link(NOW, link, LinkChange::Accepted(Protocol::Verge), &mut stage.world);
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
            stage.broker.handle_frame(NOW, link, Frame::Hello(hello), &mut stage.world);
        }
        let all = Frame::Subscribe { number: 0, filter: "#" };
        stage.broker.handle_frame(NOW, SUBSCRIBER, all, &mut stage.world);
        Ok(stage)
    }

    fn family(&mut self, family: &TopicFamily, topics: &[String]) -> Answer {
        let before = self.broker.utilisation();
        let mut answer = Answer::default();
        // One topic without wildcards may have several publishers, each of which is a stream.
        for index in 0..family.streams as usize {
            // Others are results, or are further publishers of the only topic.
            let Some(topic) = topics.get(index) else {
                answer.admitted += 1;
                continue;
            };
            if let Err(refusal) = self.register(topic) {
                answer.refusal = Some(refusal);
                break;
            }
            answer.admitted += 1;
        }
        answer.utilisation = self.broker.utilisation() - before;
        answer
    }

    fn register(&mut self, topic: &str) -> Result<(), String> {
        let register = Register { stream: self.next, incarnation: 1, contract: None, topic };
        self.next += 1;
        self.world.verdict = None;
        self.broker.handle_frame(NOW, PUBLISHER, Frame::Register(register), &mut self.world);
        let answer = self.world.verdict.take();
        if let Some(stream) = self.broker.stream_of(topic, "publisher") {
            // The graphs that this topic has completed make their results of it.
            let router = self.world.processor.router();
            let fresh =
                router.outputs().map(|(number, _)| number).filter(|number| !self.known.contains(number));
            let fresh: Vec<u32> = fresh.collect();
            self.outputs.extend(fresh.iter().map(|number| (*number, stream)));
            self.known.extend(fresh);
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
                gapless: output.gapless,
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
        if let Frame::Verdict(verdict) = frame {
            self.verdict = Some(if verdict.admitted { Ok(()) } else { Err(verdict.text.to_owned()) });
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

impl Outputs for World {
    fn report(&mut self, event: &Event<'_>) {
        if let Event::ResultRefused { topic, reason } = event {
            self.refused.push(((*topic).to_owned(), (*reason).to_owned()));
        }
    }

    fn bind(&mut self, topic: &str) -> Option<Processing> {
        self.processor.bind(topic)
    }

    fn unbind(&mut self, handle: u32) {
        self.processor.unbind(handle);
    }

    fn has_output(&mut self, output: u32) -> bool {
        self.processor.has_output(output)
    }
}

/// Nobody runs the operators: only what they need is asked for.
struct Nobody;

impl Crew for Nobody {
    fn add(&mut self, _station: Box<Station>) {}

    fn remove(&mut self, _place: Place) {}

    fn offer(&mut self, _route: Route, _event: stream::Event) -> bool {
        false
    }

    fn collect(&mut self) -> Option<Product> {
        None
    }

    fn is_idle(&self) -> bool {
        true
    }
}
