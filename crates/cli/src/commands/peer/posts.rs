//! What asks a peer: `verge find`, `verge interest`, `verge announce`.

use super::super::connect;
use super::super::declared::Declared;
use super::super::publish::waiting;
use super::super::stopping::Stop;
use super::super::subscribe::print;
use super::super::watch::Watch;
use super::places;
use crate::arguments::Format;
use crate::arguments::peer::{AnnounceArguments, FindArguments, InterestArguments};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use config::Config;
use console::{Outcome, Trouble, complain, json, line, table, yes};
use contract::Span;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use report::{ContractReport, NeedsReport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::{Duration, Instant};
use verge::{Error, Met, Peers};

/// How long it is waited before it is looked whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// Events that wait to be told.
const WAITING_MAX: usize = 4_096;

/// The peers that are asked.
pub(super) fn peers(config: &Config, peer: Option<&str>) -> Result<Peers, Trouble> {
    let places: Vec<String> = places(config, peer)?.into_iter().map(|(_, place)| place).collect();
    Ok(Peers::at(&places.join(","))?)
}

/// An event, as JSON has it.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", tag = "event")]
enum Event<'a> {
    Start {
        topic: &'a str,
        other: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        contract: Option<ContractReport>,
        #[serde(skip_serializing_if = "Option::is_none")]
        needs: Option<NeedsReport>,
    },
    Stop {
        topic: &'a str,
    },
    Unfit {
        other: &'a str,
        why: &'a str,
    },
    Refused {
        topic: &'a str,
        why: &'a str,
    },
    Stored {
        key: &'a str,
        bytes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encoding: Option<&'static str>,
    },
    Asked {
        peer: &'a str,
    },
    Lost {
        peer: &'a str,
        why: &'a str,
    },
}

impl Event<'_> {
    /// `None`: it is new to this program.
    fn of(met: &Met) -> Option<Event<'_>> {
        Some(match met {
            Met::Start { topic, other, contract, needs } => Event::Start {
                topic,
                other,
                contract: contract.as_ref().map(ContractReport::of),
                needs: NeedsReport::of(needs),
            },
            Met::Stop { topic } => Event::Stop { topic },
            Met::Unfit { other, why } => Event::Unfit { other, why },
            Met::Refused { topic, why } => Event::Refused { topic, why },
            Met::Stored { key, bytes, value } => {
                let (value, encoding) = value.as_deref().map(text_of).unzip();
                Event::Stored { key, bytes: *bytes, value, encoding }
            }
            Met::Asked { peer } => Event::Asked { peer },
            Met::Lost { peer, why } => Event::Lost { peer, why },
            _ => return None,
        })
    }
}

/// Bytes as a text, and how it says them: as they are, or where they are no text in base64.
pub(super) fn text_of(value: &[u8]) -> (String, &'static str) {
    match std::str::from_utf8(value) {
        Ok(text) => (text.to_owned(), "utf-8"),
        Err(_) => (STANDARD.encode(value), "base64"),
    }
}

/// For people; `None`: it is nothing to them.
fn words(met: &Met) -> Option<String> {
    Some(match met {
        Met::Start { topic, other, contract, .. } => {
            let contract = contract.map(|contract| format!("  ({contract})")).unwrap_or_default();
            format!("start  {topic}  {other}{contract}")
        }
        Met::Stop { topic } => format!("stop   {topic}"),
        Met::Unfit { other, why } => format!("unfit  {other}: {why}"),
        Met::Stored { key, bytes, .. } => format!("stored {key}  ({bytes} bytes)"),
        _ => return None,
    })
}

/// What went wrong, for people.
fn trouble(met: &Met) -> Option<String> {
    match met {
        Met::Refused { why, .. } => Some(format!("verge: {why}")),
        Met::Lost { peer, why } => {
            Some(format!("verge: the peer at {peer} has gone ({why}); another one is asked"))
        }
        _ => None,
    }
}

/// Tells what has become of it. Where messages are printed, they have the output to themselves.
fn tell(met: &Met, format: Format, beside: bool) -> Result<(), Trouble> {
    if let Some(trouble) = trouble(met) {
        complain(&trouble);
    }
    match (format, beside) {
        (Format::Json, false) => {
            let Some(event) = Event::of(met) else { return Ok(()) };
            line(&serde_json::to_string(&event).map_err(|error| Trouble(error.to_string()))?)
        }
        (Format::Table, false) => words(met).map_or(Ok(()), |words| line(words.trim_end())),
        (_, true) => {
            words(met).into_iter().for_each(|words| complain(&format!("verge: {words}")));
            Ok(())
        }
    }
}

/// Events that wait to be told, and how they get there.
fn events() -> (Receiver<Met>, impl FnMut(&Met) + Send + 'static) {
    let (sender, receiver): (Sender<Met>, Receiver<Met>) = bounded(WAITING_MAX);
    (receiver, move |met: &Met| {
        // Whoever has ended is told nothing.
        _ = sender.send(met.clone());
    })
}

/// Offers something. With lines, each is published while somebody wants it.
pub fn announce(config: &Config, arguments: &AnnounceArguments, format: Format) -> Outcome {
    let peers = peers(config, arguments.post.peer.as_deref())?;
    let (heard, hears) = events();
    if !arguments.lines {
        let posting = peers.offer(&arguments.post.profile, hears)?;
        return until_stopped(&heard, format, || Ok(posting.check()?));
    }
    if says_topic(&arguments.post.profile) {
        return Err(Trouble(
            "messages of a profile with `topic` are published there by somebody else: leave out --lines, or `topic`"
                .to_owned(),
        ));
    }
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let _watch = Watch::start(&client, config)?;
    let announcement = client.announce_with(&peers, &arguments.post.profile, hears)?;
    let (mut messages, mut unwanted) = (0_u64, 0_u64);
    for text in std::io::stdin().lock().lines() {
        heard.try_iter().try_for_each(|met| tell(&met, format, false))?;
        let text = text?;
        messages += 1;
        match waiting(|| announcement.publish(text.as_bytes())) {
            Ok(topics) => unwanted += u64::from(topics == 0),
            // It concerns this message alone.
            Err(Error::NotPublished(why)) => {
                complain(&format!("verge: line {messages} is not published: {why}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    // A primary that changes just now has been sent what the contract retains, and nobody knows of the rest.
    _ = client.settle();
    heard.try_iter().try_for_each(|met| tell(&met, format, false))?;
    if unwanted > 0 {
        complain(&format!("verge: {unwanted} of {messages} messages were wanted by nobody"));
    }
    Ok(yes(true))
}

/// A topic is said behind `;`.
fn says_topic(profile: &str) -> bool {
    let terms = profile.split_once(';').map_or("", |(_, terms)| terms);
    terms
        .split(',')
        .any(|term| term.split('=').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("topic")))
}

/// Wants something. With `--subscribe`, what comes is printed.
pub fn interest(config: &Config, arguments: &InterestArguments, format: Format) -> Outcome {
    let peers = peers(config, arguments.post.peer.as_deref())?;
    let (heard, hears) = events();
    if !arguments.subscribe {
        let posting = peers.want(&arguments.post.profile, hears)?;
        return until_stopped(&heard, format, || Ok(posting.check()?));
    }
    let client = connect(config, &arguments.brokers, arguments.id.as_deref())?;
    let _watch = Watch::start(&client, config)?;
    let declared = Declared::of(config);
    let found = client.interest_with(&peers, &arguments.post.profile, hears)?;
    let until = arguments.wait.map(|wait| Instant::now() + Duration::from_nanos(wait.as_nanos_u64()));
    let stop = Stop::on_signals()?;
    let mut printed = 0;
    while arguments.count.is_none_or(|count| printed < count) && !stop.is_asked() {
        heard.try_iter().try_for_each(|met| tell(&met, format, true))?;
        let Some(message) = found.next_within(LOOK) else {
            client.check()?;
            found.check()?;
            for reason in client.dropped_needs()? {
                complain(&format!("verge: {reason}"));
            }
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

/// Tells what becomes of it until the program is ended.
fn until_stopped(heard: &Receiver<Met>, format: Format, check: impl Fn() -> Result<(), Trouble>) -> Outcome {
    loop {
        match heard.recv_timeout(Duration::from_secs(1)) {
            Ok(met) => tell(&met, format, false)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                check()?;
                return Err(Trouble("nothing is heard of peers any more".to_owned()));
            }
        }
    }
}

/// Shows what there is, and ends. Yes: something is there.
pub fn find(config: &Config, arguments: &FindArguments, format: Format) -> Outcome {
    let (heard, hears) = events();
    let _posting = peers(config, arguments.post.peer.as_deref())?.want(&arguments.post.profile, hears)?;
    let until = Instant::now() + Duration::from_nanos(arguments.wait.max(Span::ZERO).as_nanos_u64());
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    loop {
        match heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Met::Start { topic, other, .. }) => _ = found.insert(topic, other),
            Ok(Met::Stop { topic }) => _ = found.remove(&topic),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    if format == Format::Json {
        let events = found.iter().map(|(topic, other)| Found { topic, profile: other });
        json(&events.collect::<Vec<_>>())?;
        return Ok(yes(!found.is_empty()));
    }
    let mut shown = table(&["what", "topic"], &[]);
    found.iter().for_each(|(topic, other)| _ = shown.add_row([other.clone(), topic.clone()]));
    if found.is_empty() {
        line("Nothing is there that is as said.")?;
    } else {
        line(&shown.to_string())?;
    }
    Ok(yes(!found.is_empty()))
}

#[derive(Serialize)]
struct Found<'a> {
    topic: &'a str,
    profile: &'a str,
}
