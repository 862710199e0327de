//! `verge check` and a broker give one answer: made-up configurations are judged by both, the broker with real publishers, subscribers
//! and operators.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use support::{Site, wait_until};
use verge::{Client, Error};

/// Configurations that were judged differently once, or are like any other.
const FIXED: [u64; 3] = [1, 2, 3];
/// Others in each run.
const FRESH: u64 = 3;

/// How `verge check` begins what brokers say of results.
const BROKERS_REFUSE: &str = "brokers refuse the results on";

/// Topics that have one contract.
struct Family {
    streams: u32,
    subscribers: u32,
    /// Whether an operator makes results of each of its messages.
    is_processed: bool,
}

impl Family {
    fn topic(number: usize, stream: u32) -> String {
        format!("in{number}/{stream}")
    }
}

/// A configuration.
fn made_up(seed: u64) -> (Site, Vec<Family>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let share = f64::from(random.u32(10..=90)) / 100.0;
    let (store, size) = (4 << random.u32(0..5), 16 << random.u32(0..9));
    let mut text = format!("[limits]\nstore = \"{store}MiB\"\nsize_assumed = {size}\n");
    let mut operators = String::new();
    let families: Vec<Family> = (0..random.usize(1..=5))
        .map(|number| {
            let family = Family {
                streams: 1 << random.u32(0..8),
                subscribers: random.u32(1..=12),
                is_processed: random.u32(0..3) == 0,
            };
            write_topic(&mut text, &format!("in{number}/+"), &mut random);
            let Family { streams, subscribers, .. } = family;
            writeln!(text, "streams = {streams}\nsubscribers = {subscribers}").unwrap();
            if family.is_processed {
                write_operator(&mut operators, number, &mut random);
                if random.bool() {
                    write_topic(&mut text, &format!("out{number}/+"), &mut random);
                }
            }
            family
        })
        .collect();
    let site = Site::new(&(text + &operators));
    let text = std::fs::read_to_string(&site.config).unwrap();
    let text = text.replacen("[admission]\n", &format!("[admission]\nshare = {share}\n"), 1);
    std::fs::write(&site.config, text).unwrap();
    (site, families)
}

fn write_topic(text: &mut String, filter: &str, random: &mut fastrand::Rng) {
    let period = [2, 5, 10, 20, 50, 100, 1_000][random.usize(0..7)];
    let deadline = random.u32(2..=2 * period + 4);
    let loss = ["0", "1", "3", "\"unbounded\""][random.usize(0..4)];
    let link = ["edge", "edge", "cloud"][random.usize(0..3)];
    let retain = random.u32(0..60);
    write!(
        text,
        "[[topic]]\nfilter = \"{filter}\"\nperiod = \"{period}ms\"\ndeadline = \"{deadline}ms\"\nloss = {loss}\nretain = {retain}\n\
         link = \"{link}\"\n"
    )
    .unwrap();
    if random.bool() {
        writeln!(text, "size = {}", 8 << random.u32(0..12)).unwrap();
    }
}

fn write_operator(text: &mut String, number: usize, random: &mut fastrand::Rng) {
    write!(
        text,
        "[[source]]\ntopic = \"in{number}/+\"\ntype = \"f64\"\n\
         [[operator]]\nname = \"made{number}\"\nkind = \"scale\"\ninputs = [\"in{number}/+\"]\nfrom = \"degC\"\nto = \"K\"\n\
         cost = \"1us\"\noutput = \"out{number}/+\"\ndeadline = \"{}ms\"\n",
        random.u32(10..=400)
    )
    .unwrap();
}

/// How many streams of each family are admitted, and why no more; and why results are refused, by their filter or topic.
#[derive(Default, PartialEq, Eq, Debug)]
struct Answer {
    families: BTreeMap<usize, (u32, String)>,
    results: BTreeMap<String, String>,
}

/// What `verge check` says.
fn checked(site: &Site, families: &[Family]) -> Result<Answer, String> {
    let ran = site.run(&["check", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).map_err(|_| ran.err.clone())?;
    let mut answer = Answer::default();
    for row in report["topics"].as_array().unwrap() {
        let (filter, reason) = (row["filter"].as_str().unwrap(), row["reason"].as_str().unwrap());
        let Some(number) = filter.strip_prefix("in").and_then(|rest| rest.strip_suffix("/+")) else {
            continue;
        };
        let number: usize = number.parse().unwrap();
        let verdict = match reason.strip_prefix("only ") {
            None if reason.is_empty() => (families[number].streams, String::new()),
            None => (0, reason.to_owned()),
            Some(rest) => {
                let (some, refusal) = rest.split_once(": ").unwrap();
                (some.split(' ').next().unwrap().parse().unwrap(), refusal.to_owned())
            }
        };
        answer.families.insert(number, verdict);
    }
    for row in report["operators"]["outputs"].as_array().into_iter().flatten() {
        let (topic, reason) = (row["topic"].as_str().unwrap(), row["reason"].as_str().unwrap());
        answer.results.insert(topic.to_owned(), reason.to_owned());
    }
    Ok(answer)
}

/// Everybody who was counted with, in the same order.
struct Crowd {
    subscribers: Vec<Client>,
    subscriptions: Vec<verge::Subscription>,
}

impl Crowd {
    fn subscribe(&mut self, site: &Site, subscriber: u32, filter: &str) {
        while self.subscribers.len() as u32 <= subscriber {
            self.subscribers.push(site.client());
        }
        self.subscriptions.push(self.subscribers[subscriber as usize].subscribe(filter).unwrap());
    }
}

/// What a broker says, and of which results it said anything.
fn told(site: &Site, families: &[Family]) -> Answer {
    let broker = site.start(0);
    // Each connection counts, so nobody else asks.
    wait_until("it reigns", || broker.log().contains("is primary in epoch"));
    let mut crowd = Crowd { subscribers: Vec::new(), subscriptions: Vec::new() };
    // The first hears of all results.
    crowd.subscribe(site, 0, "#");
    for (number, family) in families.iter().enumerate() {
        for subscriber in 1..family.subscribers {
            crowd.subscribe(site, subscriber, &format!("in{number}/+"));
        }
    }
    let client = site.client();
    let mut answer = Answer::default();
    let mut publishers = Vec::new();
    for (number, family) in families.iter().enumerate() {
        let mut verdict = (family.streams, String::new());
        for stream in 0..family.streams {
            match client.publisher_by_configuration(&Family::topic(number, stream)) {
                Ok(publisher) => publishers.push(publisher),
                Err(Error::Refused { reason, .. }) => {
                    verdict = (stream, reason);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        answer.families.insert(number, verdict);
    }
    // Results that do not fit all together are admitted as they come: in the order in which `verge check` asks. Each message has its
    // result, or a word about it.
    let refusals = || {
        let log = broker.log();
        let lines = log.lines().filter_map(|line| line.split_once("cannot be published on `"));
        let parts = lines.filter_map(|(_, rest)| rest.split_once("`: "));
        parts.map(|(topic, reason)| (topic.to_owned(), reason.to_owned())).collect::<BTreeMap<_, _>>()
    };
    let mut came = BTreeSet::new();
    for publisher in &publishers {
        publisher.publish(&20.5_f64.to_le_bytes()).unwrap();
        let (family, stream) = publisher.topic().strip_prefix("in").unwrap().split_once('/').unwrap();
        if !families[family.parse::<usize>().unwrap()].is_processed {
            continue;
        }
        let result = format!("out{family}/{stream}");
        wait_until("a result came or was refused", || {
            while let Some(message) = crowd.subscriptions[0].next_within(std::time::Duration::ZERO) {
                came.insert(message.topic.to_string());
            }
            came.contains(&result) || refusals().contains_key(&result)
        });
    }
    answer.results = refusals();
    answer
}

/// The filter of an output, for a topic of its results.
fn filter_of(topic: &str) -> String {
    format!("{}/+", topic.split('/').next().unwrap())
}

fn they_agree(seed: u64) {
    let (site, families) = made_up(seed);
    let text = std::fs::read_to_string(&site.config).unwrap();
    let check = checked(&site, &families).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
    let broker = told(&site, &families);
    assert_eq!(check.families, broker.families, "seed {seed}, check and broker\n{text}");
    // Results may be refused for more than one reason, of which `verge check` says one.
    for (topic, reason) in &broker.results {
        let expected = check.results.get(&filter_of(topic)).cloned().unwrap_or_default();
        let is_of_broker = expected.starts_with(&format!("{BROKERS_REFUSE} `{topic}`"));
        assert!(
            if is_of_broker { expected.ends_with(reason) } else { !expected.is_empty() },
            "seed {seed}: `{topic}` is refused: {reason}; check says `{expected}`\n{text}"
        );
    }
    let is_refused = |filter: &str| broker.results.keys().any(|topic| filter_of(topic) == filter);
    for (filter, reason) in check.results.iter().filter(|(_, reason)| reason.starts_with(BROKERS_REFUSE)) {
        assert!(
            is_refused(filter),
            "seed {seed}: check says of `{filter}`: {reason}; the broker nothing\n{text}"
        );
    }
    let some = |(number, reason): &(u32, String)| *number > 0 || reason.is_empty();
    let refused = broker.families.values().filter(|it| !it.1.is_empty()).count();
    println!(
        "seed {seed}: {} families, {} admitted at least in part, {refused} refused at least in part, {} results refused",
        families.len(),
        broker.families.values().filter(|it| some(it)).count(),
        broker.results.len()
    );
}

#[test]
fn check_and_broker_judge_made_up_configurations_alike() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for seed in FIXED.into_iter().chain((0..FRESH).map(|number| now * FRESH + number)) {
        they_agree(seed);
    }
}
