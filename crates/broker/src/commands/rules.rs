//! Contracts of families of topics that change while the broker runs.
//!
//! The problem: a plant does not stop because a deadline in the configuration is another one. The idea: all topics that are carried and would
//! get another contract are planned anew on a copy of what has been promised. If all of them fit together, each takes over its contract
//! with everything that waits in it; if one does not, nothing changes. Publishers are told by a verdict, and subscribers and the backup by
//! naming the stream once more.
//!
//! A backup takes over rules for what will come; what it keeps copies of has the contract that its primary says.

use crate::broker::Broker;
use crate::commands::subscribe::CONFIRMING_MAX;
use crate::outputs::Outputs;
use crate::settings::TopicRule;
use crate::store::ids::TopicId;
use crate::store::memory::Need;
use crate::store::results::Processing;
use crate::store::table::Topic;
use contract::{Contract, Filters, Loss, Plan, Planned, StreamId, Time, invariant};
use std::fmt;

/// A topic that is carried, and gets another contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Its name.
    pub topic: String,
    /// What held until now.
    pub before: Contract,
    /// What holds from now on.
    pub after: Contract,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {} -> {}", self.topic, self.before, self.after)
    }
}

/// The same with all that follows from it.
struct Change {
    topic: TopicId,
    after: Contract,
    strict: Planned,
    plan: Plan,
    /// What each of its streams needs.
    need: Need,
    /// What each needed until now; not all may have got it.
    before: Need,
}

/// The first of the rules that means a topic.
pub(crate) fn first(rules: &Filters<Vec<usize>>, topic: &str) -> Option<usize> {
    let mut first: Option<usize> = None;
    rules.each(topic, |places| first = places.iter().copied().chain(first).min());
    first
}

/// Rules by what they mean.
pub(crate) fn by_filter(rules: &[TopicRule]) -> Filters<Vec<usize>> {
    let mut filters: Filters<Vec<usize>> = Filters::default();
    for (place, rule) in rules.iter().enumerate() {
        filters.change(rule.filter.as_str(), |places| places.push(place));
    }
    filters
}

impl Broker {
    /// What other rules would change at topics that are carried. `Err`: why they cannot be taken over, with what would help.
    pub fn would_change(&self, rules: &[TopicRule]) -> Result<Vec<Changed>, String> {
        Ok(self.told(&self.changes_of(rules)?))
    }

    /// Takes over other rules: topics that come have their contracts, and those that are carried get them, all or none (see
    /// [`Broker::would_change`]). A topic that no rule means any more keeps its contract for as long as it is carried.
    pub fn change_topics(
        &mut self,
        now: Time,
        rules: Vec<TopicRule>,
        out: &mut impl Outputs,
    ) -> Result<Vec<Changed>, String> {
        let changes = self.changes_of(&rules)?;
        let told = self.told(&changes);
        self.promises.rules = by_filter(&rules);
        self.flow.stats.classes.change(&rules);
        self.settings.topics = rules;
        self.silences.change_gaps();
        let topics: Vec<TopicId> = self.flow.store.table.topics().map(|(index, _)| index).collect();
        for index in topics {
            let class =
                self.flow.store.table.topic(index).map(|topic| {
                    self.flow.stats.classes.class_of(self.promises.rule_of(topic.name.as_str()))
                });
            match self.flow.store.table.topic_mut(index).zip(class) {
                Some((mut topic, class)) => topic.class = class,
                None => invariant!("a topic that was listed is there"),
            }
        }
        if !self.membership.pair.is_primary() {
            // Its primary says so when it has been told.
            return Ok(Vec::new());
        }
        for change in changes {
            self.give_contract(now, &change, out);
        }
        Ok(told)
    }

    fn told(&self, changes: &[Change]) -> Vec<Changed> {
        let one = |change: &Change| {
            let Some(topic) = self.flow.store.table.topic(change.topic) else {
                return invariant!("a topic that was looked at is there", None);
            };
            let (topic, before) = (topic.name.as_str().to_owned(), topic.contract);
            Some(Changed { topic, before, after: change.after })
        };
        changes.iter().filter_map(one).collect()
    }

    fn changes_of(&self, rules: &[TopicRule]) -> Result<Vec<Change>, String> {
        let unknown = |rule: &&TopicRule| self.settings.links.delay(rule.contract.link).is_none();
        if let Some(rule) = rules.iter().find(unknown) {
            return Err(format!(
                "[[topic]] {}: the link class `{}` is new to this broker: restart it first, since links do not change while it runs",
                rule.filter, rule.contract.link
            ));
        }
        let filters = by_filter(rules);
        let mut changes = Vec::new();
        for (index, topic) in self.flow.store.table.topics() {
            let rule = first(&filters, topic.name.as_str()).and_then(|place| rules.get(place));
            let Some(rule) = rule.filter(|rule| rule.contract != topic.contract) else { continue };
            self.check_takes(topic, rule)?;
            let change = self.change_of(index, topic, rule.contract);
            changes.push(change.map_err(|text| {
                format!(
                    "[[topic]] {}: `{}` is carried, and cannot be by {}: {text}",
                    rule.filter, topic.name, rule.contract
                )
            })?);
        }
        self.check_time(&changes)?;
        self.check_memory(&changes)?;
        Ok(changes)
    }

    /// Whether a topic can take over another contract at all while it is carried.
    fn check_takes(&self, topic: &Topic, rule: &TopicRule) -> Result<(), String> {
        let (name, before, after) = (&topic.name, &topic.contract, &rule.contract);
        let streams = || topic.streams.iter().filter_map(|index| self.flow.store.table.stream(*index));
        if let Some(stream) = streams().find(|stream| stream.record.asked && stream.record.source.is_some()) {
            return Err(format!(
                "`{name}` is published by `{}`, which states a contract itself ({before}), and [[topic]] {} would give it another one \
                 ({after}): end that publisher first, or let it publish without a contract",
                stream.record.publisher, rule.filter
            ));
        }
        if before.confirm != after.confirm {
            return Err(format!(
                "`{name}` is carried, and whether it is confirmed cannot change meanwhile (confirm = {}): end its publishers first",
                before.confirm
            ));
        }
        if after.confirm && topic.subscribers.len() > CONFIRMING_MAX {
            return Err(format!(
                "`{name}` has more than {CONFIRMING_MAX} subscribers, and cannot be confirmed"
            ));
        }
        let has_gaps = topic.made && streams().any(|stream| !stream.record.gapless);
        if has_gaps && after.loss != Loss::Unbounded {
            return Err(format!(
                "`{name}` carries results that have gaps of their own, so that losses in a row cannot be counted: say loss = \
                 \"unbounded\" in [[topic]] {}",
                rule.filter
            ));
        }
        Ok(())
    }

    fn change_of(&self, index: TopicId, topic: &Topic, after: Contract) -> Result<Change, String> {
        let strict = self.strictest(topic.name.as_str(), self.with_ways(topic, after), &topic.subscribers);
        let planned = if topic.made { strict.best_effort() } else { strict };
        let plan = self.promises.admission.plan_processed(planned, Processing::of(topic.processing));
        let plan = plan.map_err(|refusal| refusal.to_string())?;
        // Until its publishers have heard of it, what they retain covers less time than the new contract says.
        let before = &topic.contract;
        let covers_less = before.retain < after.retain || before.period < after.period;
        let plan = if covers_less { plan.with_copies_of(topic.plan) } else { plan };
        let (slots, most) =
            (self.ring_slots(strict, &plan, topic.processing), self.settings.limits.ring_slots_max);
        let slots_before = self.ring_slots(topic.planned(), &topic.plan, topic.processing);
        // What it lacked already, since operators came or subscribers needed more, it goes on lacking.
        if slots > most.max(slots_before) {
            return Err(format!(
                "{slots} messages would have to be kept by the broker, above limits.ring_slots_max = {most}: lengthen the period, or \
                 retain or tolerate less"
            ));
        }
        let all_kept = topic.processing.is_some() || topic.made;
        let need = Need::of(&after, slots.min(most), all_kept, &self.settings);
        let before = Need::of(&topic.contract, slots_before.min(most), all_kept, &self.settings);
        Ok(Change { topic: index, after, strict, plan, need, before })
    }

    /// Whether there is time for all of it together.
    fn check_time(&self, changes: &[Change]) -> Result<(), String> {
        let trusts = self.settings.is_baseline() || !self.settings.schedulability;
        if trusts || !self.settings.replication.keeps_contracts() || changes.is_empty() {
            return Ok(());
        }
        let mut trial = self.promises.admission.clone();
        let mut copied = None;
        for change in changes {
            let Some(topic) = self.flow.store.table.topic(change.topic) else {
                invariant!("a topic that was looked at is there");
                continue;
            };
            for _ in 0..self.admitted_streams(topic) {
                trial.uncount(&topic.plan, &topic.contract, topic.receivers());
                trial.count(&change.plan, &change.after, topic.receivers());
            }
            if change.plan.replicate && !topic.plan.replicate {
                copied = Some(&topic.name);
            }
        }
        if let Some((thin, name)) = self.membership.thin_link().zip(copied) {
            return Err(format!(
                "`{name}` would have to be copied, and the link to the backup carries {} bytes in a second of the {} that copies need already: \
                 let publishers retain more, or give the brokers a faster link",
                thin.carries, thin.needed
            ));
        }
        // What is too much already may become less.
        let worse = trial.utilisation() > self.promises.admission.utilisation()
            || self.promises.admission.shortfall().is_none();
        match trial.shortfall().filter(|_| worse) {
            Some(refusal) => Err(format!("with what is carried, there is no time for all of it: {refusal}")),
            None => Ok(()),
        }
    }

    fn check_memory(&self, changes: &[Change]) -> Result<(), String> {
        let more = |change: &Change| {
            let Some(topic) = self.flow.store.table.topic(change.topic) else {
                return invariant!("a topic that was looked at is there", 0);
            };
            let streams = topic.streams.iter();
            streams
                .filter_map(|index| self.flow.store.table.stream(*index))
                .map(|stream| change.need.growth(change.before, &stream.ring))
                .sum::<usize>()
        };
        let more: usize = changes.iter().map(more).sum();
        let left = self.flow.store.memory.left_for_contracts(&self.settings.limits.messages());
        if more > left {
            return Err(format!(
                "{more} bytes more would have to be reserved for messages, and {left} are left: state smaller sizes, retain or tolerate less, or \
                 raise {}",
                self.settings.limits.messages().key
            ));
        }
        Ok(())
    }

    fn admitted_streams(&self, topic: &Topic) -> usize {
        let is_admitted =
            |index: &&StreamId| self.flow.store.table.stream(**index).is_some_and(|it| it.record.admitted);
        topic.streams.iter().filter(is_admitted).count()
    }

    fn give_contract(&mut self, now: Time, change: &Change, out: &mut impl Outputs) {
        let Change { topic: number, after, strict, plan, need, before: needed } = change;
        let Some(topic) = self.flow.store.table.topic(*number) else {
            return invariant!("a topic that was looked at is there");
        };
        let (before, contract, receivers) = (topic.plan, topic.contract, topic.receivers());
        let streams = topic.streams.clone();
        for _ in 0..self.admitted_streams(topic) {
            self.promises.admission.uncount(&before, &contract, receivers);
            self.promises.admission.count(plan, after, receivers);
        }
        self.promises.crowd.planned_anew();
        let Some(mut topic) = self.flow.store.table.topic_mut(*number) else {
            return invariant!("a topic that was looked at is there");
        };
        (topic.contract, topic.plan) = (*after, *plan);
        topic.set_strict(*strict);
        drop(topic);
        for index in streams {
            self.steps().refit(now, index, (*needed, *need), out);
            // The next message that goes there names it anew.
            self.flow.store.links.iter_mut().for_each(|(_, link)| link.announced.remove(index));
            if let Some(partner) = self.membership.pair.backup().filter(|partner| partner.knows(index)) {
                self.steps().announce(partner.link, index, out);
            }
            let record = self.flow.store.table.stream(index).map(|stream| &stream.record);
            if let Some((link, number)) =
                record.and_then(|record| Some((record.source?, record.source_number)))
                && self.membership.pair.is_primary()
            {
                self.send_verdict(link, number, index, *after, out);
            }
        }
        self.copy_as_planned(*number);
    }

    /// The primary has named a stream with another contract than it has here: its topic takes that over, with the copies that are kept.
    /// `false`: it cannot be.
    pub(crate) fn follow_contract(
        &mut self,
        now: Time,
        index: TopicId,
        after: Contract,
        out: &mut impl Outputs,
    ) -> bool {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that was found by its name is there", false);
        };
        let is_ours = self.admitted_streams(topic) == topic.streams.len();
        if !is_ours || topic.contract.confirm != after.confirm {
            return false;
        }
        let Ok(change) = self.change_of(index, topic, after) else { return false };
        let fits = self.check_memory(std::slice::from_ref(&change)).is_ok();
        if fits {
            self.give_contract(now, &change, out);
        }
        fits
    }
}

#[cfg(test)]
mod tests;
