//! Keys that know as what they are read.

use crate::bandwidth::Bandwidth;
use crate::schema::Kind;
use crate::site::ProxyAddress;
use crate::value::{Raw, Value, VoteName, understand};
use broker::{Policy, Severity};
use contract::{Every, LinkClass, Location, Loss, Span, TopicFilter};
use host::Place;
use host::tls::{ClientCertificates, TlsVersion};
use kv::{Mode, ResolveRule};
use mqtt::Standby;
use processing::{Join, Keep, PayloadType, RelativeSet, Violation};
use std::path::PathBuf;

pub(crate) use crate::schema::Key;

/// A key that is read as a `T`.
#[derive(Clone, Copy)]
pub(crate) struct Typed<T> {
    /// What is documented.
    pub key: Key,
    read: Read<T>,
}

/// How a value becomes a `T`.
#[derive(Clone, Copy)]
enum Read<T> {
    Value {
        read: fn(&Value) -> Option<T>,
        /// What stands where a value is bad, which is told elsewhere.
        blank: fn() -> T,
    },
    /// One of several words.
    Word(fn(&str) -> T),
}

/// What a key takes, and as what that is read.
pub(crate) struct Takes<T> {
    kind: Kind,
    read: Read<T>,
}

/// A key with its path, what it takes, its default as it would be written (nothing where it must be given), and what it means.
pub(crate) const fn key<T>(
    path: &'static str,
    takes: Takes<T>,
    default: &'static str,
    doc: &'static str,
) -> Typed<T> {
    let Takes { kind, read } = takes;
    Typed { key: Key { path, kind, default, doc, reloadable: false }, read }
}

impl<T> Typed<T> {
    /// A running broker takes it over on SIGHUP: a `Taker` in `node` does it.
    pub const fn reloadable(self) -> Typed<T> {
        let Key { path, kind, default, doc, .. } = self.key;
        Typed { key: Key { path, kind, default, doc, reloadable: true }, read: self.read }
    }

    /// As what a value is read; `None` for one that is of another kind.
    pub fn read(&self, value: &Value) -> Option<T> {
        match (&self.read, value) {
            (Read::Value { read, .. }, value) => read(value),
            (Read::Word(read), Value::Word(word)) => Some(read(word)),
            (Read::Word(_), _) => None,
        }
    }

    /// As what its default is read; where it has none that could be written, nothing.
    pub fn default(&self) -> T {
        let value = understand(self.key.kind, &Raw::from_plain(self.key.default)).ok();
        value.and_then(|value| self.read(&value)).unwrap_or_else(|| match self.read {
            Read::Value { blank, .. } => blank(),
            Read::Word(read) => read(""),
        })
    }

    /// Its path.
    pub const fn path(&self) -> &'static str {
        self.key.path
    }

    /// Its path with a name in the place of `*`.
    pub fn path_of(&self, name: &str) -> String {
        self.key.path.replacen('*', name, 1)
    }
}

/// Whole numbers that keys are read as. A number above what there is counts as the largest.
pub(crate) trait Whole: Default {
    /// The number.
    fn whole(number: i64) -> Self;

    /// From a value.
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(Self::whole(*number)),
            _ => None,
        }
    }

    /// From a value that may be `auto`.
    fn read_or_auto(value: &Value) -> Option<Option<Self>> {
        match value {
            Value::Auto => Some(None),
            value => Self::read(value).map(Some),
        }
    }
}

macro_rules! whole {
    ($($type:ty),*) => {$(
        impl Whole for $type {
            fn whole(number: i64) -> $type {
                <$type>::try_from(number.max(0)).unwrap_or(<$type>::MAX)
            }
        }
    )*};
}
whole!(u8, u16, u32, u64, usize);

const fn takes<T: Default>(kind: Kind, read: fn(&Value) -> Option<T>) -> Takes<T> {
    Takes { kind, read: Read::Value { read, blank: T::default } }
}

pub(crate) const fn duration() -> Takes<Span> {
    takes(Kind::Duration, span)
}

pub(crate) const fn duration_within(least: Span, most: Span) -> Takes<Span> {
    takes(Kind::DurationWithin(least, most), span)
}

pub(crate) const fn duration_or_auto() -> Takes<Option<Span>> {
    takes(Kind::DurationOrAuto, |value| match value {
        Value::Auto => Some(None),
        value => span(value).map(Some),
    })
}

fn span(value: &Value) -> Option<Span> {
    match value {
        Value::Span(span) => Some(*span),
        _ => None,
    }
}

pub(crate) const fn address() -> Takes<Option<Place>> {
    takes(Kind::Address, place)
}

pub(crate) const fn address_or_none() -> Takes<Option<Place>> {
    takes(Kind::AddressOrNone, place)
}

fn place(value: &Value) -> Option<Option<Place>> {
    match value {
        Value::Address(place) => Some(Some(place.clone())),
        Value::Nothing => Some(None),
        _ => None,
    }
}

pub(crate) const fn proxy() -> Takes<Option<ProxyAddress>> {
    takes(Kind::Proxy, |value| match value {
        Value::Word(text) => text.parse().ok().map(Some),
        Value::Nothing => Some(None),
        _ => None,
    })
}

pub(crate) const fn bandwidth() -> Takes<Option<Bandwidth>> {
    takes(Kind::Bandwidth, |value| match value {
        Value::Word(text) => text.parse().ok().map(Some),
        Value::Nothing => Some(None),
        _ => None,
    })
}

pub(crate) const fn places() -> Takes<Vec<Place>> {
    takes(Kind::Places, |value| match value {
        Value::Addresses(places) => Some(places.clone()),
        _ => None,
    })
}

pub(crate) const fn namespace() -> Takes<String> {
    takes(Kind::Namespace, |value| match value {
        Value::Word(word) => Some(word.clone()),
        _ => None,
    })
}

pub(crate) const fn path() -> Takes<Option<PathBuf>> {
    takes(Kind::Path, file)
}

pub(crate) const fn path_or_none() -> Takes<Option<PathBuf>> {
    takes(Kind::PathOrNone, file)
}

pub(crate) const fn folder() -> Takes<Option<PathBuf>> {
    takes(Kind::Folder, file)
}

fn file(value: &Value) -> Option<Option<PathBuf>> {
    match value {
        Value::Word(word) => Some((!word.is_empty()).then(|| PathBuf::from(word))),
        Value::Nothing => Some(None),
        _ => None,
    }
}

pub(crate) const fn user() -> Takes<Option<String>> {
    takes(Kind::User, |value| match value {
        Value::Word(word) => Some(Some(word.clone()).filter(|word| !word.is_empty())),
        _ => None,
    })
}

pub(crate) const fn site() -> Takes<Option<String>> {
    Takes { kind: Kind::Site, ..user() }
}

pub(crate) const fn name() -> Takes<String> {
    takes(Kind::Name, |value| match value {
        Value::Word(word) => Some(word.clone()),
        _ => None,
    })
}

pub(crate) const fn choice<T>(words: &'static [&'static str], read: fn(&str) -> T) -> Takes<T> {
    Takes { kind: Kind::Choice(words), read: Read::Word(read) }
}

pub(crate) const fn integer<T: Whole>(least: i64, most: i64) -> Takes<T> {
    takes(Kind::Integer(least, most), T::read)
}

pub(crate) const fn integer_or_auto<T: Whole>(least: i64, most: i64) -> Takes<Option<T>> {
    takes(Kind::IntegerOrAuto(least, most), T::read_or_auto)
}

pub(crate) const fn integers() -> Takes<Vec<usize>> {
    takes(Kind::Integers, |value| match value {
        Value::Integers(list) => Some(list.iter().map(|number| usize::whole(*number)).collect()),
        _ => None,
    })
}

pub(crate) const fn level() -> Takes<u8> {
    takes(Kind::Level, u8::read)
}

pub(crate) const fn bytes<T: Whole>() -> Takes<T> {
    takes(Kind::Bytes, T::read)
}

pub(crate) const fn bytes_within<T: Whole>(least: i64, most: i64) -> Takes<T> {
    takes(Kind::BytesWithin(least, most), T::read)
}

pub(crate) const fn bytes_or_auto<T: Whole>(least: i64, most: i64) -> Takes<Option<T>> {
    takes(Kind::BytesOrAuto(least, most), T::read_or_auto)
}

pub(crate) const fn share() -> Takes<f64> {
    takes(Kind::Share, |value| match value {
        Value::Share(share) => Some(*share),
        _ => None,
    })
}

pub(crate) const fn switch() -> Takes<bool> {
    takes(Kind::Switch, |value| match value {
        Value::Switch(switch) => Some(*switch),
        _ => None,
    })
}

pub(crate) const fn switch_or_auto() -> Takes<Option<bool>> {
    takes(Kind::SwitchOrAuto, |value| match value {
        Value::Switch(switch) => Some(Some(*switch)),
        Value::Auto => Some(None),
        _ => None,
    })
}

pub(crate) const fn filter() -> Takes<Option<TopicFilter>> {
    takes(Kind::Filter, |value| match value {
        Value::Filter(filter) => Some(Some(filter.clone())),
        _ => None,
    })
}

pub(crate) const fn filters() -> Takes<Vec<TopicFilter>> {
    takes(Kind::Filters, |value| match value {
        Value::Filters(filters) => Some(filters.clone()),
        _ => None,
    })
}

pub(crate) const fn loss() -> Takes<Option<Loss>> {
    takes(Kind::Loss, |value| match value {
        Value::Loss(loss) => Some(Some(*loss)),
        _ => None,
    })
}

pub(crate) const fn link() -> Takes<Option<LinkClass>> {
    takes(Kind::Link, |value| match value {
        Value::Link(link) => Some(Some(*link)),
        _ => None,
    })
}

pub(crate) const fn location() -> Takes<Option<Location>> {
    takes(Kind::Location, |value| match value {
        Value::Location(location) => Some(Some(*location)),
        _ => None,
    })
}

pub(crate) const fn dimensions() -> Takes<Vec<String>> {
    takes(Kind::Dimensions, words)
}

pub(crate) const fn profiles() -> Takes<Vec<String>> {
    takes(Kind::Profiles, words)
}

pub(crate) const fn names() -> Takes<Vec<String>> {
    takes(Kind::Names, words)
}

pub(crate) const fn store_keys() -> Takes<Vec<String>> {
    takes(Kind::StoreKeys, words)
}

pub(crate) const fn nodes() -> Takes<Vec<String>> {
    takes(Kind::Nodes, words)
}

fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Words(words) => Some(words.clone()),
        _ => None,
    }
}

pub(crate) const fn payload() -> Takes<PayloadType> {
    takes(Kind::Payload, |value| match value {
        Value::Payload(payload) => Some(payload.clone()),
        _ => None,
    })
}

pub(crate) const fn keep() -> Takes<Option<Keep>> {
    takes(Kind::Keep, |value| match value {
        Value::Keep(keep) => Some(Some(*keep)),
        _ => None,
    })
}

pub(crate) const fn sets() -> Takes<Vec<RelativeSet>> {
    takes(Kind::Sets, |value| match value {
        Value::Sets(sets) => Some(sets.clone()),
        _ => None,
    })
}

pub(crate) const fn vote() -> Takes<Option<VoteName>> {
    takes(Kind::Vote, |value| match value {
        Value::Vote(vote) => Some(Some(*vote)),
        _ => None,
    })
}

/// `replication.policy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Copying {
    Eager,
    Lazy,
    Periodic,
    RetransmissionOnly,
}

pub(crate) fn copying(word: &str) -> Copying {
    match word {
        "lazy" => Copying::Lazy,
        "periodic" => Copying::Periodic,
        "retransmission-only" => Copying::RetransmissionOnly,
        _ => Copying::Eager,
    }
}

pub(crate) fn every(word: &str) -> Every {
    match word {
        "loss" => Every::Loss,
        "max" => Every::Max,
        _ => Every::All,
    }
}

pub(crate) fn policy(word: &str) -> Policy {
    match word {
        "fcfs" => Policy::Fcfs,
        "fcfs-minus" => Policy::FcfsMinus,
        _ => Policy::Frame,
    }
}

pub(crate) fn severity(word: &str) -> Severity {
    match word {
        "error" => Severity::Error,
        "warn" => Severity::Warning,
        "debug" => Severity::Debug,
        _ => Severity::Info,
    }
}

pub(crate) fn client_certificates(word: &str) -> ClientCertificates {
    match word {
        "optional" => ClientCertificates::Optional,
        "required" => ClientCertificates::Required,
        _ => ClientCertificates::None,
    }
}

pub(crate) fn tls_version(word: &str) -> TlsVersion {
    if word == "1.3" { TlsVersion::V13 } else { TlsVersion::V12 }
}

/// `router.policy`.
pub(crate) fn giving(word: &str) -> federation::Policy {
    match word {
        "least-traffic" => federation::Policy::LeastTraffic,
        "least-connections" => federation::Policy::LeastConnections,
        "least-processor" => federation::Policy::LeastProcessor,
        "hash" => federation::Policy::Hash,
        _ => federation::Policy::LeastTopics,
    }
}

/// `coordination.login`.
pub(crate) fn is_sasl(word: &str) -> bool {
    word == "sasl"
}

pub(crate) fn standby(word: &str) -> Standby {
    match word {
        "redirect" => Standby::Redirect,
        "unavailable" => Standby::Unavailable,
        _ => Standby::Closed,
    }
}

pub(crate) fn mode(word: &str) -> Mode {
    if word == "crash" { Mode::Crash } else { Mode::Byzantine }
}

pub(crate) fn resolve_rule(word: &str) -> ResolveRule {
    if word == "all-but-faulty" { ResolveRule::AllButFaulty } else { ResolveRule::Majority }
}

pub(crate) fn join(word: &str) -> Join {
    if word == "any" { Join::Any } else { Join::All }
}

pub(crate) fn violation(word: &str) -> Violation {
    if word == "shed" { Violation::Shed } else { Violation::Mark }
}
