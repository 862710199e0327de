//! Commands that concern thousands of topics, a slice at a time.
//!
//! The problem: a subscription of everything, a publisher of thousands of topics that leaves, or other graphs of operators mean
//! work for every topic. Done in one piece it takes milliseconds, in which no message is dispatched. The idea: such a command is a
//! [`Task`] with a cursor. What is small is done at once, the rest goes on with [`Broker::work_on`], between portions of
//! messages. Whoever drives the broker lets it work once in each of its turns, and takes no further commands of clients while tasks
//! wait, so one turn's commands take no longer than [`UNITS_PER_SLICE`] allows, whoever gives them.
//!
//! Invariants: tasks are done one after the other, in the order in which they began. A subscription is answered when it holds for
//! every topic that is there; a topic that comes meanwhile finds it by its filter. The number of a session that has ended is given
//! again when no topic knows it any more.

use crate::broker::Broker;
use crate::commands::counting::Counting;
use crate::commands::needs::Other;
use crate::commands::sites::Telling;
use crate::commands::subscribe::Subscribing;
use crate::outputs::Outputs;
use crate::store::ids::{SessionId, TopicId};
use contract::{StreamId, Time, TopicFilter, invariant};
use std::collections::{BTreeMap, VecDeque};
use wire::LinkId;

/// Units of work that commands may take in one turn: so many topics, filters or streams are looked at or changed. One takes about a
/// microsecond at most.
pub const UNITS_PER_SLICE: usize = 128;
/// What the test costs whether everything that is promised can be served, in units.
pub(crate) const TEST_UNITS: usize = 4;
/// Slots of rings that can be looked at in one unit.
pub(crate) const SLOTS_PER_UNIT: usize = 32;
/// Connections that can be looked at in one unit.
pub(crate) const LINKS_PER_UNIT: usize = 32;
/// Tasks that may wait. Clients give no commands while any do; where the partner's words or ended sessions make more, the oldest is done
/// at once.
const TASKS_MAX: usize = 1_024;
/// Names that are looked at before what was found is dealt with.
const LOOKS: usize = 16;

/// A command that goes on.
#[derive(Clone)]
pub(crate) enum Task {
    /// Topics get a subscriber.
    Subscribe(Subscribing),
    /// A session no longer wants the topics of a filter.
    Leave { session: SessionId, filter: TopicFilter, place: String },
    /// A session has ended, which had these filters.
    End { session: SessionId, filters: Vec<TopicFilter>, place: String },
    /// What its subscriber had not confirmed of these topics is sent again.
    Offer { session: SessionId, topics: Vec<TopicId> },
    /// What waits for a subscriber is sent.
    Send { session: SessionId },
    /// A publisher of these streams has lost its connection.
    Orphan { link: LinkId, streams: Vec<StreamId>, since: Time },
    /// Streams to which nobody has come back end.
    Retire { streams: Vec<StreamId> },
    /// Other graphs of operators: topics from here on are bound anew, then results are looked at of streams from here on.
    Rebind { topic: usize, stream: usize },
    /// A site's link is told what is subscribed.
    Tell(Telling),
    /// A site's link is away, or there again: what its session wants is told of anew, from after this filter on.
    TellAway { session: SessionId, after: Option<TopicFilter> },
    /// A subscriber of another protocol comes or goes.
    Count(Counting),
}

/// Commands that go on, and what they have taken and found so far.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    pub(crate) waiting: VecDeque<Task>,
    /// Units of work that commands have taken since somebody asked.
    pub(crate) spent: usize,
    /// What came of counting subscribers of other protocols, for those who ask again.
    pub(crate) counted: BTreeMap<LinkId, (Other, Result<(), String>)>,
}

impl Broker {
    /// Begins a task, and ends it at once if it is small and nothing waits before it.
    pub(crate) fn begin(&mut self, now: Time, task: Task, out: &mut impl Outputs) {
        self.tasks.waiting.push_back(task);
        if self.tasks.waiting.len() == 1 {
            self.work_on(now, UNITS_PER_SLICE, out);
        }
        while self.tasks.waiting.len() > TASKS_MAX {
            self.work_on(now, UNITS_PER_SLICE, out);
        }
    }

    /// Goes on with what waits, for so many units. What is under way may take a little more.
    pub fn work_on(&mut self, now: Time, units: usize, out: &mut impl Outputs) {
        let mut left = units;
        while left > 0
            && let Some(mut task) = self.tasks.waiting.pop_front()
        {
            let (used, done) = self.advance(now, &mut task, left, out);
            self.spend(used);
            left = left.saturating_sub(used.max(1));
            if !done {
                self.tasks.waiting.push_front(task);
            }
        }
        if left > 0 && self.membership.telling.goes_on {
            self.continue_sync(left, out);
        }
        self.steps().serve_last(now, out);
    }

    /// Whether commands wait that have been begun.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        !self.tasks.waiting.is_empty()
    }

    /// Whether a client's last command has not been answered, so that what it says next has to wait.
    #[inline]
    pub fn answers_later(&self, link: LinkId) -> bool {
        let waits =
            |task: &Task| matches!(task, Task::Subscribe(subscribing) if subscribing.link == Some(link));
        self.has_tasks() && self.tasks.waiting.iter().any(waits)
    }

    /// Units of work that commands have taken since this was asked.
    #[inline]
    pub fn take_spent(&mut self) -> usize {
        std::mem::take(&mut self.tasks.spent)
    }

    /// A command has taken so much.
    pub(crate) fn spend(&mut self, units: usize) {
        self.tasks.spent = self.tasks.spent.saturating_add(units);
    }

    /// Goes on with a task. Returns how many units that took, and whether it is done.
    fn advance(&mut self, now: Time, task: &mut Task, units: usize, out: &mut impl Outputs) -> (usize, bool) {
        match task {
            Task::Subscribe(subscribing) => self.go_on_subscribing(now, subscribing, units, out),
            Task::Leave { session, filter, place } => {
                if self.flow.store.sessions.get(*session).is_none() {
                    // It has ended meanwhile, and topics are cleared of it.
                    return (1, true);
                }
                let (used, more) = self.clear_topics(*session, filter, place, units, out);
                (used, !more)
            }
            Task::End { session, filters, place } => self.go_on_ending(*session, filters, place, units, out),
            Task::Offer { session, topics } => {
                let mut used = 0;
                while used < units
                    && let Some(topic) = topics.pop()
                {
                    used += self.offer_topic_again(now, *session, topic);
                }
                if topics.is_empty() {
                    self.end_offering(now, *session, out);
                }
                (used, topics.is_empty())
            }
            Task::Send { session } => {
                let more = self.steps().send_some_deferred(now, *session, units, out);
                (units, !more)
            }
            Task::Orphan { link, streams, since } => {
                let some = streams.split_off(streams.len().saturating_sub(units));
                some.iter().for_each(|stream| self.orphan(*link, *stream, *since));
                (some.len(), streams.is_empty())
            }
            Task::Retire { streams } => {
                let mut used = 0;
                while used < units
                    && let Some(stream) = streams.pop()
                {
                    used += self.retire_left(now, stream, out);
                }
                (used, streams.is_empty())
            }
            Task::Rebind { topic, stream } => self.go_on_binding(now, topic, stream, units, out),
            Task::Tell(telling) => self.go_on_telling(telling, units, out),
            Task::TellAway { session, after } => self.go_on_telling_away(*session, after, units, out),
            Task::Count(counting) => self.go_on_counting(counting, units),
        }
    }

    /// A session has ended: filters and topics forget it.
    fn go_on_ending(
        &mut self,
        session: SessionId,
        filters: &mut Vec<TopicFilter>,
        place: &mut String,
        units: usize,
        out: &mut impl Outputs,
    ) -> (usize, bool) {
        let mut used = 0;
        while used < units
            && let Some(filter) = filters.last()
        {
            if place.is_empty() {
                self.flow.store.sessions.unindex(session, filter);
                self.tell_interest(session, filter, false, out);
            }
            let (some, more) = self.clear_topics(session, filter, place, units - used, out);
            used += some;
            if !more {
                filters.pop();
                place.clear();
            }
        }
        if filters.is_empty() {
            self.flow.store.sessions.release(session);
        }
        (used, filters.is_empty())
    }

    /// Sends a subscriber what had to wait for it, the oldest first, as far as there is room: some at once, the rest in slices. One that is
    /// slow gets nothing that has waited too long.
    pub(crate) fn send_deferred(&mut self, now: Time, index: SessionId, out: &mut impl Outputs) {
        if let Some(session) = self.flow.store.sessions.get_mut(index).filter(|session| session.best_effort) {
            return self.flow.work.last.call(index, session);
        }
        let sends = |task: &Task| matches!(task, Task::Send { session } if *session == index);
        if !self.tasks.waiting.iter().any(sends)
            && self.steps().send_some_deferred(now, index, UNITS_PER_SLICE, out)
        {
            self.begin(now, Task::Send { session: index }, out);
        }
    }

    /// Takes a session out of the topics of a filter, unless it wants them for another one. Returns how many units that took, and whether
    /// there are more.
    pub(crate) fn clear_topics(
        &mut self,
        session: SessionId,
        filter: &TopicFilter,
        place: &mut String,
        units: usize,
        out: &mut impl Outputs,
    ) -> (usize, bool) {
        let (mut used, mut more) = (0, true);
        while used < units && more {
            let (topics, looks);
            (topics, looks, more) = self.next_topics(filter, place);
            used += looks;
            for topic in topics {
                let Some(entry) = self.flow.store.table.topic(topic) else {
                    invariant!("a topic that was found by its name is there");
                    continue;
                };
                let alive = self.flow.store.sessions.get(session).is_some();
                if !alive || !self.flow.store.sessions.wants(session, entry.name.as_str()) {
                    used += self.remove_subscriber(topic, session, out);
                }
            }
        }
        (used, more)
    }

    /// The next few topics that a filter means, how many units it took to find them, and whether there are more.
    pub(crate) fn next_topics(
        &self,
        filter: &TopicFilter,
        place: &mut String,
    ) -> (Vec<TopicId>, usize, bool) {
        let mut topics = Vec::new();
        let more = self.flow.store.table.meant(filter.as_str(), place, LOOKS, |topic| topics.push(topic));
        let looks = if more { LOOKS } else { topics.len() + 1 };
        (topics, looks, more)
    }
}
