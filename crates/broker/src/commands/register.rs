//! Streams come and go: registration by publishers with admission, and naming to subscribers and to the other broker.

use crate::broker::Broker;
use crate::commands::needs::at_hop;
use crate::commands::subscribe::CONFIRMING_MAX;
use crate::commands::tasks::{LINKS_PER_UNIT, TEST_UNITS};
use crate::outputs::Outputs;
use crate::settings::Replication;
use crate::store::ids::{SessionId, TopicId};
use crate::store::links::Party;
use crate::store::memory::{Need, name_bytes};
use crate::store::numbers::NO_STREAM;
use crate::store::results::Processing;
use crate::store::ring::{Slot, SlotFlags};
use crate::store::table::{BestEffort, Record, Stream, Times, Topic};
use crate::watch::events::Event;
use contract::{
    Contract, Crossing, Plan, Planned, Refusal, Remedies, Span, StreamId, TOPIC_BYTES_SHOWN, Time, TopicName,
    TrafficClass, invariant, shortened,
};
use wire::{Announce, FarewellReason, Frame, LinkId, Register, Verdict};

/// Why a stream is not carried: for the publisher, and in words.
pub(crate) struct Denial {
    pub(crate) text: String,
    remedies: Remedies,
    /// Another stream would have to go first.
    full: bool,
    /// It was only asked whether there is a contract.
    asked: bool,
}

impl Denial {
    fn full(text: String) -> Denial {
        Denial { full: true, ..Denial::from(text) }
    }
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Denial {
        let remedies = match &refusal {
            Refusal::ReplicationBound { remedies, .. }
            | Refusal::DispatchBound { remedies, .. }
            | Refusal::Unschedulable { remedies, .. } => *remedies,
            _ => Remedies::default(),
        };
        Denial { text: refusal.to_string(), remedies, full: false, asked: false }
    }
}

impl From<String> for Denial {
    fn from(text: String) -> Denial {
        Denial { text, remedies: Remedies::default(), full: false, asked: false }
    }
}

/// How long a stream that ends waits for what operators have of it.
const PROCESSED_WITHIN: Span = Span::secs(10);

/// How many messages, one each period, are under way at once if each is for so long.
fn slots_for(longest: Span, period: Span) -> usize {
    longest.as_nanos_u64().div_ceil(period.as_nanos_u64().max(1)) as usize + 1
}

/// Who publishes a stream.
pub(crate) struct Publisher<'a> {
    pub(crate) name: &'a str,
    pub(crate) incarnation: u64,
    pub(crate) link: Option<LinkId>,
    /// If it is an operator here: the number of its first result.
    pub(crate) made: Option<u64>,
    /// Whether a number that never comes is a loss.
    pub(crate) gapless: bool,
    /// The site in which it is, where that is another one; else nothing.
    pub(crate) origin: &'a str,
    /// The first number that comes this way, if that is known.
    pub(crate) first: Option<u64>,
    /// What is known of its messages when they come.
    pub(crate) crossing: Crossing,
}

impl<'a> Publisher<'a> {
    /// One in this site, of which no more is known.
    pub(crate) fn new(name: &'a str, incarnation: u64) -> Publisher<'a> {
        let crossing = Crossing::NONE;
        Publisher {
            name,
            incarnation,
            link: None,
            made: None,
            gapless: true,
            origin: "",
            first: None,
            crossing,
        }
    }
}

impl Broker {
    /// A publisher asks to carry a stream. Only a primary judges; a backup takes the request as it is and looks at it when
    /// it has to reign.
    pub(crate) fn register(
        &mut self,
        now: Time,
        from: LinkId,
        register: &Register<'_>,
        out: &mut impl Outputs,
    ) {
        if let Some(text) = self.cannot_take(register) {
            return self.deny(from, register, &Denial::from(text), out);
        }
        let Some(link) = self.flow.store.links.get(from) else {
            return invariant!("who sends a frame has a link");
        };
        let name = link.name.clone();
        self.spend(TEST_UNITS);
        let publisher = Publisher { link: Some(from), ..Publisher::new(&name, register.incarnation) };
        self.take_registered(now, from, register, &publisher, out);
    }

    /// Why a stream cannot be taken, whoever publishes it.
    pub(crate) fn cannot_take(&self, register: &Register<'_>) -> Option<String> {
        let most = self.settings.limits.streams;
        if register.stream as usize >= most {
            return Some(format!("the broker carries at most {most} streams: raise limits.streams"));
        }
        let is_ours = register.topic.split('/').next() == Some("$SYS");
        is_ours
            .then(|| "topics that begin with `$SYS` are the broker's own: publish on another one".to_owned())
    }

    /// The stream of this publisher, whose registration could be taken; it is answered.
    pub(crate) fn take_registered(
        &mut self,
        now: Time,
        from: LinkId,
        register: &Register<'_>,
        publisher: &Publisher<'_>,
        out: &mut impl Outputs,
    ) {
        let admitted = self.membership.pair.is_primary();
        let carried = self
            .flow
            .store
            .table
            .find_topic(register.topic)
            .and_then(|index| self.flow.store.table.topic(index));
        let contract = match (carried, register.contract.as_ref()) {
            // Who asks for nothing takes what is there.
            (Some(topic), None) => Ok(topic.contract),
            (_, asked) => self.find_contract(register.topic, asked),
        };
        let result = contract.and_then(|contract| {
            let index = self.take_stream(now, register.topic, contract, publisher, admitted, out)?;
            Ok((index, contract))
        });
        match result {
            Ok((index, contract)) => {
                self.flow.store.links.bind(from, register.stream, index);
                let Some(stream) = self.flow.store.table.stream_mut(index) else {
                    return invariant!("a stream that was found or made is there");
                };
                stream.record.source_number = register.stream;
                stream.record.asked = register.contract.is_some();
                if admitted {
                    self.send_verdict(from, register.stream, index, contract, out);
                }
            }
            Err(denial) => self.deny(from, register, &denial, out),
        }
    }

    /// The publisher will send no more of this stream.
    pub(crate) fn unregister(&mut self, now: Time, from: LinkId, number: u32, out: &mut impl Outputs) {
        let Some(link) = self.flow.store.links.get_mut(from) else {
            return invariant!("who sends a frame has a link");
        };
        // It was refused, or has ended, or the client says what it likes.
        let Some(index) = link.stream(number) else { return };
        link.bind(number, NO_STREAM);
        let moved = |source: LinkId| source != from;
        if self.flow.store.table.stream(index).and_then(|stream| stream.record.source).is_some_and(moved) {
            // It goes on by another link, by which its publisher has registered it since.
            return;
        }
        self.spend(self.flow.store.links.len() / LINKS_PER_UNIT);
        self.retire(now, index, out);
    }

    /// The configured contract for the topic, or else the one asked for.
    pub(crate) fn find_contract(&self, topic: &str, asked: Option<&Contract>) -> Result<Contract, Denial> {
        contract::check_name(topic).map_err(|error| Denial::from(error.to_string()))?;
        let configured = self.promises.rule_of(topic).and_then(|place| self.settings.topics.get(place));
        match (configured, asked) {
            (Some(rule), Some(asked)) if rule.contract != *asked => Err(Denial::from(format!(
                "the broker's configuration gives `{}` another contract ({}) than asked for ({asked}): publish without \
                 a contract, or make them equal",
                rule.filter, rule.contract
            ))),
            (Some(rule), _) => Ok(rule.contract),
            (None, Some(asked)) => Ok(*asked),
            (None, None) => Err(Denial {
                asked: true,
                ..Denial::from(format!(
                    "`{}` has no contract: state one when publishing, or add a [[topic]] with a matching filter to the \
                     broker's configuration",
                    shortened(topic, TOPIC_BYTES_SHOWN)
                ))
            }),
        }
    }

    /// The stream of this topic and publisher, made if need be.
    pub(crate) fn take_stream(
        &mut self,
        now: Time,
        topic: &str,
        contract: Contract,
        publisher: &Publisher<'_>,
        admitted: bool,
        out: &mut impl Outputs,
    ) -> Result<StreamId, Denial> {
        let known = self.flow.store.table.find_topic(topic);
        if let Some(there) = known.and_then(|index| self.flow.store.table.topic(index))
            && there.contract != contract
        {
            return Err(Denial::from(format!(
                "`{topic}` is already carried with another contract ({}) than asked for ({contract}): all publishers of \
                 a topic share one contract",
                there.contract
            )));
        }
        if let Some(index) = known {
            self.keep_results_apart(index, publisher, out)?;
        }
        let stream = known.and_then(|index| self.flow.store.table.find_stream(index, publisher.name));
        if let Some(index) = stream {
            self.return_to_stream(now, index, publisher, out)?;
            self.come_by(index, publisher.crossing)?;
            if admitted {
                self.admit_stream(index, out)?;
            }
            return Ok(index);
        }
        let index = self.make_stream(now, topic, contract, publisher, out)?;
        if known.is_some()
            && let Err(denial) = self.plan_for_ways(index)
        {
            self.drop_stream(index, out);
            return Err(denial);
        }
        if admitted && let Err(refusal) = self.admit_stream(index, out) {
            self.drop_stream(index, out);
            return Err(refusal);
        }
        if let Some(partner) = self.membership.pair.backup() {
            self.steps().announce(partner.link, index, out);
        }
        Ok(index)
    }

    /// A publisher comes back to its stream, in the same life or a later one.
    fn return_to_stream(
        &mut self,
        now: Time,
        index: StreamId,
        publisher: &Publisher<'_>,
        out: &mut impl Outputs,
    ) -> Result<(), Denial> {
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("a stream that was found is there", Ok(()));
        };
        if publisher.incarnation < stream.record.incarnation {
            return Err(Denial::from(format!(
                "another publisher of the name {} has started later: give every publisher a name of its own",
                publisher.name
            )));
        }
        if let Some(link) = publisher.link {
            stream.record.source = Some(link);
        }
        if publisher.incarnation == stream.record.incarnation {
            // What a site's link has left out meanwhile, nobody wanted.
            stream.next_seq = stream.next_seq.max(publisher.first.unwrap_or(0));
            return Ok(());
        }
        // A new life numbers its messages from zero, so it is a new stream to everybody.
        stream.ring.slots_mut().filter_map(Slot::take_lineage).for_each(|lineage| out.release(lineage));
        self.flow.store.memory.loose -= stream.ring.loose_bytes();
        stream.ring = stream.ring.emptied();
        let first = publisher.first.unwrap_or(0);
        (stream.record.incarnation, stream.record.registered, stream.next_seq) =
            (publisher.incarnation, now, first);
        stream.guess_next_seq(false);
        stream.set_times(Times::default());
        stream.record.first = publisher.made.unwrap_or(first);
        stream.copying = Default::default();
        let first = topic.streams.first() == Some(&index);
        let partner = self.membership.pair.backup().map(|partner| partner.link);
        for (id, link) in self.flow.store.links.iter_mut() {
            if link.announced.contains(index) {
                link.announced.remove(index);
                out.send(id, &Frame::Retire { stream: index.0 });
            }
            // What others still send under their number for the life before is not of this one.
            link.numbers.unbind(index);
        }
        if let Some(link) = partner {
            self.steps().announce(link, index, out);
        }
        if first {
            out.report(&Event::Reincarnated { client: publisher.name });
        }
        Ok(())
    }

    fn make_stream(
        &mut self,
        now: Time,
        topic: &str,
        contract: Contract,
        publisher: &Publisher<'_>,
        out: &mut impl Outputs,
    ) -> Result<StreamId, Denial> {
        let known = self.flow.store.table.find_topic(topic);
        // What operators make is not given to operators again.
        let bound = if known.is_some() || publisher.made.is_some() { None } else { out.bind(topic) };
        let route = if known.is_some() { None } else { out.route(topic) };
        let topic = known.ok_or((topic, bound));
        let made = self.make_stream_of(now, topic, contract, publisher, out);
        match (&made, known) {
            (Ok(stream), None) => {
                self.set_route(*stream, route);
                self.tell_topic(*stream, true, out);
            }
            (Ok(stream), Some(_)) => self.tell_topic(*stream, true, out),
            (Err(_), _) => {
                bound.iter().for_each(|bound| out.unbind(bound.handle));
                route.iter().for_each(|route| out.unroute(route.number));
            }
        }
        made
    }

    /// A stream of a topic that is there, or of a new one that is bound like this.
    fn make_stream_of(
        &mut self,
        now: Time,
        topic: Result<TopicId, (&str, Option<Processing>)>,
        contract: Contract,
        publisher: &Publisher<'_>,
        out: &mut impl Outputs,
    ) -> Result<StreamId, Denial> {
        let limits = self.settings.limits;
        if self.flow.store.table.len() >= limits.streams {
            return Err(Denial::full(format!(
                "the broker carries {} streams, its limit: raise limits.streams",
                self.flow.store.table.len()
            )));
        }
        // Results are covered by the messages that they are made of, not by copies of their own.
        let hop = at_hop(contract, [publisher.crossing], &self.settings);
        let planned = if publisher.made.is_some() { hop.best_effort() } else { hop };
        let processing = match topic {
            Ok(topic) => self.flow.store.table.topic(topic).and_then(|topic| topic.processing),
            Err((_, bound)) => bound,
        };
        let plan = self.promises.admission.plan_processed(planned, Processing::of(processing))?;
        let (plan, strict) = match topic {
            Ok(topic) => {
                self.flow.store.table.topic(topic).map_or((plan, hop), |topic| (topic.plan, topic.planned()))
            }
            Err((name, _)) => self.plan_new_topic(name, hop, publisher, processing, plan, out),
        };
        let slots = self.ring_slots(strict, &plan, processing);
        if slots > limits.ring_slots_max {
            return Err(Denial::from(format!(
                "the contract needs {slots} messages to be kept by the broker, above limits.ring_slots_max = {}: \
                 lengthen the period, or retain or tolerate less",
                limits.ring_slots_max
            )));
        }
        let need =
            Need::of(&contract, slots, processing.is_some() || publisher.made.is_some(), &self.settings);
        let names = topic.as_ref().err().map_or(0, |(name, _)| name_bytes(name));
        self.steps().take_memory(now, (need, names), out).map_err(Denial::full)?;
        let ring = need.ring().continuing(self.flow.store.table.next_ticket().0.into());
        let topic = match topic {
            Ok(topic) => Ok(topic),
            Err((name, processing)) => self.make_topic(name, contract, (plan, strict), processing, publisher),
        };
        let topic = topic.inspect_err(|_| {
            self.flow.store.memory.give_back(&ring);
            self.flow.store.memory.names -= names;
        })?;
        // Whoever was there before this process may have published a lot: what that was, and who had it, is not known here.
        let older = publisher.made.is_none()
            && publisher.first.is_none()
            && publisher.incarnation < self.settings.started.0;
        let record = Record {
            source: publisher.link,
            gapless: publisher.gapless,
            first: publisher.made.or(publisher.first).unwrap_or(if older { u64::MAX } else { 0 }),
            origin: publisher.origin.into(),
            crossing: publisher.crossing,
            ..Record::new(publisher.name, publisher.incarnation, now)
        };
        let mut stream = Stream::new(topic, ring, record);
        stream.next_seq = publisher.first.unwrap_or(0);
        if older {
            stream.guess_next_seq(true);
        }
        let index = self.flow.store.table.insert_stream(stream);
        self.flow.work.lazy.expect(self.flow.store.table.len());
        self.flow.work.queue.expect(2 * self.flow.store.table.len() + 1_024);
        Ok(index)
    }

    fn make_topic(
        &mut self,
        topic: &str,
        contract: Contract,
        (plan, strict): (Plan, Planned),
        processing: Option<Processing>,
        publisher: &Publisher<'_>,
    ) -> Result<TopicId, Denial> {
        let name: TopicName = topic.parse().map_err(|error| Denial::from(format!("{error}")))?;
        let subscribers = self.flow.store.sessions.wanting(topic, TrafficClass::of_topic(topic, &contract));
        if contract.confirm && subscribers.len() > CONFIRMING_MAX {
            return Err(Denial::from(format!(
                "`{}` would have {} subscribers, and a confirmed topic may have {CONFIRMING_MAX}",
                shortened(topic, TOPIC_BYTES_SHOWN),
                subscribers.len()
            )));
        }
        let made = publisher.made.is_some();
        let class = self.flow.stats.classes.class_of(self.promises.rule_of(topic));
        let streams = Vec::new();
        let (route, others) = (None, 0);
        let last = |index: &&SessionId| {
            self.flow.store.sessions.get(**index).is_some_and(|session| session.best_effort)
        };
        let sessions: Vec<SessionId> = subscribers.iter().filter(last).copied().collect();
        let best_effort = (!sessions.is_empty()).then(|| Box::new(BestEffort { sessions, others: 0 }));
        Ok(self.flow.store.table.insert_topic(Topic {
            name,
            best_effort,
            contract,
            class,
            plan,
            streams,
            subscribers,
            processing,
            made,
            route,
            others,
            stricter: (strict != contract.into()).then(|| Box::new(strict)),
        }))
    }

    /// The plan of a topic that has just come, by the strictest of its contract and of what those need who wait for it; by its contract, where
    /// that cannot be kept.
    fn plan_new_topic(
        &mut self,
        name: &str,
        planned: Planned,
        publisher: &Publisher<'_>,
        processing: Option<Processing>,
        plan: Plan,
        out: &mut impl Outputs,
    ) -> (Plan, Planned) {
        let subscribers =
            self.flow.store.sessions.wanting(name, TrafficClass::of_topic(name, &planned.contract));
        let strict = self.strictest(name, planned, &subscribers);
        if strict == planned {
            return (plan, planned);
        }
        let stricter = if publisher.made.is_some() { strict.best_effort() } else { strict };
        match self.promises.admission.plan_processed(stricter, Processing::of(processing)) {
            Ok(plan) => (plan, strict),
            Err(refusal) => {
                self.drop_needs_of(name, &subscribers, &refusal.to_string(), out);
                (plan, planned)
            }
        }
    }

    /// Counts the stream's jobs, if they fit.
    pub(crate) fn admit_stream(&mut self, index: StreamId, out: &mut impl Outputs) -> Result<(), Denial> {
        let trusting = self.settings.is_baseline() || !self.settings.schedulability;
        let trusting = trusting || !self.settings.replication.keeps_contracts();
        let thin = self.membership.thin_link();
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("a stream that is admitted is there", Ok(()));
        };
        if stream.record.admitted {
            return Ok(());
        }
        if let Some(thin) = thin.filter(|_| !trusting && topic.plan.replicate) {
            return Err(Denial::from(format!(
                "the link to the backup carries {} bytes in a second, and copies need {} already: let the publisher retain so much that \
                 its messages need no copies (`verge check` says how much), or give the brokers a faster link",
                thin.carries, thin.needed
            )));
        }
        let subscribers = topic.receivers();
        if trusting {
            self.promises.admission.count(&topic.plan, &topic.contract, subscribers);
        } else if let Err(refusal) =
            self.promises.admission.admit_plan(&topic.plan, &topic.contract, subscribers)
        {
            return self.admit_by_contract(index, refusal, out);
        }
        stream.record.admitted = true;
        Ok(())
    }

    /// A stream of which there is no time for what subscribers need beyond its contract is carried by that alone, if there is time for that.
    fn admit_by_contract(
        &mut self,
        index: StreamId,
        refusal: Refusal,
        out: &mut impl Outputs,
    ) -> Result<(), Denial> {
        let Some((stream, topic)) = self.flow.store.table.pair(index) else {
            return invariant!("a stream that is admitted is there", Ok(()));
        };
        let (number, by_contract) = (stream.topic, self.at_hop(topic));
        let contract = topic.contract;
        // Other publishers of the topic were admitted with what subscribers need.
        if topic.stricter.is_none() || topic.streams.len() > 1 {
            return Err(Denial::from(refusal));
        }
        let (name, subscribers) = (topic.name.as_str().to_owned(), topic.subscribers.clone());
        let planned = if topic.made { by_contract.best_effort() } else { by_contract };
        let (processing, receivers) = (Processing::of(topic.processing), topic.receivers());
        let plan = self.promises.admission.plan_processed(planned, processing)?;
        self.promises.admission.admit_plan(&plan, &contract, receivers)?;
        let Some(mut topic) = self.flow.store.table.topic_mut(number) else {
            return invariant!("a stream's topic is there", Ok(()));
        };
        topic.plan = plan;
        topic.set_strict(by_contract);
        drop(topic);
        self.drop_needs_of(&name, &subscribers, &refusal.to_string(), out);
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("a stream that is admitted is there", Ok(()));
        };
        stream.record.admitted = true;
        Ok(())
    }

    /// How many messages of a stream may be under way at once: those between arrival and the later deadline or the
    /// confirmation, those that a publisher sends again in one burst, and on a backup at least the configured number of
    /// copies.
    pub(crate) fn ring_slots(
        &self,
        Planned { contract, hop }: Planned,
        plan: &Plan,
        processing: Option<Processing>,
    ) -> usize {
        let limits = &self.settings.limits;
        // Operators without a deadline are given as long as losses and retention span. Where there is less room, a message may
        // be overwritten while they have it, and is not covered any more.
        let within = processing.map(|processing| processing.within.min(contract.cover()));
        let within = within.filter(|within| !within.is_forever()).unwrap_or(Span::ZERO);
        let processed = slots_for(within, contract.period).min(limits.ring_slots_max);
        // What is never due is dispatched after everything else, and kept as long as its copy.
        let dispatch = if plan.dispatch.is_forever() { Span::ZERO } else { plan.dispatch };
        let longest = if plan.replicate { dispatch.max(plan.replication) } else { dispatch };
        // What rounds copy is kept until the next one.
        let round = match self.settings.replication {
            Replication::Periodic { period, .. } => period,
            _ => Span::ZERO,
        };
        let longest = longest.max(round);
        // A confirmed message is kept until its confirmation is back.
        let link = self.settings.links.delay(contract.link).filter(|_| contract.confirm);
        let longest = longest + link.map_or(Span::ZERO, |link| link.confirmation.max(hop.handing_on));
        let under_way = slots_for(longest, contract.period);
        let copies =
            if plan.replicate || self.settings.copies_everything() { limits.backup_slots } else { 0 };
        under_way.max(processed).max(contract.retain as usize + 2).max(limits.ring_slots_min).max(copies)
    }

    pub(crate) fn send_verdict(
        &self,
        to: LinkId,
        number: u32,
        index: StreamId,
        contract: Contract,
        out: &mut impl Outputs,
    ) {
        let Some((_, topic)) = self.flow.store.table.pair(index) else {
            return invariant!("a stream that has a verdict is there");
        };
        out.send(
            to,
            &Frame::Verdict(Verdict {
                stream: number,
                admitted: true,
                reigns: true,
                replicate: topic.plan.replicate,
                contract: Some(contract),
                deadlines: [topic.plan.dispatch, topic.plan.replication],
                remedies: Remedies::default(),
                text: "",
            }),
        );
    }

    /// Says no. From a broker that does not reign, this only means that it could not take note of the stream, and has to
    /// be asked again when it comes to reign.
    pub(crate) fn deny(
        &mut self,
        to: LinkId,
        register: &Register<'_>,
        denial: &Denial,
        out: &mut impl Outputs,
    ) {
        let reigns = self.membership.pair.is_primary();
        self.flow.stats.refused += u64::from(reigns && !denial.asked);
        // A stream is judged after a promotion too, when its publisher may have gone.
        if let Some(link) = self.flow.store.links.get_mut(to) {
            if (register.stream as usize) < self.settings.limits.streams {
                link.bind(register.stream, NO_STREAM);
            }
            if reigns && !denial.asked {
                out.report(&Event::Refused {
                    client: &link.name,
                    topic: register.topic,
                    reason: &denial.text,
                });
            }
        }
        out.send(
            to,
            &Frame::Verdict(Verdict {
                stream: register.stream,
                admitted: false,
                reigns,
                replicate: false,
                contract: register.contract,
                deadlines: [Span::ZERO; 2],
                remedies: denial.remedies,
                text: &denial.text,
            }),
        );
    }

    /// After a promotion: streams that this broker only took note of are admitted now, or refused.
    pub(crate) fn judge_provisional_streams(&mut self, out: &mut impl Outputs) {
        let waiting: Vec<StreamId> = self
            .flow
            .store
            .table
            .streams()
            .filter(|(_, stream)| !stream.record.admitted)
            .map(|(index, _)| index)
            .collect();
        for index in waiting {
            let result = self.admit_stream(index, out);
            let Some((stream, topic)) = self.flow.store.table.pair(index) else {
                invariant!("a stream that was listed is there");
                continue;
            };
            let (source, contract) = (stream.record.source, topic.contract);
            let number = Some(stream.record.source_number);
            match (result, source.zip(number)) {
                (Ok(()), Some((link, number))) => self.send_verdict(link, number, index, contract, out),
                (Ok(()), None) => {}
                (Err(denial), source) => {
                    let topic = Box::from(topic.name.as_str());
                    self.drop_stream(index, out);
                    if let Some((link, number)) = source {
                        let contract = Some(contract);
                        let register = Register { stream: number, incarnation: 0, contract, topic: &topic };
                        self.deny(link, &register, &denial, out);
                    }
                }
            }
        }
    }

    /// A stream ends: what waits is dispatched first, then everybody forgets it.
    pub(crate) fn retire(&mut self, now: Time, index: StreamId, out: &mut impl Outputs) {
        self.silences.end(&mut self.flow.store.table, index);
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("a stream that ends is there");
        };
        // The last messages may still wait for their turn; housekeeping comes back when they have had it.
        stream.record.source = None;
        stream.record.silent_since = Time::ZERO;
        let pending = |slot: &mut Slot| {
            let sent =
                SlotFlags::DISPATCHED.or(SlotFlags::OFFERED).or(SlotFlags::COPY).or(SlotFlags::FORWARDED);
            // What waits in an operator for a partner may wait forever.
            let processing = slot.flags.has(SlotFlags::PROCESSING) && now < slot.created + PROCESSED_WITHIN;
            !slot.flags.has(sent) || processing
        };
        // Those who are served last have their turn soon, or have no room.
        let recent = |slot: &mut Slot| now < slot.created + PROCESSED_WITHIN;
        let last = self.flow.work.last.waits() && stream.ring.slots_mut().any(recent);
        let waiting = last || stream.ring.slots_mut().any(pending);
        if !waiting {
            self.drop_stream(index, out);
        }
    }

    /// Forgets a stream at once.
    pub(crate) fn drop_stream(&mut self, index: StreamId, out: &mut impl Outputs) {
        self.tell_topic(index, false, out);
        self.silences.end(&mut self.flow.store.table, index);
        let Some((stream, topic)) = self.flow.store.table.pair(index) else {
            return invariant!("a stream that ends is there");
        };
        if stream.record.admitted {
            let subscribers = topic.receivers();
            self.promises.admission.uncount(&topic.plan, &topic.contract, subscribers);
        }
        for (id, link) in self.flow.store.links.iter_mut() {
            if link.announced.contains(index) {
                link.announced.remove(index);
                out.send(id, &Frame::Retire { stream: index.0 });
            }
            for stream in link.numbers.unbind(index) {
                if matches!(link.party, Party::Client { .. }) {
                    // Its publisher may still want it, here above all if this broker comes to reign.
                    out.send(id, &Frame::Unregister { stream });
                }
            }
        }
        self.forget_results(index, out);
        let Some((stream, topic)) = self.flow.store.table.remove_stream(index) else {
            return invariant!("a stream that was found is there");
        };
        self.flow.store.memory.give_back(&stream.ring);
        if let Some(topic) = topic {
            self.flow.store.memory.names -= name_bytes(topic.name.as_str());
            topic.processing.iter().for_each(|processing| out.unbind(processing.handle));
            topic.route.iter().for_each(|route| out.unroute(*route));
        }
    }

    /// A stream goes: the results that it holds have nobody to go to, and those that stand for its messages end with it. If it
    /// is one of results, its place may be taken by another of the same messages.
    fn forget_results(&mut self, index: StreamId, out: &mut impl Outputs) {
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("a stream that ends is there");
        };
        stream.ring.slots_mut().filter_map(Slot::take_lineage).for_each(|lineage| out.release(lineage));
        let results = std::mem::take(&mut stream.record.results);
        if let Some(origin) =
            stream.record.made_of.and_then(|origin| self.flow.store.table.stream_mut(origin))
        {
            origin.record.results.retain(|known| known.stream != Some(index));
        }
        for results in results {
            let made = results.stream.and_then(|made| self.flow.store.table.stream_mut(made));
            // Housekeeping retires it when its last messages have been dispatched.
            if let Some(made) = made.filter(|made| made.record.made_of == Some(index)) {
                (made.record.made_of, made.record.silent_since) = (None, Time::ZERO);
            }
        }
    }

    /// A topic is published by operators or by publishers, never by both: they are covered in different ways.
    fn keep_results_apart(
        &mut self,
        index: TopicId,
        publisher: &Publisher<'_>,
        out: &mut impl Outputs,
    ) -> Result<(), Denial> {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that was found is there", Ok(()));
        };
        if publisher.made.is_none() {
            let refused = topic.made && publisher.link.is_some();
            return if refused { Err(Denial::made(topic.name.as_str())) } else { Ok(()) };
        }
        let published = |index: &StreamId| {
            self.flow.store.table.stream(*index).is_some_and(|stream| stream.record.source.is_some())
        };
        if topic.streams.iter().any(published) {
            return Err(Denial::from(format!(
                "`{}` has publishers of its own: give the operator another output",
                topic.name
            )));
        }
        let Some(mut topic) = self.flow.store.table.topic_mut(index).filter(|topic| !topic.made) else {
            return Ok(());
        };
        // A backup that has come to reign knew the topic without knowing whose it is.
        topic.made = true;
        let (contract, processing) = (topic.contract, topic.processing.take());
        drop(topic);
        if let Some(processing) = processing {
            out.unbind(processing.handle);
        }
        if let Ok(plan) = self.promises.admission.plan(contract.best_effort()) {
            self.set_plan(index, plan);
        }
        Ok(())
    }

    /// The primary names a stream: this backup takes it over as it is.
    pub(crate) fn learn_stream(
        &mut self,
        now: Time,
        from: LinkId,
        announce: &Announce<'_>,
        out: &mut impl Outputs,
    ) {
        if announce.stream as usize >= self.settings.limits.streams {
            let text = "a stream number is above the broker's limit of streams";
            return self.expel(from, FarewellReason::Limit, text, out);
        }
        let from_primary = self.membership.pair.primary_link() == Some(from);
        let Announce { publisher, incarnation, gapless, origin, crossing, .. } = *announce;
        let publisher = Publisher { gapless, origin, crossing, ..Publisher::new(publisher, incarnation) };
        let known = self.flow.store.table.find_topic(announce.topic);
        let differs = |topic: &Topic| topic.contract != announce.contract;
        if from_primary && known.and_then(|index| self.flow.store.table.topic(index)).is_some_and(differs) {
            // What a client asked for here while we could not judge it gives way to what the primary admitted.
            let provisional =
                known.is_none_or(|index| !self.follow_contract(now, index, announce.contract, out));
            let streams = known
                .filter(|_| provisional)
                .and_then(|index| self.flow.store.table.topic(index))
                .map(|topic| topic.streams.clone());
            streams.into_iter().flatten().for_each(|index| self.drop_stream(index, out));
        }
        if from_primary {
            self.drop_other_life(&publisher, known, out);
        }
        // A broker that stands by names streams only to forward messages of them; we judge those as if their publisher had
        // come here.
        let judged = self.membership.pair.is_primary();
        let mut taken = self.take_stream(now, announce.topic, announce.contract, &publisher, judged, out);
        while from_primary && taken.as_ref().is_err_and(|denial| denial.full) {
            // What clients asked for here, and nobody has admitted, gives way to what the primary carries.
            let provisional = self.flow.store.table.streams().find(|(_, stream)| !stream.record.admitted);
            let Some((provisional, _)) = provisional else { break };
            self.drop_stream(provisional, out);
            taken = self.take_stream(now, announce.topic, announce.contract, &publisher, judged, out);
        }
        let index = match taken {
            Ok(index) => index,
            Err(denial) => {
                self.flow.stats.refused += 1;
                if from_primary {
                    let (client, topic) = (announce.publisher, announce.topic);
                    let reason = format!("this backup cannot keep its copies: {}", denial.text);
                    out.report(&Event::Refused { client, topic, reason: &reason });
                }
                return;
            }
        };
        self.flow.store.links.bind(from, announce.stream, index);
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("a stream that was found or made is there");
        };
        stream.next_seq = stream.next_seq.max(announce.next_seq);
        if from_primary && !stream.record.admitted {
            // Subscribers are told the true first number; that this broker has just heard of the stream means nothing.
            stream.record.registered = Time::ZERO;
            stream.record.admitted = true;
            self.promises.admission.count(&topic.plan, &topic.contract, topic.receivers());
        }
    }

    /// A life of a stream that nobody has admitted gives way to the one that the primary carries, be it the later one by
    /// its publisher's clock.
    fn drop_other_life(&mut self, publisher: &Publisher<'_>, topic: Option<TopicId>, out: &mut impl Outputs) {
        let stream = topic.and_then(|topic| self.flow.store.table.find_stream(topic, publisher.name));
        let other =
            |stream: &Stream| !stream.record.admitted && stream.record.incarnation > publisher.incarnation;
        if let Some(index) = stream.filter(|index| self.flow.store.table.stream(*index).is_some_and(other)) {
            self.drop_stream(index, out);
        }
    }

    /// The other broker forgets a stream.
    pub(crate) fn forget_peer_stream(&mut self, from: LinkId, number: u32, out: &mut impl Outputs) {
        let from_primary = self.membership.pair.primary_link() == Some(from);
        let Some(link) = self.flow.store.links.get_mut(from) else {
            return invariant!("who sends a frame has a link");
        };
        // It could not be taken here, or the partner says what it likes.
        let Some(index) = link.stream(number) else { return };
        link.bind(number, NO_STREAM);
        if from_primary {
            self.drop_stream(index, out);
        }
    }
}
