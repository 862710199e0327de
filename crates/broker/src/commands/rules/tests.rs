use super::*;
use crate::commands::register::Publisher;
use crate::steps::process::tests::{Alone, NOW, broker, stand_by};
use crate::store::queue::JobKind;
use crate::store::ring::SlotFlags;
use contract::{Span, StreamId, Ticket};
use wire::{LinkId, Message, MessageFlags};

fn rule(filter: &str, contract: Contract) -> TopicRule {
    TopicRule::new(filter.parse().unwrap(), contract)
}

fn fast() -> Contract {
    Contract::every(Span::millis(10)).deadline(Span::millis(10)).retain(6).tolerate(1)
}

/// A broker that carries these topics without rules.
fn carrying(topics: &[&str], contract: Contract) -> (Broker, Alone) {
    let (mut broker, mut out) = (broker(|limits| limits.ring_slots_max = 64), Alone::default());
    broker.handle_timeout(broker.next_deadline(), &mut out);
    for topic in topics {
        let publisher = Publisher::new("p", 1);
        broker
            .take_stream(NOW, topic, contract, &publisher, true, &mut out)
            .unwrap_or_else(|it| panic!("{}", it.text));
    }
    (broker, out)
}

fn store(broker: &mut Broker, out: &mut Alone, stream: StreamId, seq: u64, payload: &[u8]) {
    let message = Message { stream: stream.0, flags: MessageFlags::NONE, seq, created: NOW, payload };
    broker
        .steps()
        .store_message(NOW, None, stream, &message, false, out)
        .unwrap_or_else(|_| panic!("it is stored"));
}

#[test]
fn topics_that_are_carried_get_their_new_contract_with_all_that_waits() {
    for before in [fast(), fast().best_effort()] {
        let (mut broker, mut out) = carrying(&["a/1", "b"], before);
        let payloads: Vec<Vec<u8>> = (0..5_u8).map(|n| vec![n; 30 * usize::from(n)]).collect();
        for (seq, payload) in payloads.iter().enumerate() {
            store(&mut broker, &mut out, StreamId(0), seq as u64, payload);
        }
        let after = fast().retain(9).deadline(Span::millis(20)).size(300);
        let changed = broker.change_topics(NOW, vec![rule("a/#", after)], &mut out).unwrap();
        assert_eq!(changed, [Changed { topic: "a/1".into(), before, after }]);
        let (stream, topic) = broker.flow.store.table.pair(StreamId(0)).unwrap();
        assert_eq!((topic.contract, topic.plan), (after, broker.promises.admission.plan(after).unwrap()));
        assert!(stream.ring.is_reserved() && stream.ring.slots() >= 11 && stream.ring.payload_max() >= 300);
        let there: Vec<&[u8]> = stream
            .ring
            .tickets()
            .filter_map(|ticket| stream.ring.message(ticket))
            .map(|(_, it)| it)
            .collect();
        assert_eq!(there, payloads);
        assert_eq!(
            broker.flow.store.table.pair(StreamId(1)).unwrap().1.contract,
            before,
            "nobody meant this one"
        );
        assert!(broker.change_topics(NOW, vec![rule("a/#", after)], &mut out).unwrap().is_empty());
        assert!(broker.change_topics(NOW, vec![], &mut out).unwrap().is_empty(), "it keeps what it has");
        assert!(broker.find_contract("a/2", None).is_err());
        (0..2).for_each(|index| broker.drop_stream(StreamId(index), &mut out));
        assert_eq!(broker.flow.store.memory.used(), 0, "all memory is given back");
        assert_eq!(broker.promises.admission.utilisation(), 0.0, "and all time");
    }
}

#[test]
fn a_long_name_takes_memory_once_for_all_its_streams_and_gives_it_back() {
    let long = "x".repeat(contract::TOPIC_BYTES_MAX);
    for contract in [fast(), fast().best_effort()] {
        let (mut broker, mut out) = carrying(&["a"], contract);
        let one = broker.flow.store.memory.used();
        let take = |broker: &mut Broker, out: &mut Alone, name: &str| {
            let publisher = Publisher::new(name, 1);
            broker.take_stream(NOW, &long, contract, &publisher, true, out).map_err(|denial| denial.text)
        };
        let streams = ["p", "q"].map(|name| take(&mut broker, &mut out, name).unwrap());
        assert_eq!(broker.flow.store.memory.used(), 3 * one + crate::store::memory::name_bytes(&long));
        broker.drop_stream(streams[0], &mut out);
        assert_eq!(broker.flow.store.memory.used(), 2 * one + crate::store::memory::name_bytes(&long));
        broker.drop_stream(streams[1], &mut out);
        assert_eq!(broker.flow.store.memory.used(), one);
        broker.settings.limits.store_bytes = one + crate::store::memory::name_bytes(&long);
        assert!(take(&mut broker, &mut out, "p").is_err(), "there is no memory for it");
        assert_eq!(broker.flow.store.memory.used(), one);
    }
}

#[test]
fn rules_that_do_not_fit_what_is_carried_change_nothing() {
    let (mut broker, mut out) = carrying(&["a", "b"], fast());
    broker.settings.schedulability = true;
    let slow = contract::admission::Costs::of_messages(Span::millis(2), Span::millis(2), Span::millis(2));
    let supply = contract::Supply { share_ppm: 900_000, blocking: Span::ZERO };
    broker.promises.admission =
        contract::Admission::new(Default::default(), Default::default(), slow, supply);
    for (_, topic) in broker.flow.store.table.topics() {
        broker.promises.admission.count(&topic.plan, &topic.contract, topic.receivers());
    }
    let harmless = || rule("b", fast().deadline(Span::millis(9)));
    let refused = |broker: &mut Broker, bad: Contract, words: &str| {
        let before = broker.promises.admission.utilisation();
        let rules = vec![harmless(), rule("a", bad)];
        let error = broker.would_change(&rules).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert_eq!(broker.change_topics(NOW, rules, &mut Alone::default()).unwrap_err(), error);
        assert!(broker.settings.topics.is_empty() && broker.promises.rule_of("b").is_none());
        assert!(broker.flow.store.table.topics().all(|(_, topic)| topic.contract == fast()));
        assert_eq!(broker.promises.admission.utilisation(), before);
    };
    refused(&mut broker, fast().retain(0).tolerate(0), "`a`");
    refused(
        &mut broker,
        Contract::every(Span::millis(3)).deadline(Span::millis(10)).retain(20),
        "no time for all of it",
    );
    refused(&mut broker, fast().retain(1_000), "limits.ring_slots_max = 64");
    refused(&mut broker, fast().size(4_000_000_000), "bytes more would have to be reserved");
    refused(&mut broker, fast().confirmed(), "confirm = false");
    broker.flow.store.table.stream_mut(StreamId(0)).unwrap().record.asked = true;
    broker.flow.store.table.stream_mut(StreamId(0)).unwrap().record.source = Some(LinkId(1));
    refused(&mut broker, fast().deadline(Span::millis(9)), "states a contract itself");
    broker.flow.store.table.stream_mut(StreamId(0)).unwrap().record.source = None;
    let changed = broker.change_topics(NOW, vec![harmless()], &mut out).unwrap();
    assert_eq!(changed.len(), 1);
}

/// As a backup, to which the primary names the stream again.
#[test]
fn a_backup_takes_over_a_contract_with_the_copies_that_it_keeps() {
    let (mut broker, mut out) = carrying(&["a"], fast());
    let index = broker.flow.store.table.find_topic("a").unwrap();
    broker.membership.pair.be_deposed(NOW);
    stand_by(&mut broker);
    let rules = vec![rule("a", fast().retain(12))];
    assert!(broker.change_topics(NOW, rules, &mut out).unwrap().is_empty(), "its primary has to say so");
    let impossible = vec![rule("a", fast().retain(0).tolerate(0))];
    assert!(broker.would_change(&impossible).is_err(), "it would be, too");
    let copy = Message { stream: 0, flags: MessageFlags::NONE, seq: 0, created: NOW, payload: b"copy" };
    broker.steps().keep_copy(NOW, StreamId(0), &copy, &mut out);
    assert!(broker.follow_contract(NOW, index, fast().retain(8), &mut out));
    let (stream, topic) = broker.flow.store.table.pair(StreamId(0)).unwrap();
    assert_eq!(topic.contract.retain, 8);
    assert!(stream.ring.find(0).is_some());
    broker.flow.store.table.stream_mut(StreamId(0)).unwrap().record.admitted = false;
    assert!(!broker.follow_contract(NOW, index, fast().retain(9), &mut out), "a client only asked for it");
}

/// Publishers retain by the old contract until they have heard of the new one, by which nothing need be copied.
#[test]
fn a_topic_that_was_copied_goes_on_being_copied_where_its_publisher_retains_more_from_now_on() {
    let copied = fast().retain(5).deadline(Span::millis(20));
    let (mut broker, mut out) = carrying(&["a"], copied);
    let before = broker.flow.store.table.pair(StreamId(0)).unwrap().1.plan;
    assert!(before.replicate);
    let after = copied.retain(9).deadline(Span::millis(30));
    assert!(!broker.promises.admission.plan(after).unwrap().replicate);
    broker.change_topics(NOW, vec![rule("a", after)], &mut out).unwrap();
    let plan = broker.flow.store.table.pair(StreamId(0)).unwrap().1.plan;
    assert!(
        plan.replicate
            && plan.pseudo.replication == before.pseudo.replication
            && plan.dispatch > before.dispatch
    );
    // Its next life has heard of it from the beginning.
    broker.drop_stream(StreamId(0), &mut out);
    assert_eq!(broker.promises.admission.utilisation(), 0.0);
    let publisher = Publisher::new("p", 2);
    let contract = broker.find_contract("a", None).unwrap_or_else(|denial| panic!("{}", denial.text));
    let index = broker.take_stream(NOW, "a", contract, &publisher, true, &mut out);
    let index = index.unwrap_or_else(|denial| panic!("{}", denial.text));
    assert!(!broker.flow.store.table.pair(index).unwrap().1.plan.replicate);
}

/// What waits for its last safe moment must not be forgotten when that is another one.
#[test]
fn what_waits_to_be_copied_is_copied_when_its_contract_changes() {
    let contract = fast().retain(5).deadline(Span::millis(20));
    let (mut broker, mut out) = carrying(&["a"], contract);
    assert!(broker.flow.store.table.pair(StreamId(0)).unwrap().1.plan.replicate);
    broker.membership.pair.accept_backup(NOW, LinkId(1), false);
    for seq in 0..3 {
        store(&mut broker, &mut out, StreamId(0), seq, b"x");
    }
    let jobs = |broker: &mut Broker| {
        let mut jobs = 0;
        while let Some(job) = broker.flow.work.queue.pop() {
            jobs += usize::from(job.kind() == JobKind::Replicate);
        }
        jobs
    };
    // As if they had been planned lazily, but for one that has been copied.
    assert_eq!(jobs(&mut broker), 3);
    mark_copied(&mut broker, 1);
    broker.change_topics(NOW, vec![rule("a", contract.deadline(Span::millis(19)))], &mut out).unwrap();
    assert_eq!(jobs(&mut broker), 2);
}

/// As if the backup had a copy of a message of the first stream.
fn mark_copied(broker: &mut Broker, seq: u64) -> Ticket {
    let ring = &mut broker.flow.store.table.stream_mut(StreamId(0)).unwrap().ring;
    let ticket = ring.find(seq).unwrap();
    ring.slot_mut(ticket).unwrap().set(SlotFlags::REPLICATED);
    ticket
}

/// Of one that needs no copies the backup may have some, and is to hear when they are not needed.
#[test]
fn a_new_backup_takes_no_marks_from_messages_that_are_not_copied_any_more() {
    let (mut broker, mut out) = carrying(&["a"], fast().retain(30));
    assert!(!broker.flow.store.table.pair(StreamId(0)).unwrap().1.plan.replicate);
    store(&mut broker, &mut out, StreamId(0), 0, b"x");
    let ticket = mark_copied(&mut broker, 0);
    broker.steps().copy_again(StreamId(0));
    let slot = broker.flow.store.table.stream(StreamId(0)).unwrap().ring.slot(ticket).unwrap();
    assert!(slot.flags.has(SlotFlags::REPLICATED));
}

/// Operators that come, and needs of subscribers, may leave a stream with less room than it would be refused for.
#[test]
fn a_change_that_needs_no_more_room_is_taken_although_there_was_too_little_before() {
    let (mut broker, mut out) = carrying(&["a"], fast().retain(30));
    let (stream, topic) = broker.flow.store.table.pair(StreamId(0)).unwrap();
    let slots = broker.ring_slots(topic.planned(), &topic.plan, topic.processing);
    assert!(slots > 4 && stream.ring.slots() >= slots);
    broker.settings.limits.ring_slots_max = slots - 2;
    let after = Contract { priority: 7, ..fast().retain(30) };
    assert_eq!(broker.change_topics(NOW, vec![rule("a", after)], &mut out).unwrap().len(), 1);
    let longer = fast().retain(1_000);
    assert!(broker.change_topics(NOW, vec![rule("a", longer)], &mut out).is_err());
}
