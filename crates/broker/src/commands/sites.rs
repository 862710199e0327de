//! Links of sites: streams that they carry for publishers elsewhere, and what they are told of who subscribes here.
//!
//! The problem: nothing may leave a site that nobody elsewhere wants, and a filter may mean topics that nobody has published yet. The idea: a
//! site's link hears which filters others have subscribed, and carries what they mean. A router tells sites what the other sites want, and a
//! site's broker tells its link what is wanted at home, in the same way.
//!
//! A site's link may be away, whose session goes on for a while: what it wants is told as wanted at no time ([`Span::FOREVER`]), so that it goes by
//! another router where it can, and waits here where it cannot.
//!
//! A site's link may also hear which topics are published in the site, so that it can offer them elsewhere before anybody wants them.
//!
//! Invariant: a link has been told that a filter is wanted, and not the contrary since, exactly if somebody else than the link's own client
//! subscribes it; while it is still being told of what was there when it asked, that is true of what it has been told of. Of topics the same.

use crate::broker::Broker;
use crate::commands::register::Publisher;
use crate::commands::tasks::{LINKS_PER_UNIT, TEST_UNITS, Task};
use crate::outputs::Outputs;
use crate::store::ids::{SessionId, TopicId};
use crate::store::links::{Party, site};
use crate::store::sessions::Session;
use crate::store::table::Topic;
use contract::{Contract, LinkClass, Needs, Span, StreamId, Time, TopicFilter, invariant};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use wire::{Carry, FarewellReason, Frame, LinkId, Register};

/// Links that may ask what is subscribed.
pub(crate) const INTERESTED_MAX: usize = 1_024;

/// Who wants topics beside the subscribers that the broker knows itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Others {
    /// Clients of other protocols.
    Clients,
    /// Operators.
    Operators,
}

/// What links are told of what is subscribed.
#[derive(Clone, Default)]
pub(crate) struct Interest {
    links: Vec<Interested>,
    /// Filters that others want, and who: one bit each.
    others: BTreeMap<Box<str>, u8>,
    /// A site's link has been away, of which links may know.
    pub(crate) has_missed: bool,
}

/// A link that is told what is subscribed.
#[derive(Clone, Copy)]
struct Interested {
    link: LinkId,
    /// It is told as well what is published.
    topics: bool,
}

/// A link that is being told what was subscribed when it asked.
#[derive(Clone)]
pub(crate) struct Telling {
    link: LinkId,
    /// Whether it is told of topics, and of which place.
    topics: Option<usize>,
    /// The place of the session that is told of.
    session: usize,
    /// Its filters are, after this one.
    after: Option<TopicFilter>,
    /// Then what others want, after this filter.
    after_others: Option<Box<str>>,
}

impl Interest {
    /// Forgets a link.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.links.retain(|other| other.link != link);
    }
}

impl Broker {
    /// A site's link asks to carry a stream for its publisher.
    pub(crate) fn carry(&mut self, now: Time, from: LinkId, carry: &Carry<'_>, out: &mut impl Outputs) {
        let &Carry { stream, incarnation, first_seq, contract, topic, publisher, origin, crossing } = carry;
        // How subscribers here are reached, the publishing site does not know.
        let contract = Contract { link: self.class_here(topic).unwrap_or(contract.link), ..contract };
        let register = Register { stream, incarnation, contract: Some(contract), topic };
        if let Some(text) = self.cannot_take(&register) {
            return self.deny(from, &register, &text.into(), out);
        }
        self.spend(TEST_UNITS);
        let publisher = Publisher {
            link: Some(from),
            origin,
            crossing,
            first: Some(first_seq),
            ..Publisher::new(publisher, incarnation)
        };
        self.take_registered(now, from, &register, &publisher, out);
    }

    /// The link class of a topic, where it is carried or configured.
    fn class_here(&self, topic: &str) -> Option<LinkClass> {
        let table = &self.flow.store.table;
        let carried = table.find_topic(topic).and_then(|index| table.topic(index));
        let rule = || self.promises.rule_of(topic).and_then(|place| self.settings.topics.get(place));
        carried.map(|topic| topic.contract.link).or_else(|| rule().map(|rule| rule.contract.link))
    }

    /// Sites whose links are connected.
    pub fn sites(&self) -> impl Iterator<Item = &str> {
        let links = self.flow.store.links.iter().map(|(_, link)| link);
        let clients = links.filter(|link| matches!(link.party, Party::Client { .. }) && !link.closing);
        clients.filter_map(|link| site(&link.name))
    }

    /// A site's link wants to know what others subscribe.
    pub(crate) fn ask_interest(&mut self, now: Time, from: LinkId, topics: bool, out: &mut impl Outputs) {
        self.interest.forget(from);
        if self.interest.links.len() >= INTERESTED_MAX {
            let text = "too many links of sites ask what is subscribed here: use more routers";
            return self.expel(from, FarewellReason::Limit, text, out);
        }
        self.interest.links.push(Interested { link: from, topics });
        let topics = topics.then_some(0);
        let telling = Telling { link: from, topics, session: 0, after: None, after_others: None };
        self.begin(now, Task::Tell(telling), out);
        // The last word counts: who is away is told after all that is wanted.
        let away = self.flow.store.sessions.iter().filter(|(_, session)| session.away);
        let away: Vec<SessionId> = away.map(|(session, _)| session).collect();
        away.into_iter().for_each(|session| self.begin(now, Task::TellAway { session, after: None }, out));
    }

    /// Tells a link further filters. Returns how many units that took, and whether it was all.
    pub(crate) fn go_on_telling(
        &self,
        telling: &mut Telling,
        units: usize,
        out: &mut impl Outputs,
    ) -> (usize, bool) {
        let link = telling.link;
        // It may have gone, or been closed, since.
        let Some(state) = self.flow.store.links.get(link).filter(|state| !state.closing) else {
            return (1, true);
        };
        let sessions = &self.flow.store.sessions;
        let mut used = 0;
        let table = &self.flow.store.table;
        while used < units
            && let Some(place) = telling.topics
        {
            used += 1;
            telling.topics = (place < table.topic_places()).then_some(place + 1);
            match telling.topics {
                None => tell_published(link, "", true, out),
                Some(_) => {
                    let topic = table.topic(TopicId(place as u32));
                    let own = topic.filter(|topic| self.is_published_here(topic, None));
                    own.iter().for_each(|topic| tell_published(link, topic.name.as_str(), true, out));
                }
            }
        }
        while used < units && telling.session < sessions.places() {
            used += 1;
            let others = |session: &&Session| !is_same(&session.client, &state.name);
            let session = sessions.get(SessionId(telling.session as u32)).filter(others);
            let from = telling.after.as_ref().map_or(Unbounded, Excluded);
            let next = session.and_then(|session| session.filters.range((from, Unbounded)).next());
            match next {
                Some((filter, wanted)) => {
                    tell(link, filter.as_str(), Some(self.way_behind(&wanted.needs)), out);
                    telling.after = Some(filter.clone());
                }
                None => (telling.session, telling.after) = (telling.session + 1, None),
            }
        }
        while used < units {
            let from = telling.after_others.as_deref().map_or(Unbounded, Excluded);
            let Some((filter, _)) = self.interest.others.range::<str, _>((from, Unbounded)).next() else {
                tell(link, "", Some(Span::ZERO), out);
                return (used + 1, true);
            };
            used += 1;
            tell(link, filter, Some(self.way_behind(&Needs::NONE)), out);
            telling.after_others = Some(filter.clone());
        }
        (used, false)
    }

    /// Whether somebody in this site publishes a topic, not counting this stream of it.
    fn is_published_here(&self, topic: &Topic, but: Option<StreamId>) -> bool {
        let streams = topic.streams.iter().filter(|stream| Some(**stream) != but);
        let mut streams = streams.filter_map(|stream| self.flow.store.table.stream(*stream));
        streams.any(|stream| stream.record.origin.is_empty())
    }

    /// A stream has come, or is about to go: those are told for whom this changes whether its topic is published in this site.
    pub(crate) fn tell_topic(&self, stream: StreamId, published: bool, out: &mut impl Outputs) {
        let mut interested = self.interest.links.iter().filter(|interested| interested.topics).peekable();
        if interested.peek().is_none() {
            return;
        }
        let Some((of, topic)) = self.flow.store.table.pair(stream) else {
            return invariant!("a stream that comes or goes is there");
        };
        if of.record.origin.is_empty() && !self.is_published_here(topic, Some(stream)) {
            interested.for_each(|to| tell_published(to.link, topic.name.as_str(), published, out));
        }
    }

    /// A session subscribes a filter now, or does not any more, which the broker knows already. Those are told for whom this changes whether it
    /// is wanted.
    pub(crate) fn tell_interest(
        &self,
        session: SessionId,
        filter: &TopicFilter,
        wanted: bool,
        out: &mut impl Outputs,
    ) {
        let sessions = &self.flow.store.sessions;
        let entry = sessions.get(session);
        let client = entry.map_or("", |session| &session.client);
        let needs = entry.and_then(|session| session.filters.get(filter)).map_or(Needs::NONE, |of| of.needs);
        let onward = self.way_behind(&needs);
        for Interested { link, .. } in &self.interest.links {
            let Some(state) = self.flow.store.links.get(*link) else { continue };
            if is_same(client, &state.name) {
                continue;
            }
            match self.way_of_others(filter, &state.name, Some(session)) {
                None => tell(*link, filter.as_str(), wanted.then_some(onward), out),
                // It is wanted as before, by somebody further away.
                Some(way) if wanted && onward > way => tell(*link, filter.as_str(), Some(onward), out),
                // Who does not want it any more may be the one that was away.
                Some(way) if !wanted && self.interest.has_missed => {
                    tell(*link, filter.as_str(), Some(way), out);
                }
                Some(_) => {}
            }
        }
    }

    /// The way to the last of those who want a filter, but for this link's own site and this session; `None`: nobody does. Forever, where one of
    /// them is away.
    fn way_of_others(&self, filter: &TopicFilter, link: &str, but: Option<SessionId>) -> Option<Span> {
        let sessions = &self.flow.store.sessions;
        let others = self.interest.others.contains_key(filter.as_str());
        let others = others.then(|| self.way_behind(&Needs::NONE));
        let subscribing = sessions.of_filter(filter.as_str()).filter(|other| Some(*other) != but);
        let theirs =
            subscribing.filter_map(|other| sessions.get(other)).filter(|other| !is_same(&other.client, link));
        let ways = theirs.filter_map(|other| {
            let needs = &other.filters.get(filter)?.needs;
            Some(if other.away { Span::FOREVER } else { self.way_behind(needs) })
        });
        others.into_iter().chain(ways).max()
    }

    /// Tells links further filters of a session whose link is away, or there again. Returns how many units that took, and whether it was all.
    pub(crate) fn go_on_telling_away(
        &self,
        session: SessionId,
        after: &mut Option<TopicFilter>,
        units: usize,
        out: &mut impl Outputs,
    ) -> (usize, bool) {
        let Some(session) = self.flow.store.sessions.get(session) else { return (1, true) };
        let mut used = 0;
        while used < units {
            let from = after.as_ref().map_or(Unbounded, Excluded);
            let Some((filter, _)) = session.filters.range((from, Unbounded)).next() else {
                return (used + 1, true);
            };
            for Interested { link, .. } in &self.interest.links {
                let state = self.flow.store.links.get(*link).filter(|state| !state.closing);
                if let Some(state) = state.filter(|state| !is_same(&session.client, &state.name)) {
                    let way = self.way_of_others(filter, &state.name, None);
                    tell(*link, filter.as_str(), way, out);
                }
            }
            let subscribing = self.flow.store.sessions.of_filter(filter.as_str()).count();
            used += 1 + self.interest.links.len() * (1 + subscribing / LINKS_PER_UNIT);
            *after = Some(filter.clone());
        }
        (used, false)
    }

    /// From when a message is here until a subscriber has it, or the last who gets it from there.
    fn way_behind(&self, needs: &Needs) -> Span {
        let link = self.settings.links.delay(needs.link.unwrap_or(LinkClass::EDGE));
        self.settings.delays.response + link.map_or(Span::ZERO, |link| link.to_subscriber) + needs.onward
    }

    /// Others than the subscribers that the broker knows itself want the topics of a filter, or do not any more.
    pub fn others_want(&mut self, filter: &str, who: Others, wanted: bool, out: &mut impl Outputs) {
        let bit = 1 << who as u8;
        let before = self.interest.others.get(filter).copied().unwrap_or(0);
        let after = if wanted { before | bit } else { before & !bit };
        match after {
            0 => _ = self.interest.others.remove(filter),
            _ => _ = self.interest.others.insert(filter.into(), after),
        }
        if (before == 0) == (after == 0) {
            return;
        }
        let sessions = &self.flow.store.sessions;
        let onward = wanted.then(|| self.way_behind(&Needs::NONE));
        for Interested { link, .. } in &self.interest.links {
            let Some(state) = self.flow.store.links.get(*link) else { continue };
            let is_others = |index: SessionId| {
                sessions.get(index).is_some_and(|session| !is_same(&session.client, &state.name))
            };
            if !sessions.of_filter(filter).any(is_others) {
                tell(*link, filter, onward, out);
            }
        }
    }
}

/// Whether two clients are the same, or links of one site. A site's link is called like the site, with `@` before it; where it has more of
/// them, something follows after `/`.
fn is_same(client: &str, other: &str) -> bool {
    client == other || site(client).is_some() && site(client) == site(other)
}

/// Tells a link that a filter is wanted, and how long the way to the last who wants it takes; `None`: that it is not any more.
fn tell(link: LinkId, filter: &str, onward: Option<Span>, out: &mut impl Outputs) {
    let (wanted, onward) = (onward.is_some(), onward.unwrap_or_default());
    out.send(link, &Frame::Interest { wanted, onward, filter });
}

/// Tells a link that a topic is published in this site, or is not any more.
fn tell_published(link: LinkId, topic: &str, published: bool, out: &mut impl Outputs) {
    out.send(link, &Frame::Published { published, topic });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_one_site_are_the_same() {
        for (client, other, same) in [
            ("@north", "@north", true),
            ("@north/1", "@north/2", true),
            ("@north", "@south", false),
            ("@north", "@northern", false),
            ("north", "@north", false),
            ("pump", "pump", true),
            ("pump/1", "pump/2", false),
        ] {
            assert_eq!(is_same(client, other), same, "{client} {other}");
        }
    }
}
