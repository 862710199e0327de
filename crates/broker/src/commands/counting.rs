//! Subscribers of other protocols: topics count how many they have, and are planned by what those need.
//!
//! Whoever serves them (the gateway) says who comes and goes. A subscription of many topics is counted in slices, as one more command
//! that goes on.

use crate::broker::Broker;
use crate::commands::needs::{Other, OtherNeeds};
use crate::commands::tasks::{TEST_UNITS, Task, UNITS_PER_SLICE};
use crate::steps::posting::Route;
use crate::store::ids::TopicId;
use contract::{StreamId, TopicFilter, invariant};
use wire::LinkId;

/// A subscription of another protocol of which the needs cannot be met any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unkept {
    /// Whose it is.
    pub client: Box<str>,
    /// The topics.
    pub filter: TopicFilter,
    /// Why.
    pub reason: String,
}

/// A subscriber of another protocol that comes or goes, and the topics that hear of it.
#[derive(Clone)]
pub(crate) struct Counting {
    /// Who is told what came of it; nobody where it goes.
    pub(crate) link: Option<LinkId>,
    other: Other,
    comes: bool,
    place: String,
    /// Topics that have been told that it comes.
    counted: usize,
    /// So many of them have to be told that it does not come after all.
    undoing: Option<usize>,
    refusal: Option<String>,
    /// Nothing is promised to it, and there was too little time before it came.
    lenient: bool,
}

impl Counting {
    fn new(link: Option<LinkId>, other: &Other) -> Counting {
        let (other, place) = (other.clone(), String::new());
        Counting { link, other, comes: true, place, counted: 0, undoing: None, refusal: None, lenient: false }
    }

    /// Whether the next topic is to be told.
    fn takes_part(&mut self) -> bool {
        self.counted += usize::from(self.comes);
        match &mut self.undoing {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    fn is_undone(&self) -> bool {
        self.undoing == Some(0)
    }

    fn undo(&mut self, refusal: Option<String>) {
        (self.comes, self.undoing, self.refusal) = (false, Some(self.counted), refusal);
        self.place.clear();
    }
}

impl Broker {
    /// A subscriber of another protocol comes; the topics that it means are dispatched to one more, and planned by what it needs. `Err`:
    /// they could not be served in time. `None`: there are many, and who asks again for this link is told later. Each link counts one
    /// subscription at a time.
    pub fn count_other(&mut self, link: LinkId, other: &Other) -> Option<Result<(), String>> {
        let waits = |task: &Task| matches!(task, Task::Count(counting) if counting.link == Some(link));
        if !self.tasks.counted.contains_key(&link) && !self.tasks.waiting.iter().any(waits) {
            if let Some(class) = other.needs.link.filter(|class| self.settings.links.delay(*class).is_none())
            {
                return Some(Err(contract::Refusal::UnknownLink(class).to_string()));
            }
            if let Err(text) = self.promises.other_needs.insert(other) {
                return Some(Err(text));
            }
            let lenient = other.needs.best_effort && self.overload_of(0).is_some();
            self.begin_counting(Counting { lenient, ..Counting::new(Some(link), other) });
        }
        self.tasks.counted.remove(&link).map(|(_, verdict)| verdict)
    }

    /// Whether a subscription for which there is no time is served as best effort.
    pub fn serves_instead(&self) -> bool {
        self.settings.best_effort_subscriptions
    }

    /// A subscriber of another protocol has gone.
    pub fn discount_other(&mut self, other: &Other) {
        self.promises.other_needs.remove(other);
        self.begin_counting(Counting { comes: false, ..Counting::new(None, other) });
    }

    /// Nobody will ask any more what was to be counted for this link.
    pub fn forget_count(&mut self, link: LinkId) {
        if let Some((other, Ok(()))) = self.tasks.counted.remove(&link) {
            self.discount_other(&other);
        }
        for task in &mut self.tasks.waiting {
            if let Task::Count(counting) = task {
                counting.link = counting.link.filter(|other| *other != link);
            }
        }
    }

    fn begin_counting(&mut self, mut counting: Counting) {
        let mut left = if self.tasks.waiting.is_empty() { UNITS_PER_SLICE } else { 0 };
        while left > 0 {
            let (used, done) = self.go_on_counting(&mut counting, left);
            self.spend(used);
            if done {
                return;
            }
            left = left.saturating_sub(used.max(1));
        }
        self.tasks.waiting.push_back(Task::Count(counting));
    }

    /// Counts at further topics. Returns how many units of work that was, and whether it was all.
    pub(crate) fn go_on_counting(&mut self, counting: &mut Counting, units: usize) -> (usize, bool) {
        let mut used = 0;
        let mut more = true;
        while used < units && more {
            let (topics, looks);
            (topics, looks, more) = self.next_topics(&counting.other.filter, &mut counting.place);
            used += looks;
            let mut unkept = None;
            for index in topics {
                let routed = self.flow.store.table.topic(index).is_some_and(|topic| topic.route.is_some());
                if routed && counting.takes_part() {
                    used += 1;
                    let (comes, best_effort) = (counting.comes, counting.other.needs.best_effort);
                    self.change_subscribers(index, |topic| {
                        let others = topic.others;
                        let count = |others: u32| {
                            if comes { others.saturating_add(1) } else { others.saturating_sub(1) }
                        };
                        topic.others = count(others);
                        if best_effort {
                            topic.change_best_effort(|those| those.others = count(those.others));
                        }
                    });
                    if counting.other.needs.is_none() {
                        continue;
                    }
                    if !comes {
                        self.plan_for_those_left(index);
                    } else if let Err(text) = self.plan_for_everybody(index) {
                        unkept = Some(text);
                        break;
                    }
                }
            }
            more &= !counting.is_undone();
            if unkept.is_some() {
                more = true;
                self.undo_counting(counting, unkept);
            }
        }
        if counting.comes && counting.counted > 0 && !counting.lenient {
            used += TEST_UNITS;
            if let Some(text) = self.overload_of(counting.counted) {
                more = true;
                self.undo_counting(counting, Some(text));
            }
        }
        if !more && counting.comes && counting.link.is_none() {
            // Who asked has gone.
            more = counting.counted > 0;
            self.undo_counting(counting, None);
        }
        if !more && let Some(link) = counting.link {
            let verdict = counting.refusal.take().map_or(Ok(()), Err);
            self.tasks.counted.insert(link, (counting.other.clone(), verdict));
        }
        (used, !more)
    }

    /// Topics that have been told of a subscriber are told that it does not come after all, and why.
    fn undo_counting(&mut self, counting: &mut Counting, refusal: Option<String>) {
        self.promises.other_needs.remove(&counting.other);
        counting.undo(refusal);
    }

    /// After a promotion: how many subscribers of other protocols each topic has, as they are known here, and which of them need something.
    /// Returns those whose needs cannot be met any more, and why.
    pub fn recount_others(
        &mut self,
        needy: impl IntoIterator<Item = Other>,
        mut receivers: impl FnMut(&str) -> u32,
    ) -> Vec<Unkept> {
        self.promises.other_needs = OtherNeeds::default();
        let mut unkept = Vec::new();
        for other in needy {
            if let Err(reason) = self.promises.other_needs.insert(&other) {
                unkept.push(Unkept { client: other.client, filter: other.filter, reason });
            }
        }
        let topics: Vec<TopicId> = self.flow.store.table.topics().map(|(index, _)| index).collect();
        for index in topics {
            let Some(topic) = self.flow.store.table.topic(index).filter(|topic| topic.route.is_some()) else {
                continue;
            };
            let others = receivers(topic.name.as_str());
            let last = self.promises.other_needs.best_effort(topic.name.as_str()).min(others);
            if others != topic.others || last != topic.receivers().made_at_once {
                self.change_subscribers(index, |topic| {
                    topic.others = others;
                    topic.change_best_effort(|those| those.others = last);
                });
            }
            // Others wait while a promotion goes on.
            if self.promises.other_needs.is_empty()
                && self.flow.store.table.topic(index).is_some_and(|topic| topic.stricter.is_none())
            {
                continue;
            }
            if let Err(reason) = self.plan_for_everybody(index) {
                let Some(topic) = self.flow.store.table.topic(index) else {
                    invariant!("a topic that was listed is there");
                    continue;
                };
                let taken = self.promises.other_needs.take(topic.name.as_str()).into_iter();
                unkept.extend(taken.map(|(client, filter, _)| Unkept {
                    client,
                    filter,
                    reason: reason.clone(),
                }));
                self.plan_for_those_left(index);
            }
        }
        unkept
    }

    /// A topic that has just come is given to other protocols.
    pub(crate) fn set_route(&mut self, stream: StreamId, route: Option<Route>) {
        let Some(route) = route else { return };
        let Some((stream, topic)) = self.flow.store.table.pair(stream) else {
            return invariant!("a stream that was just made is there");
        };
        let (index, last) = (stream.topic, self.promises.other_needs.best_effort(topic.name.as_str()));
        let Some(mut topic) = self.flow.store.table.topic_mut(index) else {
            return invariant!("a stream's topic is there");
        };
        (topic.route, topic.others) = (Some(route.number), route.receivers);
        if last > 0 {
            topic.change_best_effort(|those| those.others = last.min(route.receivers));
        }
    }
}
