//! `verge sub`: prints what comes.

use super::connect;
use super::watch::Watch;
use crate::arguments::{Format, SubscribeArguments};
use crate::config::Config;
use crate::output::{Outcome, Trouble, complain, yes};
use contract::TopicFilter;
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};
use verge::{Client, Error, Message, Needs, Subscription};

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    publisher: &'a str,
    seq: u64,
    created_ns: u64,
    latency_ms: f64,
    late: bool,
    reordered: bool,
    out_of_date: bool,
    apart: bool,
    lost: u64,
    longest_run: u64,
    payload: String,
}

/// Prints messages until it was enough.
pub fn run(config: &Config, arguments: &SubscribeArguments, format: Format) -> Outcome {
    for filter in &arguments.topic {
        filter.parse::<TopicFilter>().map_err(|error| Trouble(error.to_string()))?;
    }
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let mut subscriptions: Vec<Subscription> = Vec::new();
    let &SubscribeArguments { deadline, loss, link, best_effort, .. } = arguments;
    let needs = Needs { deadline, loss, link, best_effort };
    for filter in &arguments.topic {
        match client.subscribe_needing(filter, needs) {
            Ok(subscription) => subscriptions.push(subscription),
            Err(Error::SubscriptionRefused { reason, .. }) => {
                complain(&format!("verge: the subscription `{filter}` was refused: {reason}"));
                return Ok(yes(false));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let _watch = Watch::start(&client, config)?;
    let until = arguments.wait.map(|wait| Instant::now() + Duration::from_nanos(wait.as_nanos_u64()));
    let mut printed = 0;
    while arguments.count.is_none_or(|count| printed < count) {
        let Some(message) = next(&client, &subscriptions, until)? else { break };
        if !print(&message, arguments.verbose, format)? {
            break;
        }
        printed += 1;
    }
    Ok(yes(printed > 0 || arguments.wait.is_none()))
}

/// The next message of any subscription; none when it is time to end.
fn next(
    client: &Client,
    subscriptions: &[Subscription],
    until: Option<Instant>,
) -> Result<Option<Message>, Error> {
    const LOOK: Duration = Duration::from_millis(50);
    loop {
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
        match subscriptions {
            [only] => {
                if let Some(message) = only.next_within(left) {
                    return Ok(Some(message));
                }
            }
            several => {
                let ready = several.iter().find_map(|subscription| subscription.next_within(Duration::ZERO));
                if ready.is_some() {
                    return Ok(ready);
                }
                std::thread::sleep(left.min(Duration::from_millis(1)));
            }
        }
        client.check()?;
        for reason in client.dropped_needs()? {
            complain(&format!("verge: {reason}"));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
    }
}

/// Prints one message; `false` when nobody reads any more.
fn print(message: &Message, verbose: bool, format: Format) -> Result<bool, Trouble> {
    let mut out = std::io::stdout().lock();
    let result = match format {
        Format::Json => {
            let line = Line {
                topic: &message.topic,
                publisher: &message.publisher,
                seq: message.seq,
                created_ns: message.created.0,
                latency_ms: message.latency.as_millis_f64(),
                late: message.late,
                reordered: message.reordered,
                out_of_date: message.out_of_date,
                apart: message.apart,
                lost: message.lost,
                longest_run: message.longest_run,
                payload: String::from_utf8_lossy(&message.payload).into_owned(),
            };
            let text = serde_json::to_string(&line).map_err(|error| Trouble(error.to_string()))?;
            writeln!(out, "{text}")
        }
        Format::Table => {
            let topic = if verbose { format!("{} ", message.topic) } else { String::new() };
            let marks = [("out-of-date", message.out_of_date), ("apart", message.apart)];
            let marks = marks
                .into_iter()
                .filter(|(_, is_so)| verbose && *is_so)
                .map(|(mark, _)| format!(" [{mark}]"));
            out.write_all(topic.as_bytes())
                .and_then(|()| out.write_all(&message.payload))
                .and_then(|()| out.write_all(marks.collect::<String>().as_bytes()))
                .and_then(|()| out.write_all(b"\n"))
        }
    };
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}
