//! Topics are planned by the strictest of their contract and of what their subscribers need; see [`contract::Needs`].

use crate::broker::Broker;
use crate::commands::register::Denial;
use crate::commands::subscribe::CONFIRMING_MAX;
use crate::outputs::Outputs;
use crate::settings::Settings;
use crate::steps::work::Flow;
use crate::store::Store;
use crate::store::ids::{SessionId, TopicId};
use crate::store::results::Processing;
use crate::store::table::Topic;
use crate::watch::events::Event;
use contract::{
    AtHop, Contract, Crossing, Needs, Planned, Receivers, Span, StreamId, TopicFilter, invariant,
};
use std::collections::BTreeMap;
use wire::{Frame, LinkId};

/// A subscription of another protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// Whose it is.
    pub client: Box<str>,
    /// As it was written; a client may write one filter in several ways.
    pub text: Box<str>,
    /// The topics.
    pub filter: TopicFilter,
    /// What is needed of them, beyond their contracts.
    pub needs: Needs,
}

/// What is needed by subscriptions of other protocols, those of them that need anything, by client and text.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherNeeds(BTreeMap<(Box<str>, Box<str>), (TopicFilter, Needs)>);

/// So many may need something. Each topic that comes is compared with all of them.
const OTHER_NEEDS_MAX: usize = 1_024;

impl OtherNeeds {
    fn of<'s>(&'s self, topic: &'s str) -> impl Iterator<Item = (&'s str, Needs)> {
        let meant = self.0.iter().filter(move |(_, (filter, _))| filter.matches(topic));
        meant.map(|((client, _), (_, needs))| (&**client, *needs))
    }

    /// One more; that is refused where there are too many.
    pub(crate) fn insert(&mut self, other: &Other) -> Result<(), String> {
        if other.needs.is_none() {
            return Ok(());
        }
        if self.0.len() >= OTHER_NEEDS_MAX {
            return Err(format!(
                "{OTHER_NEEDS_MAX} subscriptions of MQTT need something beyond contracts already, the limit: subscribe without \
                 `verge-` properties, or state the need in the topic's contract"
            ));
        }
        let Other { client, text, filter, needs } = other.clone();
        self.0.insert((client, text), (filter, needs));
        Ok(())
    }

    pub(crate) fn remove(&mut self, other: &Other) {
        if !other.needs.is_none() {
            self.0.remove(&(other.client.clone(), other.text.clone()));
        }
    }

    /// How many of those that mean this topic are served as best effort.
    pub(crate) fn best_effort(&self, topic: &str) -> u32 {
        self.of(topic).filter(|(_, needs)| needs.best_effort).count() as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out those that mean this topic: client, filter, and what was needed.
    pub(crate) fn take(&mut self, topic: &str) -> Vec<(Box<str>, TopicFilter, Needs)> {
        let meant = self.0.extract_if(.., |_, (filter, needs)| !needs.best_effort && filter.matches(topic));
        meant.map(|((client, _), (filter, needs))| (client, filter, needs)).collect()
    }
}

/// A contract where messages come by such ways: planned for the oldest of them and for whoever keeps fewest, and not promised where none is.
/// Where there is no partner, they come by another broker when this one dies.
pub(crate) fn at_hop(
    contract: Contract,
    ways: impl IntoIterator<Item = Crossing>,
    settings: &Settings,
) -> Planned {
    let (mut any, mut age, mut retain) = (false, None, u32::MAX);
    for way in ways {
        any = true;
        if way.promised {
            age = age.max(Some(way.age));
            retain = retain.min(way.retain.max(contract.retain));
        }
    }
    match age {
        Some(age) if age > Span::ZERO => {
            let silence = if settings.has_peer { Span::ZERO } else { settings.reassigned };
            Planned {
                contract: Contract { retain, ..contract },
                hop: AtHop { age, silence, ..AtHop::default() },
            }
        }
        None if any => contract.unpromised().into(),
        _ => contract.into(),
    }
}

impl Broker {
    /// The contract of a topic as its messages come here: by other brokers, or from their publishers.
    pub(crate) fn at_hop(&self, topic: &Topic) -> Planned {
        self.with_ways(topic, topic.contract)
    }

    /// The same if its contract was another.
    pub(crate) fn with_ways(&self, topic: &Topic, contract: Contract) -> Planned {
        let streams = topic.streams.iter().filter_map(|index| self.flow.store.table.stream(*index));
        at_hop(contract, streams.map(|stream| stream.record.crossing), &self.settings)
    }

    /// The contract by which a topic of this name and these subscribers is planned.
    pub(crate) fn strictest(&self, name: &str, planned: Planned, subscribers: &[SessionId]) -> Planned {
        let sessions = subscribers.iter().filter_map(|index| self.flow.store.sessions.get(*index));
        let needs = sessions.filter(|session| session.needy).flat_map(|session| session.needs_of(name));
        let needs = needs.chain(self.promises.other_needs.of(name).map(|(_, needs)| needs));
        // Link classes were looked at when they came, and those of a configuration stay.
        let delays = &self.settings.delays;
        let strict = self.settings.links.strictest(planned, needs, delays).unwrap_or(planned);
        // Who would rather confirm keeps nobody else out.
        let told_apart = subscribers.len() <= CONFIRMING_MAX;
        let confirm = planned.contract.confirm || strict.contract.confirm && told_apart;
        Planned { contract: Contract { confirm, ..strict.contract }, ..strict }
    }

    /// A subscriber has come, or needs something else: a topic is planned by the strictest. `Err`: that cannot be kept, whatever the load.
    pub(crate) fn plan_for_subscribers(&mut self, index: TopicId, session: SessionId) -> Result<(), String> {
        if !self.flow.store.sessions.get(session).is_some_and(|session| session.needy) {
            return Ok(());
        }
        self.plan_for_everybody(index)
    }

    /// A topic is planned by what all its subscribers need. `Err`: that cannot be kept, whatever the load.
    pub(crate) fn plan_for_everybody(&mut self, index: TopicId) -> Result<(), String> {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that is planned is there", Ok(()));
        };
        let strict = self.strictest(topic.name.as_str(), self.at_hop(topic), &topic.subscribers);
        let confirm = topic.contract.confirm;
        let planned = match self.plan_strictly(index, strict) {
            // Who would rather confirm goes without where there is no time for that.
            Err(_) if strict.contract.confirm != confirm => {
                let contract = Contract { confirm, ..strict.contract };
                self.plan_strictly(index, Planned { contract, ..strict })
            }
            planned => planned,
        };
        planned.map_err(|refusal| {
            let name = self.flow.store.table.topic(index).map_or("", |topic| topic.name.as_str());
            format!("`{name}` cannot be carried as this subscriber needs it: {refusal}")
        })
    }

    /// A stream of a topic has come or goes on, by other brokers than the others of it: the topic is planned for the longest way. `Err`: its
    /// contract cannot be kept then.
    pub(crate) fn plan_for_ways(&mut self, index: StreamId) -> Result<(), Denial> {
        let Some((stream, topic)) = self.flow.store.table.pair(index) else {
            return invariant!("a stream that has come is there", Ok(()));
        };
        let (number, planned_by) = (stream.topic, topic.planned());
        let strict = self.strictest(topic.name.as_str(), self.at_hop(topic), &topic.subscribers);
        if strict == planned_by {
            return Ok(());
        }
        self.plan_strictly(number, strict).map_err(Denial::from)
    }

    /// A stream that is there comes by another way than before, or its way has changed.
    pub(crate) fn come_by(&mut self, index: StreamId, way: Crossing) -> Result<(), Denial> {
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("a stream that was found is there", Ok(()));
        };
        let before = std::mem::replace(&mut stream.record.crossing, way);
        let planned = if before == way { Ok(()) } else { self.plan_for_ways(index) };
        if planned.is_err()
            && let Some(stream) = self.flow.store.table.stream_mut(index)
        {
            stream.record.crossing = before;
        }
        planned
    }

    /// A subscriber has gone: what only it needed is not needed any more.
    pub(crate) fn plan_for_those_left(&mut self, index: TopicId) {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that is planned is there");
        };
        if topic.stricter.is_none() {
            return;
        }
        let strict = self.strictest(topic.name.as_str(), self.at_hop(topic), &topic.subscribers);
        // What is left was kept before.
        let _ = self.plan_strictly(index, strict);
    }

    fn plan_strictly(&mut self, index: TopicId, strict: Planned) -> Result<(), contract::Refusal> {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that is planned is there", Ok(()));
        };
        if topic.planned() == strict {
            return Ok(());
        }
        let planned = if topic.made { strict.best_effort() } else { strict };
        let plan = self.promises.admission.plan_processed(planned, Processing::of(topic.processing))?;
        self.set_plan(index, plan);
        match self.flow.store.table.topic_mut(index) {
            Some(mut topic) => topic.set_strict(strict),
            None => invariant!("a topic that is planned is there"),
        }
        self.name_anew_to_sites(index);
        self.flow.store.table.note_confirmed(index);
        self.copy_as_planned(index);
        Ok(())
    }

    /// Who hands a topic's messages on is told again how old they are at most, before the next one.
    fn name_anew_to_sites(&mut self, index: TopicId) {
        let Broker { flow: Flow { store: Store { table, sessions, links, .. }, .. }, .. } = self;
        let Some(topic) = table.topic(index) else { return };
        for session in topic.subscribers.iter().filter_map(|session| sessions.get(*session)) {
            let hands_on =
                session.needy && session.needs_of(topic.name.as_str()).any(|needs| needs.onward > Span::ZERO);
            let link = session.link.filter(|_| hands_on).and_then(|link| links.get_mut(link));
            if let Some(link) = link {
                topic.streams.iter().for_each(|stream| link.announced.remove(*stream));
            }
        }
    }

    /// What had to be copied in another way, or not at all, is. What waited to be copied lazily is copied soon.
    pub(crate) fn copy_as_planned(&mut self, index: TopicId) {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that was planned is there");
        };
        for stream in topic.streams.clone() {
            match self.flow.store.table.stream_mut(stream) {
                Some(stream) => stream.copying = Default::default(),
                None => invariant!("a topic's streams are there"),
            }
            if self.membership.pair.backup().is_some() {
                self.steps().copy_rest(stream);
            }
        }
    }

    /// A topic that has just come cannot be carried as subscribers need it that were there before: they are told, and need nothing of
    /// these filters any more. Its publisher is not touched.
    pub(crate) fn drop_needs_of(
        &mut self,
        name: &str,
        subscribers: &[SessionId],
        reason: &str,
        out: &mut impl Outputs,
    ) {
        let mut told: Vec<(LinkId, u32, String)> = Vec::new();
        let cannot = |needs: &Needs| {
            format!(
                "`{name}` cannot be carried as this subscriber needs it ({needs}), and is carried by its contract: {reason}"
            )
        };
        // MQTT has no word for a subscription that is refused later.
        for (client, filter, needs) in self.promises.other_needs.take(name) {
            let (client, filter, reason) = (&client, filter.as_str(), &cannot(&needs));
            out.report(&Event::SubscriptionRefused { client, filter, reason });
        }
        for index in subscribers {
            // One that has ended is taken out of its topics in slices.
            let Some(session) = self.flow.store.sessions.get_mut(*index).filter(|session| session.needy)
            else {
                continue;
            };
            let client = session.client.clone();
            for (filter, wanted) in &mut session.filters {
                if wanted.needs.is_soft() || wanted.needs.best_effort || !filter.matches(name) {
                    continue;
                }
                let text = cannot(&wanted.needs);
                wanted.needs = Default::default();
                out.report(&Event::SubscriptionRefused {
                    client: &client,
                    filter: filter.as_str(),
                    reason: &text,
                });
                let numbers = session.numbers.iter().filter(|(_, meant)| *meant == filter);
                told.extend(
                    session
                        .link
                        .into_iter()
                        .flat_map(|link| numbers.clone().map(move |(number, _)| (link, *number)))
                        .map(|(link, number)| (link, number, text.clone())),
                );
            }
            session.sum_up();
        }
        let reigns = self.membership.pair.is_primary();
        for (link, number, text) in &told {
            out.send(*link, &Frame::Subscribed { number: *number, admitted: false, reigns, text });
        }
    }

    /// The contract by which the topic of a stream is planned, and who needs it so, in words.
    pub fn planned_for(&self, stream: StreamId) -> Option<(Contract, String)> {
        self.flow.store.table.pair(stream).map(|(_, topic)| (*topic.strict(), self.needs_in_words(topic)))
    }

    /// Whom the messages of a stream are dispatched to.
    pub fn receivers_of(&self, stream: StreamId) -> Option<Receivers> {
        self.flow.store.table.pair(stream).map(|(_, topic)| topic.receivers())
    }

    /// Who needs what of a topic, for people: some of them.
    pub(crate) fn needs_in_words(&self, topic: &Topic) -> String {
        const SHOWN: usize = 3;
        if topic.stricter.is_none() && topic.best_effort.is_none() {
            return String::new();
        }
        let name = topic.name.as_str();
        let sessions = topic.subscribers.iter().filter_map(|index| self.flow.store.sessions.get(*index));
        let needy =
            sessions.flat_map(|session| session.needs_of(name).map(|needs| (&*session.client, needs)));
        let needy = needy.chain(self.promises.other_needs.of(name));
        let words: Vec<String> =
            needy.take(SHOWN + 1).map(|(client, needs)| format!("{client}: {needs}")).collect();
        let more = if words.len() > SHOWN { " and others" } else { "" };
        words[..words.len().min(SHOWN)].join("; ") + more
    }
}
