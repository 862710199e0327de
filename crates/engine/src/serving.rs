//! Clients of MQTT as a part of a broker: their packets become calls of the broker, and what the gateway has to remember goes
//! to the backup and to the store.

use crate::broker_node::BrokerNode;
use crate::commands::Commands;
use crate::driving::JOBS_PER_PORTION;
use crate::processing::Operators;
use crate::reporter::Reporter;
use crate::service::Service;
use crate::wired::Wired;
use broker::{Beginning, Broker, Event, Other, Others, Outputs, Posted, Unkept, Unposted};
use contract::admission::Carriers;
use contract::{StreamId, Time, TopicError};
use mqtt::packet::Reason;
use mqtt::{Admits, BrokerFigures, Draft, Post, Rules, Step, Trouble, Wish};
use wire::{Effects, Frame, LinkChange, LinkId, Posting, Protocol};

/// Between two words to the admin about what clients are refused.
/// Where whoever watches is told of contracts that are broken or endangered.
const ALARMS: &str = "$SYS/verge/alarms";
/// Frames of records have about so many bytes, unless a single record has more.
const RECORDS_BYTES_TARGET: usize = 64 << 10;

/// The broker, as it judges the load that subscribers are, and what commands may still take of this turn.
struct Judge<'a> {
    broker: &'a mut Broker,
    commands: &'a mut Commands,
}

impl Admits for Judge<'_> {
    fn comes(&mut self, link: LinkId, wish: &Wish) -> Option<Result<(), String>> {
        let counted = match other_of(wish) {
            Ok(other) => self.broker.count_other(link, &other),
            Err(error) => Some(Err(error.to_string())),
        };
        self.spend(1);
        counted
    }

    fn serves_instead(&self) -> bool {
        self.broker.serves_instead()
    }

    fn shares(&mut self, carried: [&Carriers<u64>; 2]) {
        self.broker.share_with(carried);
    }

    fn goes(&mut self, wish: &Wish) {
        if let Ok(other) = other_of(wish) {
            self.broker.discount_other(&other);
        }
        self.spend(1);
    }

    fn has_room(&self) -> bool {
        self.commands.have_room() && !self.broker.has_tasks()
    }

    fn was_dispatched(&self, stream: StreamId, seq: u64) -> bool {
        self.broker.was_dispatched(stream, seq)
    }

    fn spend(&mut self, units: usize) {
        self.commands.spend(self.broker.take_spent() + units);
    }
}

/// A subscription of MQTT, as the broker knows it.
fn other_of(wish: &Wish) -> Result<Other, TopicError> {
    let filter = wish.filter().parse()?;
    Ok(Other { client: wish.client.clone(), text: wish.text.clone(), filter, needs: wish.needs })
}

/// Clients of MQTT.
pub(crate) struct Mqtt;

impl Service for Mqtt {
    fn handle_link<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        link: LinkId,
        change: LinkChange,
        net: &mut impl Effects,
    ) -> bool {
        let Some(gateway) = node.gateway.as_deref_mut() else { return false };
        match change {
            LinkChange::Accepted(Protocol::Mqtt) => gateway.accept(now, link, net),
            LinkChange::Closed if gateway.owns(link) => gateway.close(now, link),
            LinkChange::Drained if gateway.owns(link) => gateway.drained(now, link, net),
            _ => return false,
        }
        true
    }

    fn handle_bytes<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        link: LinkId,
        bytes: &[u8],
        net: &mut impl Effects,
    ) -> Option<usize> {
        if !node.gateway.as_ref().is_some_and(|gateway| gateway.owns(link)) {
            return None;
        }
        if let Some(gate) = &node.gate {
            node.reporter.caller(gate.address(link));
        }
        let (mut used, mut idle, mut delayed) = (0, false, false);
        let BrokerNode { broker, reporter, operators, gateway, buffers, relay, commands, kept, .. } = node;
        let kept_for = kept.backup();
        while let Some(serving) = gateway.as_deref_mut() {
            let rest = bytes.get(used..).unwrap_or(&[]);
            let mut judge = Judge { broker, commands };
            let (taken, step) = serving.take(now, link, rest, buffers, &mut judge, net);
            used += taken;
            let gateway = gateway.as_deref_mut();
            let mut wired = Wired { net, relay, reporter, operators, kept_for, gateway };
            match step {
                Step::Post(post) => {
                    publish(now, &post, broker, &mut wired);
                    idle = false;
                }
                Step::Crowded | Step::Behind if !idle => {
                    idle = !broker.run(now, JOBS_PER_PORTION, &mut wired);
                }
                Step::Done if used < bytes.len() => {}
                Step::Later | Step::Behind => {
                    delayed = true;
                    break;
                }
                Step::Done | Step::Wait | Step::Crowded => break,
            }
        }
        if delayed {
            node.delay(link, net);
        }
        Some(used)
    }

    fn handle_timeout<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        net: &mut impl Effects,
    ) {
        if let Some(gateway) = node.gateway.as_deref_mut().filter(|_| node.commands.have_room()) {
            node.commands.spend(gateway.walk_on(now, net));
        }
        if let Some(gateway) = node.gateway.as_deref_mut().filter(|gateway| gateway.next_deadline() <= now) {
            gateway.set_broker(figures(&node.broker));
            gateway.handle_timeout(now, net);
        }
    }

    /// What the broker and the gateway have to tell each other, and what is to be remembered.
    fn poll_work<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        net: &mut impl Effects,
    ) -> bool {
        let Some(gateway) = node.gateway.as_deref_mut() else { return false };
        let reigns = node.broker.is_primary();
        if gateway.reigns() != reigns {
            if reigns {
                let Beginning { unasked, closes, .. } = node.broker.beginning();
                gateway.begin_counting(node.broker.reign(), unasked, closes);
                let needy: Vec<Other> = gateway.needy().filter_map(|wish| other_of(&wish).ok()).collect();
                for Unkept { client, filter, reason } in
                    node.broker.recount_others(needy, |topic| gateway.receivers(topic))
                {
                    let (client, filter, reason) = (&*client, filter.as_str(), &*reason);
                    node.reporter.report(&Event::SubscriptionRefused { client, filter, reason });
                }
            }
            gateway.set_broker(figures(&node.broker));
            gateway.set_reign(now, reigns, net);
        }
        let mut judge = Judge { broker: &mut node.broker, commands: &mut node.commands };
        while judge.has_room()
            && let Some(wish) = gateway.next_gone()
        {
            judge.goes(&wish);
        }
        while let Some((wish, reason)) = gateway.next_instead() {
            let (client, filter, reason) = (&*wish.client, wish.filter(), &*reason);
            node.reporter.report(&Event::BestEffortInstead { client, filter, reason });
        }
        if gateway.has_stirred() {
            node.tell_interest(net);
        }
        let Some(gateway) = node.gateway.as_deref_mut() else { return false };
        while let Some(login) = gateway.next_login() {
            node.reporter.login(login);
        }
        for trouble in gateway.take_troubles() {
            node.reporter.report(&event_of(&trouble));
        }
        gateway.pass_on(now, net);
        let mut posted = false;
        while let Some(draft) = node.gateway.as_deref_mut().and_then(mqtt::Gateway::next_draft) {
            node.post_draft(now, &draft, net);
            posted = true;
        }
        let Some(gateway) = node.gateway.as_deref_mut() else { return posted };
        let mut alarm = String::new();
        while node.reporter.next_alarm(&mut alarm) {
            gateway.announce(now, ALARMS, &alarm, net);
            alarm.clear();
        }
        let backup = node.broker.backup_link();
        if gateway.has_records() {
            let records = gateway.take_records();
            if let Some(link) = backup {
                send_records(net, link, &records);
            }
            node.reporter.keep(&records, gateway.knowledge().total());
            gateway.give_back(records);
        }
        if gateway.has_log() && backup.is_some() && node.broker.is_protected() {
            gateway.end_doubt();
        }
        gateway.record(backup.is_some() || node.reporter.keeps());
        node.refill() | posted
    }

    fn next_deadline<R: Reporter, O: Operators, G: Rules>(node: &BrokerNode<R, O, G>) -> Time {
        node.gateway.as_ref().map_or(Time::NEVER, |gateway| gateway.next_deadline())
    }
}

impl<R: Reporter, O: Operators, G: Rules> BrokerNode<R, O, G> {
    /// Tells the broker which filters clients have subscribed or given up.
    #[cold]
    fn tell_interest(&mut self, net: &mut impl Effects) {
        while let Some((filter, wanted)) = self.gateway.as_deref_mut().and_then(mqtt::Gateway::next_stirred) {
            let (broker, mut wired) = self.wired(net);
            broker.others_want(&filter, Others::Clients, wanted, &mut wired);
        }
    }

    /// Publishes a will.
    fn post_draft(&mut self, now: Time, draft: &Draft, net: &mut impl Effects) {
        let Some(gateway) = self.gateway.as_deref() else { return };
        let posting = Posting {
            publisher: &draft.publisher,
            topic: &draft.topic,
            asked: None,
            fallback: gateway.fallback(),
            hint: None,
            payload: &draft.body,
            truths: draft.truths,
            asks: false,
        };
        let (broker, mut wired) = self.wired(net);
        if let Err(error) = post_with_room(now, &posting, broker, &mut wired) {
            let client = draft.publisher.strip_prefix("mqtt:").unwrap_or(&draft.publisher);
            let reason = format!("its will is not published: {error}");
            self.reporter.report(&Event::Refused { client, topic: &draft.topic, reason: &reason });
        }
    }

    /// Gives a store that has come back everything, piece by piece. Returns whether there is more to give at once.
    fn refill(&mut self) -> bool {
        let Some(gateway) = self.gateway.as_deref_mut() else { return false };
        if self.reporter.wants_everything() {
            self.refilling = Some(Refilling { from: None });
        }
        let Some(Refilling { from }) = self.refilling else { return false };
        match self.reporter.takes_more() {
            None => self.refilling = None,
            // A backup is told with the same bookmark.
            Some(takes) if takes && !self.broker.is_telling() => {
                let place =
                    from.filter(|(round, _)| *round == gateway.telling_round()).map_or(0, |(_, place)| place);
                let mut records = Vec::new();
                let next = gateway.tell(place, &mut records);
                let known = if next.is_none() { gateway.knowledge().total() } else { 0 };
                self.reporter.keep(&records, known);
                self.refilling = next.map(|place| Refilling { from: Some((gateway.telling_round(), place)) });
                if next.is_none() {
                    self.reporter.kept_all();
                }
                return next.is_some();
            }
            Some(_) => {}
        }
        false
    }
}

/// Publishes a client's message, and has its gateway answer.
fn publish<N: Effects, R: Reporter, O: Operators, G: Rules>(
    now: Time,
    post: &Post<'_>,
    broker: &mut Broker,
    wired: &mut Wired<'_, N, R, O, G>,
) {
    let result = post_with_room(now, &post.posting, broker, wired);
    let Some(gateway) = wired.gateway.as_deref_mut() else { return };
    match result {
        Ok(Posted { stream, seq }) => gateway.posted(post, stream, seq),
        Err(error) => {
            let for_ever = matches!(error, Unposted::Refused(_));
            let reason = match error {
                Unposted::NotReigning => Reason::USE_ANOTHER_SERVER,
                Unposted::Crowded | Unposted::Full | Unposted::Short(_) | Unposted::Refused(_) => {
                    Reason::QUOTA_EXCEEDED
                }
            };
            gateway.not_posted(now, post, (reason, &error.to_string(), for_ever), wired.net);
        }
    }
}

/// Publishes a message. Where those before it would be overwritten, they have their turn first: who publishes faster than
/// is dispatched waits for it.
fn post_with_room(
    now: Time,
    posting: &Posting<'_>,
    broker: &mut Broker,
    out: &mut impl Outputs,
) -> Result<Posted, Unposted> {
    loop {
        match broker.post(now, posting, out) {
            Err(Unposted::Crowded) => _ = broker.run(now, JOBS_PER_PORTION, out),
            result => return result,
        }
    }
}

/// What a gateway has to tell, as an event.
fn event_of(trouble: &Trouble) -> Event<'_> {
    match trouble {
        Trouble::Refused { client, topic, reason } => Event::Refused { client, topic, reason },
        Trouble::RefusedFilter { client, filter, reason } => {
            Event::SubscriptionRefused { client, filter, reason }
        }
        Trouble::Expelled { client, reason } => Event::Expelled { client, reason },
        Trouble::Came { client, user, address, version, resumed } => {
            let (user, address, resumed) = (user.as_deref().unwrap_or(""), &**address, *resumed);
            Event::ClientCame { client, user, address, protocol: version.protocol(), resumed }
        }
        Trouble::Gone { client, reason } => Event::ClientGone { client, reason },
        Trouble::GoesRound { client, other, topic, times, within } => {
            Event::GoesRound { client, other, topic, times: u64::from(*times), within: *within }
        }
        Trouble::GivenUp { client, topic, reason, times } => {
            Event::MessageGivenUp { client, topic, reason, times: u64::from(*times) }
        }
        Trouble::Full { client, dropped, refused } => {
            Event::SessionFull { client, dropped: *dropped, refused: *refused }
        }
    }
}

/// How far a store has been told of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refilling {
    /// In which telling, and where it goes on.
    from: Option<(u32, u64)>,
}

/// What the broker says of itself on `$SYS/broker/…`.
fn figures(broker: &Broker) -> BrokerFigures {
    let (arrived, dispatched) = broker.traffic();
    let stored_bytes = broker.occupancy().store_bytes as u64;
    BrokerFigures { started: broker.started(), arrived, dispatched, stored_bytes }
}

/// Sends records in frames that are not too long.
pub(crate) fn send_records(net: &mut impl Effects, link: LinkId, records: &[u8]) {
    let (mut begins, mut ends) = (0, 0);
    for record in mqtt::records(records) {
        let bytes = record.encoded_bytes();
        let grown = ends + bytes - begins;
        if ends > begins && grown > RECORDS_BYTES_TARGET {
            net.send(link, &Frame::Records(records.get(begins..ends).unwrap_or(&[])));
            begins = ends;
        }
        ends += bytes;
    }
    if ends > begins {
        net.send(link, &Frame::Records(records.get(begins..ends).unwrap_or(&[])));
    }
}
