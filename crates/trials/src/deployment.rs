//! A deployment to simulate, from a configuration: who publishes what to whom, and how far they are from each other.

use super::costing::Costing;
use super::hosts::Hosts;
use config::{Config, TopicFamily};
use contract::{LinkClass, Span};
use node::Trouble;
use planner::names;
use sim::{ClockError, Latency, Pace, PublisherSpec, Scenario, SubscriberSpec, TopicSpec};
use std::collections::BTreeMap;

/// What the simulator gets, and how to speak about it.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Everything but the faults.
    pub scenario: Scenario,
    /// The names of its hosts.
    pub hosts: Hosts,
    /// The configured brokers, in the simulator's order.
    pub brokers: [String; 2],
    /// Which family a topic belongs to.
    pub family_of: BTreeMap<String, usize>,
}

/// The payload of every message, unless a scenario says otherwise.
const PAYLOAD_BYTES: usize = 64;
/// One publisher stands for a proxy of so many devices at most.
const TOPICS_PER_PUBLISHER: usize = 50;
/// What kernels hold for one direction of a connection.
const WINDOW_BYTES: usize = 4 << 20;
/// Publishers begin when subscribers have had the time to subscribe, so that nothing is published for nobody.
const PUBLISHERS_START: Span = Span::millis(500);
/// The least difference between the shortest and the longest way to a subscriber.
const SUBSCRIBER_JITTER: Span = Span::micros(100);

/// The deployment that a configuration describes, without faults.
pub fn build(config: &Config, costing: &Costing) -> Result<Deployment, Trouble> {
    let brokers = order_of_brokers(config)?;
    check_size(config)?;
    let topics = (0..config.topics.len()).map(|index| names::of_family(index, &config.topics));
    let topics = topics.collect::<Result<Vec<_>, _>>()?;
    let publishers = publishers(config, &topics);
    let subscribers = subscribers(config, &topics);
    let family_of = topics.iter().enumerate();
    let family_of =
        family_of.flat_map(|(family, names)| names.iter().map(move |name| (name.clone(), family)));
    let names = |specs: &[PublisherSpec]| specs.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
    let publisher_names = names(&publishers);
    let publisher_names: Vec<&str> = publisher_names.iter().map(String::as_str).collect();
    let subscriber_names: Vec<&str> = subscribers.iter().map(|spec| spec.name.as_str()).collect();
    Ok(Deployment {
        hosts: Hosts::new([&brokers[0], &brokers[1]], &publisher_names, &subscriber_names),
        family_of: family_of.collect(),
        scenario: scenario(config, costing, publishers, subscribers),
        brokers,
    })
}

fn scenario(
    config: &Config,
    costing: &Costing,
    publishers: Vec<PublisherSpec>,
    subscribers: Vec<SubscriberSpec>,
) -> Scenario {
    Scenario {
        span: Span::ZERO,
        delays: config.delays,
        links: config.links.clone(),
        costs: costing.admission,
        true_costs: costing.truth,
        // What is asked is whether a deployment that runs keeps its contracts.
        request_cost: Span::ZERO,
        supply: costing.supply,
        schedulability: config.admission.schedulability,
        best_effort_subscriptions: config.admission.best_effort_subscriptions,
        policy: config.policy,
        replication: config.replication,
        detection: config.detection,
        limits: config.limits,
        topics: config.topics.iter().map(|family| family.rule.clone()).collect(),
        clocks: [ClockError::default(); 2],
        pair: from_pair(config.delays.broker_to_broker),
        pair_loss_ppm: 0,
        window_bytes: WINDOW_BYTES,
        publishers,
        subscribers,
        // Operators compute on real payloads, and here there are none.
        processing: Vec::new(),
        later: Vec::new(),
        devices: Vec::new(),
        mqtt: mqtt::Limits::default(),
        workers: 1,
        snapshots: Span::millis(100),
        operator_cost: Latency::fixed(Span::ZERO),
        faults: Vec::new(),
        assumed: true,
    }
}

/// The broker that starts as primary comes first, as in the simulator.
fn order_of_brokers(config: &Config) -> Result<[String; 2], Trouble> {
    let [one, other] = config.brokers.as_slice() else {
        return Err(Trouble(
            "only one broker is configured, and a simulation needs a pair: add another [brokers.NAME]"
                .to_owned(),
        ));
    };
    let swap = other.starts_as_primary && !one.starts_as_primary;
    let (first, second) = if swap { (other, one) } else { (one, other) };
    Ok([first.name.clone(), second.name.clone()])
}

fn check_size(config: &Config) -> Result<(), Trouble> {
    if config.topics.is_empty() {
        return Err(Trouble(
            "no topic is configured, so there is nothing to simulate: add [[topic]] with filter, period and streams to the \
             configuration (see `verge config default`)"
                .to_owned(),
        ));
    }
    let streams: u64 = config.topics.iter().map(|family| u64::from(family.streams)).sum();
    if streams > config.limits.streams as u64 {
        return Err(Trouble(format!(
            "the [[topic]] families have {streams} streams together, and limits.streams is {}: raise it or lower \
             `streams`",
            config.limits.streams
        )));
    }
    Ok(())
}

fn publishers(config: &Config, topics: &[Vec<String>]) -> Vec<PublisherSpec> {
    let latency = from_publisher(config.delays.publisher_to_broker);
    let mut publishers = Vec::new();
    let mut add = |family: &TopicFamily, names: &[String]| {
        let topic = |name: &String| TopicSpec {
            name: name.clone(),
            contract: family.rule.contract,
            // The brokers' configuration governs, as it does where publishers state nothing.
            stated: false,
            payload_bytes: PAYLOAD_BYTES,
            pace: Pace::Periodic,
        };
        publishers.push(PublisherSpec {
            name: format!("publisher-{}", publishers.len() + 1),
            topics: names.iter().map(topic).collect(),
            latency,
            clock: ClockError::default(),
            starts: PUBLISHERS_START,
        });
    };
    for (family, names) in config.topics.iter().zip(topics) {
        if names::is_plain(family.rule.filter.as_str()) {
            // One topic with several streams has as many publishers.
            (0..family.streams).for_each(|_| add(family, names));
        } else {
            names.chunks(TOPICS_PER_PUBLISHER).for_each(|proxy| add(family, proxy));
        }
    }
    publishers
}

/// As many subscribers for each class of links in use as its topics are expected to have; more if one may not have so many filters.
fn subscribers(config: &Config, topics: &[Vec<String>]) -> Vec<SubscriberSpec> {
    let mut filters: BTreeMap<(LinkClass, u32), Vec<String>> = BTreeMap::new();
    for (index, family) in config.topics.iter().enumerate() {
        for number in 0..family.subscribers {
            let of_number = filters.entry((family.rule.contract.link, number)).or_default();
            of_number.extend(filters_for(index, config, topics));
        }
    }
    let most = config.limits.filters_per_session.max(1);
    let mut subscribers = Vec::new();
    for ((class, subscriber), filters) in filters {
        let to_subscriber = config.links.delay(class).map_or(Span::ZERO, |link| link.to_subscriber);
        for (part, filters) in filters.chunks(most).enumerate() {
            let number = |number: u32| if number == 0 { String::new() } else { format!("-{}", number + 1) };
            let (again, part) = (number(subscriber), number(part as u32));
            subscribers.push(SubscriberSpec {
                name: format!("subscriber-{class}{again}{part}"),
                filters: filters.to_vec(),
                best_effort: false,
                latency: to_subscribers(to_subscriber),
                clock: ClockError::default(),
                starts: Span::ZERO,
            });
        }
    }
    subscribers
}

/// The filter of a family, or all its topics where the filter would also catch topics of another class, whose deadlines
/// were not made for this way.
fn filters_for(index: usize, config: &Config, topics: &[Vec<String>]) -> Vec<String> {
    let family = &config.topics[index].rule;
    let mut others =
        config.topics.iter().zip(topics).filter(|(f, _)| f.rule.contract.link != family.contract.link);
    let catches_others = others.any(|(_, names)| names.iter().any(|name| family.filter.matches(name)));
    if catches_others { topics[index].clone() } else { vec![family.filter.to_string()] }
}

/// The configured bound is on the whole way, which includes the broker's reading: the network takes up to nine tenths.
fn from_publisher(most: Span) -> Latency {
    Latency { least: Span(most.0 / 10), typical: Span(most.0 / 3), most: Span(most.0 / 10 * 9) }
}

fn from_pair(most: Span) -> Latency {
    Latency { least: Span(most.0 / 4), typical: Span(most.0 / 2), most }
}

/// The configured delay is a lower bound.
fn to_subscribers(least: Span) -> Latency {
    let most = least + Span(least.0 / 2).max(SUBSCRIBER_JITTER);
    Latency { least, typical: least + Span(least.0 / 10), most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::AdmissionConfig;

    fn deploy(text: &str) -> Result<Deployment, String> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("verge-deploy-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let config = Config::load(Some(&path), &[]);
        std::fs::remove_file(&path).unwrap();
        let config = config.map_err(|problems| problems.to_string())?;
        let cost = Some(Span::micros(5));
        let admission = AdmissionConfig {
            arrival: cost,
            dispatch: cost,
            replication: cost,
            blocking: Some(Span::millis(1)),
            ..config.admission.clone()
        };
        build(&config, &Costing::new(&admission, None)).map_err(|trouble| trouble.to_string())
    }

    #[test]
    fn every_stream_has_a_topic_and_every_class_a_subscriber() {
        let text = "[[topic]]\nfilter = \"a/+\"\nperiod = \"50ms\"\nretain = 2\nstreams = 120\n\
                    [[topic]]\nfilter = \"b\"\nperiod = \"50ms\"\nretain = 2\nstreams = 3\nlink = \"cloud\"\n";
        let deployment = deploy(text).unwrap();
        let sizes: Vec<usize> = deployment.scenario.publishers.iter().map(|spec| spec.topics.len()).collect();
        assert_eq!(sizes, [50, 50, 20, 1, 1, 1]);
        let subscribers: Vec<_> = deployment
            .scenario
            .subscribers
            .iter()
            .map(|spec| (spec.name.as_str(), spec.filters.clone()))
            .collect();
        let expected =
            [("subscriber-cloud", vec!["b".to_owned()]), ("subscriber-edge", vec!["a/+".to_owned()])];
        assert_eq!(subscribers, expected);
        assert_eq!(deployment.scenario.subscribers[0].latency.most, Span::millis(30));
        assert_eq!(deployment.family_of["a/119"], 0);
    }

    #[test]
    fn a_filter_that_would_catch_another_class_is_replaced_by_its_topics() {
        let text = "[[topic]]\nfilter = \"a/far\"\nperiod = \"500ms\"\nlink = \"cloud\"\n\
                    [[topic]]\nfilter = \"a/#\"\nperiod = \"500ms\"\nstreams = 2\n";
        let deployment = deploy(text).unwrap();
        assert_eq!(deployment.scenario.subscribers[1].filters, ["a/0", "a/1"]);
    }

    #[test]
    fn the_broker_that_starts_as_primary_comes_first() {
        let text = "[brokers.left]\nclients = \"127.0.0.1:1\"\npair = \"127.0.0.1:2\"\n\
                    [brokers.right]\nclients = \"127.0.0.1:3\"\npair = \"127.0.0.1:4\"\nstart_as = \"primary\"\n\
                    [[topic]]\nfilter = \"a\"\nperiod = \"1s\"\n";
        assert_eq!(deploy(text).unwrap().brokers, ["right", "left"]);
    }

    #[test]
    fn what_cannot_be_simulated_is_named_with_the_remedy() {
        assert!(deploy("").unwrap_err().contains("add [[topic]]"));
        let many = "limits.streams = 10\n[[topic]]\nfilter = \"a/+\"\nperiod = \"1s\"\nstreams = 11\n";
        assert!(deploy(many).unwrap_err().contains("limits.streams is 10"));
        let alone = "[brokers.left]\nclients = \"127.0.0.1:1\"\npair = \"127.0.0.1:2\"\n[[topic]]\nfilter = \"a\"\n\
                     period = \"1s\"\n";
        assert!(deploy(alone).unwrap_err().contains("add another [brokers.NAME]"));
    }
}
