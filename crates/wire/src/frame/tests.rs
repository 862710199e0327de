use super::*;
use crate::load::{LevelStatus, OperatorStatus};
use crate::status::{Concern, StreamStatus, TopicState};
use crate::{Counters, Knowledge, Mark, Message, MessageFlags, Outbox, PROTOCOL_VERSION, StoreState};
use contract::{Crossing, LinkClass, Loss, OperatorCounters, TrafficClass};
use proptest::prelude::*;

fn any_contract() -> impl Strategy<Value = Contract> {
    let loss = prop_oneof![(0..u32::MAX - 1).prop_map(Loss::AtMost), Just(Loss::Unbounded)];
    let link = "[a-z0-9_-]{1,15}".prop_map(|name| name.parse::<LinkClass>().unwrap());
    (
        1..=i64::MAX,
        1..=i64::MAX,
        loss,
        0..=Contract::RETAIN_MAX,
        link,
        any::<u8>(),
        any::<bool>(),
        0..=1_u32 << 20,
    )
        .prop_map(|(period, deadline, loss, retain, link, priority, confirm, size)| Contract {
            period: Span(period),
            deadline: Span(deadline),
            loss,
            retain,
            link,
            priority,
            confirm,
            size,
        })
}

fn any_reign() -> impl Strategy<Value = Reign> {
    (any::<u64>(), any::<u64>()).prop_map(|(epoch, node)| Reign { epoch: Epoch(epoch), node: NodeId(node) })
}

fn any_standing() -> impl Strategy<Value = Standing> {
    (0_u8..6).prop_map(|byte| Standing::from_byte(byte).unwrap())
}

/// Encodes the frame, reads it back and compares.
fn round_trip(frame: Frame<'_>) -> Result<(), TestCaseError> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    let length = bytes.len();
    for cut in [0, 1, FRAME_HEAD_BYTES, length - 1] {
        if cut < length {
            let decoded = decode(&bytes[..cut]);
            prop_assert!(matches!(decoded, Ok(Decoded::Incomplete(need)) if need > cut), "{:?}", decoded);
        }
    }
    bytes.extend_from_slice(b"next");
    prop_assert_eq!(decode(&bytes), Ok(Decoded::Frame(frame, length)));
    Ok(())
}

/// Who writes a client of their own goes by the manual.
#[test]
fn the_manual_says_how_long_the_fixed_parts_of_frames_are() {
    let manual = include_str!("../../../../docs/protocol.md");
    for (name, bytes) in [
        ("Register", size_of::<RegisterHead>()),
        ("Carry", size_of::<CarryHead>()),
        ("Verdict", size_of::<VerdictHead>()),
        ("Announce", size_of::<AnnounceHead>()),
        ("Subscribe", size_of::<SubscribeHead>()),
        ("Subscribed", size_of::<SubscribedHead>()),
        ("Interest", size_of::<InterestHead>()),
        ("Pace", size_of::<U64>()),
        ("Shortfall", size_of::<ShortfallHead>()),
        ("Received", size_of::<ReceivedHead>()),
        ("Trouble", size_of::<TroubleHead>()),
        ("ClockRequest", size_of::<ClockRequestHead>()),
        ("ClockReply", size_of::<ClockReplyHead>()),
    ] {
        let row = manual.lines().find(|line| line.contains(&format!(" | {name} | "))).unwrap_or_default();
        assert!(row.contains(&format!("| [{bytes}] ")), "{name} has {bytes}: {row}");
    }
}

proptest! {
    #[test]
    fn hello_and_reign_round_trip(
        standing in any_standing(), prefers_to_reign in any::<bool>(), reign in any_reign(),
        node in any::<u64>(), incarnation in any::<u64>(), name in "\\PC{0,30}",
        user in "\\PC{0,30}", password in "\\PC{0,60}",
    ) {
        let (node, password) = (NodeId(node), Secret(&password));
        let hello = Hello { standing, prefers_to_reign, reign, node, incarnation, name: &name, user: &user, password, knows: Knows::NOTHING };
        round_trip(Frame::Hello(hello))?;
        round_trip(Frame::Reign { reign, standing })?;
        let mut knows = Vec::new();
        let mut knowledge = Knowledge::default();
        knowledge.count(reign, prefers_to_reign, incarnation);
        knowledge.write(&mut knows);
        let knows = Knows::of(&knows);
        round_trip(Frame::Hello(Hello { knows, ..hello }))?;
        round_trip(Frame::Knows(knows))?;
    }

    #[test]
    fn registration_round_trips(
        stream in any::<u32>(), contract in prop::option::of(any_contract()), topic in "\\PC{0,60}", admitted in any::<bool>(),
        replicate in any::<bool>(), d in any::<i64>(), r in any::<i64>(), retain in prop::option::of(0..u32::MAX),
        period in prop::option::of(1..i64::MAX), text in "\\PC{0,60}",
    ) {
        round_trip(Frame::Register(Register { stream, incarnation: d as u64, contract, topic: &topic }))?;
        let remedies = Remedies { retain, period: period.map(Span), deadline: None, by_uplink: false };
        let deadlines = [Span(d), Span(r)];
        round_trip(Frame::Verdict(Verdict { stream, admitted, reigns: !admitted, replicate, contract, deadlines, remedies, text: &text }))?;
        round_trip(Frame::Unregister { stream })?;
        round_trip(Frame::Retire { stream })?;
        round_trip(Frame::Untaken { stream, messages: !stream, text: &text })?;
    }

    #[test]
    fn subscriptions_and_announcements_round_trip(
        stream in any::<u32>(), incarnation in any::<u64>(), next_seq in any::<u64>(), contract in any_contract(),
        topic in "\\PC{0,60}", name in "\\PC{0,30}", flag in any::<bool>(), age in 0..i64::MAX,
    ) {
        let crossing = Crossing { age: Span(age), retain: (age % 9) as u32, within: Span(age / 2), promised: flag };
        round_trip(Frame::Announce(Announce { stream, incarnation, next_seq, contract, gapless: next_seq % 2 == 0, class: next_seq as u16, topic: &topic, publisher: &name, origin: &name, crossing }))?;
        round_trip(Frame::Carry(Carry { stream, incarnation, first_seq: next_seq, contract, topic: &topic, publisher: &name, origin: &name, crossing }))?;
        round_trip(Frame::Interest { wanted: flag, onward: crossing.age, filter: &topic })?;
        round_trip(Frame::Subscribe { number: stream, needs: Needs { onward: crossing.age, class: flag.then_some(TrafficClass::Bulk), ..Needs::NONE }, filter: &topic })?;
        round_trip(Frame::Subscribed { number: stream, admitted: flag, reigns: !flag, text: &topic })?;
        round_trip(Frame::Unsubscribe { number: stream })?;
        round_trip(Frame::Session { incarnation, present: flag, needs: Needs::NONE, client: &name, filter: &topic })?;
        round_trip(Frame::Records(topic.as_bytes()))?;
        round_trip(Frame::RelayOpen { channel: stream, client: &name, address: &name, certificate: &topic })?;
        round_trip(Frame::Relay { channel: stream, bytes: topic.as_bytes() })?;
        round_trip(Frame::RelayRoom { channel: stream, bytes: stream })?;
        round_trip(Frame::RelayEnd { channel: stream })?;
    }

    #[test]
    fn control_frames_round_trip(number in any::<u64>(), flag in any::<bool>(), text in "\\PC{0,60}", reason in 0_u8..6, row in any::<u32>()) {
        for frame in [Frame::AskInterest { topics: flag }, Frame::Pace { rate: number }, Frame::Published { published: flag, topic: &text }, Frame::Join, Frame::JoinKnowing, Frame::Synced, Frame::Standby, Frame::Handover, Frame::Poll { number }, Frame::PollReply { number }] {
            round_trip(frame)?;
        }
        let known = flag.then_some(ClockDifference { ahead: Span(number as i64), within: Span(i64::from(row)) });
        round_trip(Frame::ClockRequest { sent: Time(number), known })?;
        round_trip(Frame::ClockReply { sent: Time(number), clock: Time(u64::from(row)) })?;
        round_trip(Frame::HandoverReply { done: flag, epoch: Epoch(number), text: &text })?;
        let shortfall = Shortfall { span: Span(number as i64), dropped: number, waited: row.into(), rate: !number };
        round_trip(Frame::Shortfall(shortfall))?;
        round_trip(Frame::Received(Received { class: number as u16, latency: [row; LATENCY_COUNTS], latency_nanos: number }))?;
        round_trip(Frame::Memory { instance: &text, picture: text.as_bytes() })?;
        round_trip(Frame::Trouble(Trouble { stream: row, lost: !row, run: row / 2, late: 7, by: Span(number as i64) }))?;
        round_trip(Frame::TakeOver { epoch: Epoch(number) })?;
        round_trip(Frame::Heartbeats { nonce: u128::from(number).to_le_bytes() })?;
        round_trip(Frame::StatusRequest { first_stream: row, rows: row })?;
        round_trip(Frame::ClientsRequest { after: &text })?;
        round_trip(Frame::Clients { next: &text, rows: text.as_bytes() })?;
        round_trip(Frame::DropClient { client: &text, ends: flag })?;
        round_trip(Frame::DropReply { found: flag })?;
        let farewell = [reason, 0, 0];
        let reason = Farewell::decode(&mut Reader(&farewell)).unwrap().reason;
        round_trip(Frame::Farewell(Farewell { reason, text: &text }))?;
    }

    #[test]
    fn messages_and_marks_round_trip(
        batch in prop::collection::vec((any::<u32>(), any::<u8>(), any::<u64>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)), 1..8),
    ) {
        let message = |item: &'_ (u32, u8, u64, u64, Vec<u8>)| (item.0, item.1, item.2, item.3);
        for kind in [MessageKind::Publish, MessageKind::Deliver, MessageKind::Replicate, MessageKind::Forward] {
            let mut outbox = Outbox::default();
            for (stream, flags, seq, created, payload) in &batch {
                let sent = Message { stream: *stream, flags: MessageFlags(*flags), seq: *seq, created: Time(*created), payload };
                outbox.push_message(kind, &sent);
            }
            let bytes = outbox.unsent();
            let Ok(Decoded::Frame(frame, used)) = decode(bytes) else { panic!("must decode") };
            prop_assert_eq!(used, bytes.len());
            let (Frame::Publish(run) | Frame::Deliver(run) | Frame::Replicate(run) | Frame::Forward(run)) = frame else { panic!("must be messages") };
            let seen: Vec<_> = run.map(|m| (m.stream, m.flags.0, m.seq, m.created.0, m.payload.to_vec())).collect();
            prop_assert_eq!(seen.iter().map(message).collect::<Vec<_>>(), batch.iter().map(message).collect::<Vec<_>>());
            prop_assert_eq!(&seen, &batch);
            round_trip(frame)?;
        }
        let mut outbox = Outbox::default();
        batch.iter().for_each(|item| outbox.push_mark(MarkKind::Confirm, Mark { stream: item.0, seq: item.2 }));
        let Ok(Decoded::Frame(Frame::Confirm(marks), _)) = decode(outbox.unsent()) else { panic!("must be marks") };
        prop_assert!(marks.map(|m| (m.stream, m.seq)).eq(batch.iter().map(|item| (item.0, item.2))));
        round_trip(Frame::Prune(marks))?;
    }

    #[test]
    fn snapshots_round_trip(counters in prop::collection::vec(any::<u64>(), Counters::NAMES.len()), latency in prop::array::uniform3(any::<i64>()), contract in any_contract(), name in "\\PC{0,30}", reign in any_reign(), standing in any_standing()) {
        let counters = Counters::from_array(counters.try_into().unwrap());
        let Counters { arrived, late, .. } = counters;
        round_trip(Frame::NodeStatus(NodeStatus {
            name: &name, standing, reign, node: reign.node, protected: true, started: Time(1), taken: Time(2), streams: 3, operators: 7, clients: 4, relayed: 8, relayed_names: &name, silent: 9,
            utilisation_ppm: 5, queued: 6, counters, latency: latency.map(Span), known: arrived, store: StoreState::GivenUp, store_reason: &name,
        }))?;
        let row = StreamStatus {
            stream: 1, topic: &name, publisher: &name, contract, strictest: contract, needs: &name, replicate: true, state: TopicState::AtRisk, concern: Concern::ALL[name.len() % Concern::ALL.len()], subscribers: 2,
            arrived, lost: late, longest_run: 4, late, subscribers_lost: !late, subscribers_longest_run: 9, subscribers_late: arrived, latency: [Span(1), Span(2)], silence: Span(3),
        };
        let mut rows = Vec::new();
        StreamStatuses::append(&mut rows, &row);
        StreamStatuses::append(&mut rows, &row);
        let run = StreamStatuses::of(&rows);
        prop_assert!(run.eq([row, row]));
        round_trip(Frame::StreamStatuses(run))?;
    }

    #[test]
    fn loads_round_trip(counts in prop::array::uniform10(any::<u64>()), spans in prop::array::uniform2(0..=i64::MAX), level in any::<u8>(), number in any::<u32>(), name in "\\PC{0,60}") {
        let counters = OperatorCounters::from_array(counts);
        let dropped = counters.dropped;
        let [busy, worst] = spans.map(Span);
        let operator = OperatorStatus { name: &name, level, counters, busy, worst };
        let level = LevelStatus { level, operators: number, busy, worst, refused: dropped, overdue: number };
        let (mut operators, mut levels) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            OperatorStatuses::append(&mut operators, &operator);
            LevelStatuses::append(&mut levels, &level);
        }
        prop_assert!(OperatorStatuses::of(&operators).eq([operator, operator]));
        prop_assert!(LevelStatuses::of(&levels).eq([level, level]));
        round_trip(Frame::OperatorStatuses(OperatorStatuses::of(&operators)))?;
        round_trip(Frame::LevelStatuses(LevelStatuses::of(&levels)))?;
    }
}

fn raw(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn a_length_field_of_a_gibibyte_is_refused_from_the_head_alone() {
    let mut bytes = vec![MessageKind::Publish as u8, 0, 0, 0];
    bytes.extend_from_slice(&(1_u32 << 30).to_le_bytes());
    assert_eq!(decode(&bytes), Err(WireError::FrameTooLong(1 << 30)));
}

#[test]
fn a_stranger_and_another_version_are_told_apart() {
    assert_eq!(decode(&raw(kind::HELLO, b"GET / HTTP/1.1\r\n")), Err(WireError::NotVerge));
    let mut hello = Vec::new();
    hello.extend_from_slice(&MAGIC);
    hello.extend_from_slice(&(PROTOCOL_VERSION + 1).to_le_bytes());
    let refused = decode(&raw(kind::HELLO, &hello)).unwrap_err();
    assert_eq!(refused, WireError::Version(PROTOCOL_VERSION + 1));
    assert!(refused.to_string().contains("same release"));
}

#[test]
fn damaged_bodies_are_refused_with_the_reason() {
    let mut announced = vec![0; size_of::<SessionHead>()];
    announced.extend_from_slice(&[255, 255]);
    assert_eq!(
        decode(&raw(kind::SESSION, &announced)),
        Err(WireError::TextTooLong { length: 65535, limit: NAME_BYTES_MAX })
    );
    assert_eq!(decode(&raw(kind::POLL, &[1, 2])), Err(WireError::Truncated));
    assert_eq!(decode(&raw(kind::JOIN, &[1, 2])), Err(WireError::TrailingBytes(2)));
    assert_eq!(decode(&raw(kind::FAREWELL, &[0, 1, 0, 0xff])), Err(WireError::NotText));
    assert_eq!(
        decode(&raw(kind::FAREWELL, &[99, 0, 0])),
        Err(WireError::BadValue { field: "reason", value: 99 })
    );
    assert_eq!(decode(&raw(0x7f, &[])), Err(WireError::UnknownKind(0x7f)));
    assert_eq!(decode(&raw(MarkKind::Prune as u8, &[0; 13])), Err(WireError::Truncated));
    for kind in [kind::OPERATOR_STATUSES, kind::LEVEL_STATUSES] {
        assert_eq!(decode(&raw(kind, &[0; 20])), Err(WireError::Truncated));
    }
    let half_a_message = [0, 0, 0, 0, 0, 9, 0, 0];
    assert_eq!(decode(&raw(MessageKind::Publish as u8, &half_a_message)), Err(WireError::Truncated));
}

#[test]
fn texts_above_their_limit_are_cut_at_a_character() {
    let long = "é".repeat(TEXT_BYTES_MAX);
    let mut bytes = Vec::new();
    Frame::Subscribed { number: 1, admitted: false, reigns: true, text: &long }.encode(&mut bytes);
    let Ok(Decoded::Frame(Frame::Subscribed { text, .. }, _)) = decode(&bytes) else { panic!("must decode") };
    assert_eq!(text.len(), TEXT_BYTES_MAX);
}

/// Any bytes either decode to frames that encode to the same again, or are refused; nothing panics, and no more is read
/// than was given. The same body is what the fuzz target `decode` runs for longer.
fn check_bytes(input: &[u8]) -> Result<(), TestCaseError> {
    let mut rest = input;
    while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
        prop_assert!(used <= rest.len() && used >= FRAME_HEAD_BYTES);
        let mut again = Vec::new();
        frame.encode(&mut again);
        prop_assert_eq!(decode(&again), Ok(Decoded::Frame(frame, again.len())));
        rest = &rest[used..];
    }
    Ok(())
}

const OPERATOR: OperatorStatus<'static> = OperatorStatus {
    name: "rms[7]",
    level: 1,
    counters: OperatorCounters {
        runs: 10,
        results: 9,
        shed_absolute: 1,
        shed_relative: 2,
        marked: 3,
        replaced: 4,
        dropped: 5,
        faults: 1,
        runaways: 1,
        traps: 0,
    },
    busy: Span::millis(3),
    worst: Span::millis(1),
};

/// Frames of every kind, one after the other.
fn sample() -> Vec<u8> {
    let contract = Contract::every(Span::millis(50)).retain(2);
    let hello = Hello {
        standing: Standing::Primary,
        prefers_to_reign: true,
        reign: Reign::default(),
        node: NodeId(1),
        incarnation: 2,
        name: "a",
        user: "line-4",
        password: Secret("open sesame"),
        knows: Knows::NOTHING,
    };
    let register = Register { stream: 1, incarnation: 5, contract: Some(contract), topic: "t/1" };
    let announce = Announce {
        stream: 1,
        incarnation: 2,
        next_seq: 3,
        contract,
        gapless: true,
        class: 4,
        topic: "t/1",
        publisher: "p",
        origin: "",
        crossing: contract::Crossing::NONE,
    };
    let session =
        Frame::Session { incarnation: 1, present: true, needs: Needs::NONE, client: "s", filter: "#" };
    let mut outbox = Outbox::default();
    for frame in [Frame::Hello(hello), Frame::Register(register), Frame::Announce(announce), session] {
        outbox.push(&frame);
    }
    let message =
        Message { stream: 1, flags: MessageFlags::RESEND, seq: 7, created: Time(9), payload: b"payload" };
    outbox.push_message(MessageKind::Publish, &message);
    outbox.push_message(MessageKind::Publish, &message);
    outbox.push_mark(MarkKind::Prune, Mark { stream: 1, seq: 7 });
    let (mut operators, mut levels) = (Vec::new(), Vec::new());
    OperatorStatuses::append(&mut operators, &OPERATOR);
    outbox.push(&Frame::OperatorStatuses(OperatorStatuses::of(&operators)));
    LevelStatuses::append(&mut levels, &LevelStatus { level: 1, operators: 2, ..LevelStatus::default() });
    outbox.push(&Frame::LevelStatuses(LevelStatuses::of(&levels)));
    outbox.push(&Frame::Handover);
    outbox.unsent().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn fuzz_decoding_any_bytes(input in prop::collection::vec(any::<u8>(), 0..200)) {
        check_bytes(&input)?;
    }

    #[test]
    fn fuzz_decoding_any_body(kind in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        check_bytes(&raw(kind, &body))?;
    }

    #[test]
    fn fuzz_decoding_damaged_frames(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let mut bytes = sample();
        for (index, value) in damage {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        check_bytes(&bytes)?;
    }
}
