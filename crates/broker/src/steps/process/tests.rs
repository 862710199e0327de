use super::*;
use crate::broker::Broker;
use crate::commands::register::Publisher;
use crate::commands::tasks::UNITS_PER_SLICE;
use crate::membership::pair::{Copies, Decision, News};
use crate::outputs::{Processes, RelaysNothing, RemembersNothing, Reports, RoutesNowhere};
use crate::settings::{Limits, Settings, TopicRule};
use crate::store::memory::STREAM_BYTES;
use crate::store::results::Processing;
use crate::watch::events::{Event, PromotionCause};
use crate::watch::status::Survey;
use contract::admission::Costs;
use contract::{Contract, NodeId};
use std::ops::Range;
use wire::{
    Effects, Farewell, Frame, Hello, Knowledge, LinkChange, LinkId, Mark, MarkKind, MessageKind, Order,
    PeerIndex, Protocol, Secret, Standing,
};

/// Nobody listens; operators take every topic, once there are any.
#[derive(Default)]
pub(crate) struct Alone {
    within: Option<Span>,
    said: Vec<String>,
    /// The numbers that subscribers are told to expect first.
    expected: Vec<u64>,
    /// Topics that have been bound.
    bound: usize,
}

impl RoutesNowhere for Alone {}
impl RemembersNothing for Alone {}
impl RelaysNothing for Alone {}

impl Reports for Alone {
    fn report(&mut self, event: &Event<'_>) {
        self.said.push(event.to_string());
    }
    fn survey(&mut self, _wanted: Range<u32>) -> Survey {
        Survey::default()
    }
}

impl Processes for Alone {
    fn bind(&mut self, _topic: &str) -> Option<Processing> {
        self.bound += 1;
        Some(Processing { handle: 0, within: self.within?, remembers: false })
    }
    fn unbind(&mut self, _handle: u32) {}
    fn process(&mut self, _handle: u32, _message: &Processed<'_>) -> bool {
        false
    }
    fn has_output(&mut self, _output: u32) -> bool {
        false
    }
    fn release(&mut self, _lineage: u32) {}
    fn offered(&mut self, _lineage: u32) {}
}

impl Effects for Alone {
    fn send(&mut self, _link: LinkId, frame: &Frame<'_>) {
        if let Frame::Announce(announce) = frame {
            self.expected.push(announce.next_seq);
        }
    }
    fn send_message(&mut self, _link: LinkId, _kind: MessageKind, _message: &Message<'_>) {}
    fn send_mark(&mut self, _link: LinkId, _kind: MarkKind, _mark: Mark) {}
    fn backlog(&self, _link: LinkId) -> usize {
        0
    }
    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }
    fn taken(&self, _link: LinkId) -> u64 {
        0
    }
    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}
    fn dial(&mut self, _peer: PeerIndex, _within: Span) {}
    fn close(&mut self, _link: LinkId, _farewell: &Farewell<'_>) {}
    fn append(&mut self, _link: LinkId, _order: Order, _write: impl FnOnce(&mut Vec<u8>)) {}
    fn present_again(&mut self, _link: LinkId) {}
    fn hang_up(&mut self, _link: LinkId) {}
}

pub(crate) const NOW: Time = Time(1_000_000_000_000);

pub(crate) fn broker(tune: impl FnOnce(&mut Limits)) -> Broker {
    broker_of(Vec::new(), tune)
}

fn broker_of(topics: Vec<TopicRule>, tune: impl FnOnce(&mut Limits)) -> Broker {
    let mut limits = Limits::default();
    tune(&mut limits);
    Broker::new(Settings {
        name: "a".to_owned(),
        node: NodeId(1),
        nonce: [7; 16],
        started: NOW,
        prefers_to_reign: true,
        has_peer: false,
        policy: Default::default(),
        replication: Default::default(),
        delays: Default::default(),
        reassigned: contract::path::REASSIGNED_WITHIN,
        links: Default::default(),
        costs: Costs::of_messages(Span(1), Span(1), Span(1)),
        supply: contract::Supply { share_ppm: 900_000, blocking: Span::ZERO },
        schedulability: false,
        best_effort_subscriptions: false,
        topics,
        detection: Default::default(),
        limits,
    })
}

/// A stream that operators may have for longer than anybody else: what it may lose spans a hundred periods.
fn stream(broker: &mut Broker, out: &mut Alone) -> StreamId {
    stream_of(broker, out, "t")
}

fn stream_of(broker: &mut Broker, out: &mut Alone, topic: &str) -> StreamId {
    let contract = Contract::every(Span::millis(1)).deadline(Span::millis(10)).retain(1).tolerate(100);
    let publisher = Publisher::new("p", 1);
    let taken = broker.take_stream(NOW, topic, contract, &publisher, true, out);
    taken.unwrap_or_else(|denial| panic!("{}", denial.text))
}

fn ring(broker: &mut Broker, index: StreamId) -> &mut crate::store::ring::Ring {
    &mut broker.flow.store.table.stream_mut(index).unwrap().ring
}

/// The stream of a topic that has one.
fn made_of(broker: &Broker, topic: &str) -> StreamId {
    let table = &broker.flow.store.table;
    table.topic(table.find_topic(topic).unwrap()).unwrap().streams[0]
}

#[test]
fn rings_grow_for_operators_that_come_later_and_keep_what_they_have() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    let index = stream(&mut broker, &mut out);
    assert_eq!(ring(&mut broker, index).slots(), 16);
    let (ticket, _) = ring(&mut broker, index).push(7, NOW, b"there", SlotFlags::NONE, MessageFlags::NONE);
    for (within, slots) in [(1, 64), (20, 64), (90, 128), (10_000, 128)] {
        out.within = Some(Span::millis(within));
        broker.rebind(NOW, &mut out);
        assert_eq!(
            ring(&mut broker, index).slots(),
            slots,
            "copies are kept for longer than before, and operators take {within} ms"
        );
        assert_eq!(ring(&mut broker, index).message(ticket).unwrap().1, b"there");
        let bytes = ring(&mut broker, index).bytes() + STREAM_BYTES;
        assert_eq!(broker.flow.store.memory.used(), bytes);
    }
    // Without them again, it stays as it is.
    out.within = None;
    broker.rebind(NOW, &mut out);
    assert_eq!(ring(&mut broker, index).slots(), 128);
    assert_eq!(out.said, Vec::<String>::new());
}

/// A topic that needed no copy needs one when operators process it, and nothing was tested for that.
#[test]
fn operators_whose_copies_do_not_fit_the_budget_put_topics_at_risk_until_they_are_gone() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    broker.settings.schedulability = true;
    let cost = Span::micros(2);
    let lazy = contract::Lazy { budget: Span::micros(5), ..Default::default() };
    let supply = contract::Supply { share_ppm: 900_000, blocking: Span::ZERO };
    let costs = Costs::of_messages(Span(1), cost, cost);
    broker.promises.admission =
        contract::Admission::new(Default::default(), Default::default(), costs, supply).with_lazy(Some(lazy));
    broker.handle_timeout(broker.next_deadline(), &mut out);
    out.said.clear();
    let index = stream(&mut broker, &mut out);
    broker.admit_stream(index, &mut out).unwrap_or_else(|denial| panic!("{}", denial.text));
    let at_risk = |broker: &Broker| {
        let (stream, topic) = broker.flow.store.table.pair(index).unwrap();
        (
            topic.plan.lazy.is_some(),
            broker.promises.crowd.is_beyond_budget(topic),
            broker.state(NOW, stream, topic),
        )
    };
    let before = at_risk(&broker);
    assert_eq!((before.0, before.1), (false, false));
    out.within = Some(Span::millis(1));
    broker.rebind(NOW, &mut out);
    let with = at_risk(&broker);
    assert_eq!((with.0, with.1), (true, true));
    let [said] = &out.said[..] else { panic!("{:?}", out.said) };
    assert!(said.contains("Raise replication.budget to at least"), "{said}");
    out.within = None;
    broker.rebind(NOW, &mut out);
    assert_eq!(at_risk(&broker), before);
}

/// Between two slices, the driver lets messages have their turn.
#[test]
fn topics_are_bound_anew_in_slices() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    for number in 0..1_000 {
        stream_of(&mut broker, &mut out, &format!("t/{number}"));
    }
    out.bound = 0;
    broker.rebind(NOW, &mut out);
    let mut turns = 1;
    while broker.has_tasks() {
        let before = out.bound;
        broker.work_on(NOW, UNITS_PER_SLICE, &mut out);
        assert!(out.bound - before <= UNITS_PER_SLICE);
        turns += 1;
    }
    assert_eq!(out.bound, 1_000);
    assert!(turns >= 1_000 / UNITS_PER_SLICE, "in {turns} turns");
}

#[test]
fn rings_grow_as_far_as_limits_allow_and_the_operator_is_told() {
    let (mut few, mut out) = (broker(|limits| limits.ring_slots_max = 64), Alone::default());
    let index = stream(&mut few, &mut out);
    out.within = Some(Span::millis(90));
    few.rebind(NOW, &mut out);
    assert_eq!(ring(&mut few, index).slots(), 64);
    // What operators may be given is within the limit, so that nothing is short.
    assert_eq!(out.said, Vec::<String>::new());

    let (mut full, mut out) = (broker(|_| {}), Alone::default());
    let index = stream(&mut full, &mut out);
    let bytes = full.flow.store.memory.used();
    full.settings.limits.store_bytes = bytes;
    out.within = Some(Span::millis(90));
    full.rebind(NOW, &mut out);
    let slots = ring(&mut full, index).slots();
    assert_eq!((slots, full.flow.store.memory.used()), (16, bytes));
    let [said] = &out.said[..] else { panic!("{:?}", out.said) };
    assert!(said.contains("need 91 of its messages to be kept, and 16 are"), "{said}");
    assert!(said.contains("limits.store"), "{said}");
}

#[test]
fn a_loss_number_for_results_with_gaps_of_their_own_is_refused() {
    let rule = |topic: &str, contract| TopicRule::new(topic.parse().unwrap(), contract);
    let kept = Contract::every(Span::millis(1)).deadline(Span::millis(10)).tolerate(5);
    let rules = vec![rule("counted", kept), rule("any", kept.best_effort())];
    let (mut broker, mut out) = (broker_of(rules, |_| {}), Alone::default());
    broker.handle_timeout(broker.next_deadline(), &mut out);
    let index = stream(&mut broker, &mut out);
    let gaps = Some("`newest` keeps only the newest");
    let cases =
        [("counted", gaps, false), ("any", gaps, true), ("other", gaps, true), ("counted", None, true)];
    for (output, (topic, gaps, published)) in (0..).zip(cases) {
        let taken = broker.publish_result(NOW, &Outcome { gaps, ..result(index, output, topic) }, &mut out);
        assert_eq!(taken, published, "{topic} {gaps:?}");
    }
    let said = out.said.join("\n");
    assert!(said.contains("`newest` keeps only the newest") && said.contains("unbounded"), "{said}");
}

/// A result of the stream's message, under the number and the topic of its output.
fn result(of: StreamId, output: u32, topic: &str) -> Outcome<'_> {
    Outcome {
        output,
        topic,
        period: Span::millis(1),
        deadline: Span::millis(10),
        gaps: None,
        stream: of,
        incarnation: 1,
        seq: 0,
        created: NOW,
        flags: MessageFlags::NONE,
        payload: topic.as_bytes(),
        lineage: 0,
    }
}

#[test]
fn streams_of_results_that_the_other_broker_ends_are_not_taken_for_those_that_come_after_them() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    broker.handle_timeout(broker.next_deadline(), &mut out);
    assert!(broker.membership.pair.is_primary());
    let index = stream(&mut broker, &mut out);
    for (output, topic) in [(0, "x"), (1, "y"), (2, "z")] {
        assert!(broker.publish_result(NOW, &result(index, output, topic), &mut out));
    }
    // As when it stands by and the primary retires them.
    for topic in ["x", "y", "z"] {
        let made = made_of(&broker, topic);
        broker.drop_stream(made, &mut out);
    }
    // The last place is the first to be taken again, at once.
    for (output, topic) in [(0, "x"), (1, "y"), (2, "z")] {
        assert!(broker.publish_result(NOW, &result(index, output, topic), &mut out), "on {topic}");
        let made = made_of(&broker, topic);
        let ring = ring(&mut broker, made);
        let carried: Vec<_> = ring.tickets().filter_map(|ticket| Some(ring.message(ticket)?.1)).collect();
        assert_eq!(carried, [topic.as_bytes()]);
    }
}

/// As when operators are behind after a failover, and the newest messages of a stream, which it sends at once, come to them first.
#[test]
fn a_subscriber_is_told_to_expect_the_first_result_that_it_gets_though_a_later_one_was_made_first() {
    let (mut broker, mut out) = (broker(|limits| limits.jobs = 3), Alone::default());
    broker.handle_timeout(NOW, &mut out);
    let index = stream(&mut broker, &mut out);
    let link = LinkId(0);
    broker.handle_link(NOW, link, LinkChange::Accepted(Protocol::Verge), &mut out);
    let hello = Hello {
        standing: Standing::Orphaned,
        prefers_to_reign: false,
        reign: Default::default(),
        node: NodeId(2),
        incarnation: 1,
        name: "subscriber",
        user: "",
        password: Secret(""),
        knows: wire::Knows::NOTHING,
    };
    broker.handle_frame(NOW, link, Frame::Hello(hello), &mut out);
    broker.handle_frame(
        NOW,
        link,
        Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "x" },
        &mut out,
    );
    let mut publish = |broker: &mut Broker, seq| {
        let created = NOW + Span::micros(seq as i64);
        broker.publish_result(NOW, &Outcome { seq, created, ..result(index, 0, "x") }, &mut out)
    };
    assert!(publish(&mut broker, 52));
    assert!(publish(&mut broker, 50));
    assert!(!publish(&mut broker, 51), "there is no room, so it is lost, and its subscriber has to count it");
    broker.run(NOW, 2, &mut out);
    assert_eq!(out.expected, [50]);
}

/// As when a primary tells a backup, and the publisher sends again after that has come to reign.
#[test]
fn what_the_old_primary_was_done_with_is_a_duplicate_when_it_comes_again() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    let index = stream(&mut broker, &mut out);
    broker.steps().remember_finished(index, 7);
    let arrived = |broker: &Broker| broker.flow.store.table.stream(index).unwrap().arrived();
    assert_eq!(arrived(&broker), 0, "nothing came");
    let again = |broker: &mut Broker, out: &mut Alone, seq| {
        let message =
            Message { stream: index.0, flags: MessageFlags::RESEND, seq, created: NOW, payload: b"again" };
        broker.steps().store_message(NOW, None, index, &message, false, out).is_ok()
    };
    assert!(!again(&mut broker, &mut out, 7));
    assert_eq!(broker.flow.stats.duplicates, 1);
    assert!(again(&mut broker, &mut out, 6), "it was not done with this one");
    assert!(again(&mut broker, &mut out, 8));
    assert_eq!(arrived(&broker), 2);
    // One message is retained, so nobody sends these again.
    let before = ring(&mut broker, index).next_ticket();
    (0..7).for_each(|seq| broker.steps().remember_finished(index, seq));
    assert_eq!(ring(&mut broker, index).next_ticket(), before);
}

#[test]
fn what_is_finished_takes_no_place_of_a_copy_that_is_needed() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    let index = stream(&mut broker, &mut out);
    let slots = ring(&mut broker, index).slots() as u64;
    for seq in 0..slots {
        ring(&mut broker, index).push(seq, NOW, b"copy", SlotFlags::COPY, MessageFlags::NONE);
        broker.flow.store.table.stream_mut(index).unwrap().next_seq = seq + 1;
    }
    broker.steps().remember_finished(index, slots);
    assert!(ring(&mut broker, index).find(slots).is_none());
    assert!(ring(&mut broker, index).find(0).is_some());
    let oldest = ring(&mut broker, index).find(0).unwrap();
    ring(&mut broker, index).slot_mut(oldest).unwrap().set(SlotFlags::DISPATCHED);
    broker.steps().remember_finished(index, slots);
    assert!(ring(&mut broker, index).find(slots).is_some(), "the oldest one is not needed any more");
}

/// As when a primary that was given the reign dies while it tells its backup everything.
#[test]
fn what_a_primary_was_done_with_comes_to_operators_again_if_it_dies_before_it_has_told_what_they_remember() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    let index = stream(&mut broker, &mut out);
    let topic = broker.flow.store.table.stream(index).unwrap().topic;
    let again = |broker: &mut Broker, out: &mut Alone, seq| {
        let message =
            Message { stream: index.0, flags: MessageFlags::RESEND, seq, created: NOW, payload: b"again" };
        broker.steps().store_message(NOW, None, index, &message, false, out).is_ok()
    };
    for (remembers, told, comes_again) in
        [(true, false, true), (true, true, false), (false, false, false), (true, false, true)]
    {
        let processing = Processing { handle: 0, within: Span::millis(1), remembers };
        broker.flow.store.table.topic_mut(topic).unwrap().processing = Some(processing);
        let seq = broker.flow.store.table.stream(index).unwrap().next_seq;
        let (copied, finished) = (seq, seq + 1);
        ring(&mut broker, index).push(copied, NOW, b"copy", SlotFlags::COPY, MessageFlags::NONE);
        stand_by(&mut broker);
        broker.steps().be_done_with(index, copied);
        broker.steps().be_done_with(index, finished);
        if told {
            broker.know_everything(LinkId(1), &mut out);
        }
        let before = broker.flow.work.queue.len();
        broker.carry_out(NOW, Decision::Promote(PromotionCause::Silent), &mut out);
        assert_eq!(broker.flow.work.queue.len() - before, usize::from(comes_again), "the copy is dispatched");
        assert_eq!(again(&mut broker, &mut out, finished), comes_again, "{remembers} {told}");
        assert!(!again(&mut broker, &mut out, copied), "it is there, and dispatched or pruned");
        ring(&mut broker, index).slots_mut().for_each(|slot| slot.set(SlotFlags::DISPATCHED));
        broker.membership.pair.be_deposed(NOW);
    }
}

/// It follows a primary from now on.
pub(crate) fn stand_by(broker: &mut Broker) {
    let (link, reign) = (LinkId(1), broker.membership.pair.reign);
    let copies = Copies::compare(&Knowledge::default(), &Knowledge::default());
    let (standing, prefers_to_reign) = (Standing::Primary, false);
    let news = News { link, standing, reign, node: reign.node, prefers_to_reign, copies };
    broker.membership.pair.on_news(NOW, news);
    broker.membership.pair.join(NOW, link);
}

#[test]
fn what_a_new_primary_copies_it_is_not_done_with() {
    let (mut broker, mut out) = (broker(|_| {}), Alone::default());
    let index = stream(&mut broker, &mut out);
    let topic = broker.flow.store.table.stream(index).unwrap().topic;
    let processing = Processing { handle: 0, within: Span::millis(1), remembers: true };
    broker.flow.store.table.topic_mut(topic).unwrap().processing = Some(processing);
    stand_by(&mut broker);
    broker.steps().be_done_with(index, 0);
    let copy = Message { stream: index.0, flags: MessageFlags::NONE, seq: 0, created: NOW, payload: b"copy" };
    broker.steps().keep_copy(NOW, index, &copy, &mut out);
    broker.know_everything(LinkId(1), &mut out);
    let before = broker.flow.work.queue.len();
    broker.carry_out(NOW, Decision::Promote(PromotionCause::Silent), &mut out);
    assert_eq!(broker.flow.work.queue.len() - before, 1, "it is dispatched with what it says");
    let ticket = ring(&mut broker, index).find(0).unwrap();
    assert_eq!(ring(&mut broker, index).message(ticket).unwrap().1, b"copy");
}
