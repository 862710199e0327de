//! `verge pub`: publishes messages by hand.

use super::connect;
use super::stopping::Stop;
use super::watch::Watch;
use crate::arguments::{Format, PublishArguments};
use config::Config;
use console::{Outcome, Trouble, complain, json, yes};
use contract::{Contract, Span};
use serde::Serialize;
use std::io::{BufRead, Read};
use std::time::{Duration, Instant};
use verge::{Client, Error, Publisher};

/// How long to rest before looking whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// The contract of a topic that has none anywhere.
fn without_contract() -> Contract {
    Contract::every(Span::millis(1)).deadline(Span::secs(1)).best_effort()
}

#[derive(Serialize)]
struct Published<'a> {
    topic: &'a str,
    messages: u64,
    /// Of those, how many the broker could not keep.
    untaken: u64,
}

/// Publishes what was asked for.
pub fn run(config: &Config, arguments: &PublishArguments, format: Format) -> Outcome {
    contract::check_name(&arguments.topic).map_err(|error| Trouble(error.to_string()))?;
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let _watch = Watch::start(&client, config)?;
    let publisher = match advertise(&client, arguments) {
        Err(Error::Refused { topic, reason, .. }) => {
            let topic = contract::shortened(&topic, contract::TOPIC_BYTES_SHOWN);
            complain(&format!("verge: the contract of `{topic}` was refused: {reason}"));
            return Ok(yes(false));
        }
        publisher => publisher?,
    };
    let messages =
        if arguments.lines { publish_lines(&publisher)? } else { publish_repeated(&publisher, arguments)? };
    // A primary that changes just now has been sent what the contract retains, and nobody knows of the rest.
    let _ = client.settle();
    let (untaken, reason) = publisher.untaken();
    if untaken > 0 {
        eprintln!("verge: the broker could not keep {untaken} of {messages} messages: {reason}");
    }
    if format == Format::Json {
        json(&Published { topic: publisher.topic(), messages, untaken })?;
    }
    Ok(yes(untaken == 0))
}

/// Asks for the contract in the flags, or for the configured one, or else carries the topic as best effort and says so.
fn advertise(client: &Client, arguments: &PublishArguments) -> Result<Publisher, Error> {
    if arguments.contract.is_given() {
        return client.publisher(&arguments.topic, arguments.contract.contract(Span::secs(1)));
    }
    match client.publisher_by_configuration(&arguments.topic) {
        Err(Error::Refused { reason, .. }) if reason.contains("has no contract") => {
            complain(&format!(
                "verge: `{}` has no contract, so it is carried as best effort",
                contract::shortened(&arguments.topic, contract::TOPIC_BYTES_SHOWN)
            ));
            client.publisher(&arguments.topic, without_contract())
        }
        publisher => publisher,
    }
}

fn publish_lines(publisher: &Publisher) -> Result<u64, Trouble> {
    let mut messages = 0;
    for line in std::io::stdin().lock().lines() {
        publish(publisher, line?.as_bytes())?;
        messages += 1;
    }
    Ok(messages)
}

fn publish_repeated(publisher: &Publisher, arguments: &PublishArguments) -> Result<u64, Trouble> {
    let payload = match (&arguments.message, &arguments.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => std::fs::read(path)
            .map_err(|error| Trouble(format!("cannot read {}: {error}", path.display())))?,
        (None, None) if arguments.stdin => {
            let mut payload = Vec::new();
            std::io::stdin().lock().read_to_end(&mut payload)?;
            payload
        }
        (None, None) if arguments.null_message => Vec::new(),
        (None, None) => {
            return Err(Trouble("nothing to publish: give -m TEXT, -f FILE, -s, -n or -l".to_owned()));
        }
    };
    // What has no contract says nothing of a rate.
    let period = publisher
        .contract()
        .filter(|contract| *contract != without_contract())
        .map(|contract| contract.period);
    let period = period.filter(|period| !period.is_forever());
    let delay = arguments.repeat_delay.or(period).unwrap_or(Span::secs(1));
    let stop = Stop::on_signals()?;
    for round in 0..arguments.repeat {
        let until = Instant::now() + Duration::from_nanos(delay.as_nanos_u64());
        while round > 0 && Instant::now() < until && !stop.is_asked() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK));
        }
        if stop.is_asked() {
            return Ok(round);
        }
        publish(publisher, &payload)?;
    }
    Ok(arguments.repeat)
}

/// Publishes, waiting where the broker does not take messages fast enough.
fn publish(publisher: &Publisher, payload: &[u8]) -> Result<(), Trouble> {
    Ok(waiting(|| publisher.publish(payload)).map(drop)?)
}

/// The same, whatever publishes.
pub(super) fn waiting<T>(mut publish: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match publish() {
            Err(error) if error.is_retryable() => std::thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
}
