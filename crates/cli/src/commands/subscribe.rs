//! `verge sub`: prints what comes.

use super::connect;
use super::declared::Declared;
use super::stopping::Stop;
use super::watch::Watch;
use crate::arguments::{Format, SubscribeArguments};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use config::Config;
use console::{Outcome, Trouble, complain, yes};
use contract::TopicFilter;
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::str::FromStr;
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
    unjudged: bool,
    reordered: bool,
    out_of_date: bool,
    apart: bool,
    lost: u64,
    longest_run: u64,
    /// The numbers in it, where the configuration declares some.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    payload: String,
    /// How `payload` says the bytes: as they are, or where they are no text in base64.
    encoding: &'static str,
}

impl Line<'_> {
    fn of(message: &Message) -> Line<'_> {
        let (payload, encoding) = match std::str::from_utf8(&message.payload) {
            Ok(text) => (text.to_owned(), "utf-8"),
            Err(_) => (STANDARD.encode(&message.payload), "base64"),
        };
        Line {
            topic: &message.topic,
            publisher: &message.publisher,
            seq: message.seq,
            created_ns: message.created.0,
            latency_ms: message.latency.as_millis_f64(),
            late: message.late,
            unjudged: message.unjudged,
            reordered: message.reordered,
            out_of_date: message.out_of_date,
            apart: message.apart,
            lost: message.lost,
            longest_run: message.longest_run,
            value: None,
            payload,
            encoding,
        }
    }

    fn json(&self) -> Result<String, Trouble> {
        serde_json::to_string(self).map_err(|error| Trouble(error.to_string()))
    }
}

/// How each message is printed, in the words of `mosquitto_sub -F`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Topic,
    Payload,
    Hexadecimal,
    Length,
    Seconds,
    Date,
    Json,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                plain.push(character);
                continue;
            }
            let piece = match characters.next() {
                Some('%') => {
                    plain.push('%');
                    continue;
                }
                Some('t') => Piece::Topic,
                Some('p') => Piece::Payload,
                Some('x') => Piece::Hexadecimal,
                Some('l') => Piece::Length,
                Some('U') => Piece::Seconds,
                Some('I') => Piece::Date,
                Some('j' | 'J') => Piece::Json,
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("%{other} is not known: %t, %p, %x, %l, %U, %I, %j and %% are"));
                }
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Pattern(pieces))
    }
}

impl Pattern {
    /// A message as this pattern has it, with the end of the line.
    fn fill(&self, message: &Message) -> Result<Vec<u8>, Trouble> {
        let mut out = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Topic => out.extend_from_slice(message.topic.as_bytes()),
                Piece::Payload => out.extend_from_slice(&message.payload),
                Piece::Hexadecimal => {
                    message.payload.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
                }
                Piece::Length => write!(out, "{}", message.payload.len())?,
                Piece::Seconds => {
                    let now = host::now().0;
                    write!(out, "{}.{:09}", now / 1_000_000_000, now % 1_000_000_000)?;
                }
                Piece::Date => {
                    let now = jiff::Timestamp::from_nanosecond(i128::from(host::now().0)).unwrap_or_default();
                    write!(out, "{now:.0}")?;
                }
                Piece::Json => out.extend_from_slice(Line::of(message).json()?.as_bytes()),
            }
        }
        out.push(b'\n');
        Ok(out)
    }
}

/// Says what is wrong with a filter before anybody is asked.
pub(super) fn check_filters(filters: &[String]) -> Result<(), Trouble> {
    filters.iter().try_for_each(|filter| match filter.parse::<TopicFilter>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Trouble(error.to_string())),
    })
}

/// Subscribes. `None`: one was refused, which has been told.
pub(super) fn subscribe(
    client: &Client,
    filters: &[String],
    needs: Needs,
) -> Result<Option<Vec<Subscription>>, Trouble> {
    let mut subscriptions = Vec::new();
    for filter in filters {
        match client.subscribe_needing(filter, needs) {
            Ok(subscription) => subscriptions.push(subscription),
            Err(Error::SubscriptionRefused { reason, .. }) => {
                complain(&format!("verge: the subscription `{filter}` was refused: {reason}"));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(subscriptions))
}

/// How long to wait for a message before looking whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// Prints messages until it was enough.
pub fn run(config: &Config, arguments: &SubscribeArguments, format: Format) -> Outcome {
    check_filters(&arguments.topic)?;
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let &SubscribeArguments { deadline, loss, link, best_effort, .. } = arguments;
    let needs = Needs { deadline, loss, link, best_effort, ..Needs::NONE };
    let Some(subscriptions) = subscribe(&client, &arguments.topic, needs)? else { return Ok(yes(false)) };
    let declared = Declared::of(config);
    let _watch = Watch::start(&client, config)?;
    let until = arguments.wait.map(|wait| Instant::now() + Duration::from_nanos(wait.as_nanos_u64()));
    let stop = Stop::on_signals()?;
    let mut printed = 0;
    while arguments.count.is_none_or(|count| printed < count) && !stop.is_asked() {
        let look = Instant::now() + LOOK;
        let found = next(&client, &subscriptions, Some(until.map_or(look, |until| until.min(look))))?;
        let Some(message) = found else {
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            continue;
        };
        if !print(&message, arguments.verbose, arguments.pattern.as_ref(), &declared, format)? {
            break;
        }
        printed += 1;
    }
    Ok(yes(printed > 0 || arguments.wait.is_none()))
}

/// The next message of any subscription; none when it is time to end.
pub(super) fn next(
    client: &Client,
    subscriptions: &[Subscription],
    until: Option<Instant>,
) -> Result<Option<Message>, Error> {
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
pub(super) fn print(
    message: &Message,
    verbose: bool,
    pattern: Option<&Pattern>,
    declared: &Declared,
    format: Format,
) -> Result<bool, Trouble> {
    let mut out = std::io::stdout().lock();
    let result = match format {
        Format::Json => {
            let value = declared.numbers(&message.topic, &message.payload);
            writeln!(out, "{}", Line { value, ..Line::of(message) }.json()?)
        }
        Format::Table => match pattern {
            Some(pattern) => out.write_all(&pattern.fill(message)?),
            None => {
                let topic = if verbose { format!("{} ", message.topic) } else { String::new() };
                let marks = [("out-of-date", message.out_of_date), ("apart", message.apart)];
                let marks = marks
                    .into_iter()
                    .filter(|(_, is_so)| verbose && *is_so)
                    .map(|(mark, _)| format!(" [{mark}]"));
                out.write_all(topic.as_bytes())
                    .and_then(|()| match declared.numbers(&message.topic, &message.payload) {
                        Some(numbers) => out.write_all(numbers.as_bytes()),
                        None => out.write_all(&message.payload),
                    })
                    .and_then(|()| out.write_all(marks.collect::<String>().as_bytes()))
                    .and_then(|()| out.write_all(b"\n"))
            }
        },
    };
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_read_as_mosquitto_writes_it() {
        let read = |text: &str| text.parse::<Pattern>().map(|pattern| pattern.0);
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(read("%t: %p"), Ok(vec![Piece::Topic, text(": "), Piece::Payload]));
        assert_eq!(read("100 %%%l"), Ok(vec![text("100 %"), Piece::Length]));
        assert_eq!(read(""), Ok(Vec::new()));
        for wrong in ["%k", "50 %"] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("%t, %p"), "{error}");
        }
    }
}
