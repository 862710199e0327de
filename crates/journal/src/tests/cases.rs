//! One thing at a time.

use super::drive::Drive;
use crate::{
    Budget, Cursor, Durability, Event, FileName, Files, Forecast, History, Journal, LimitError, NewItem,
    NotKept, OpenError, Position, Room, Settings, SettingsError, State, TopicId, TopicSettings, bytes_for,
};
use contract::{Span, Time};

const NOW: Time = Time(1_000_000_000_000);
const ALL: Budget = Budget { items: usize::MAX, bytes: usize::MAX };

fn settings() -> Settings {
    Settings {
        segment_bytes: 8_192,
        bytes_max: 1 << 20,
        payload_bytes_max: 4_096,
        identity_bytes_max: 64,
        items_per_mark: 8,
        durability: Durability::Each,
        ..Settings::default()
    }
}

fn open(drive: &Drive, settings: Settings) -> Journal<Drive> {
    Journal::open(drive.clone(), settings).unwrap()
}

fn put(journal: &mut Journal<Drive>, topic: TopicId, sequence: u64) -> Result<Position, NotKept> {
    put_at(journal, topic, sequence, NOW)
}

fn put_at(
    journal: &mut Journal<Drive>,
    topic: TopicId,
    sequence: u64,
    now: Time,
) -> Result<Position, NotKept> {
    let payload = [7; 64];
    let expires = Time::NEVER;
    journal.append(
        now,
        &NewItem { topic, identity: b"me", sequence, created: now, expires, flags: 0, payload: &payload },
    )
}

fn read(journal: &mut Journal<Drive>, topic: TopicId, now: Time) -> Vec<u64> {
    read_on(journal, Cursor::after(topic, Position::BEGIN), now)
}

fn read_on(journal: &mut Journal<Drive>, mut cursor: Cursor, now: Time) -> Vec<u64> {
    let (mut batch, mut found) = (journal.read(&mut cursor, now, ALL), Vec::new());
    while let Some(item) = batch.next_item() {
        found.push(item.sequence);
    }
    assert!(batch.is_at_end());
    found
}

fn sync(journal: &mut Journal<Drive>, now: Time) {
    while let Some(order) = journal.poll_sync(now) {
        let done = journal.files().carry_out(&order);
        journal.handle_synced(order.ticket, done.map_err(|error| error.to_string()));
    }
}

fn events(journal: &mut Journal<Drive>) -> Vec<Event> {
    std::iter::from_fn(|| journal.poll_event()).collect()
}

#[test]
fn what_it_takes_of_the_disk_can_be_foretold() {
    for (topics, payload_bytes, items_per_mark) in [(1, 64, 128), (7, 64, 8), (40, 300, 1), (3, 2_000, 128)] {
        for topics_per_segment_max in [3, 1_024] {
            let settings =
                Settings { bytes_max: 1 << 30, items_per_mark, topics_per_segment_max, ..settings() };
            let drive = Drive::new(1 << 30, 1);
            let mut journal = open(&drive, settings.clone());
            let topic = |number: u64| {
                journal.topic(format!("topic/{number:02}").as_bytes(), TopicSettings::default()).unwrap()
            };
            let ids: Vec<TopicId> = (0..topics).map(topic).collect();
            for items in 1..=2_000_u64 {
                let (topic, payload) = (ids[(items % topics) as usize], vec![1; payload_bytes as usize]);
                let (created, expires) = (NOW, Time::NEVER);
                let item = NewItem {
                    topic,
                    identity: b"me",
                    sequence: items,
                    created,
                    expires,
                    flags: 0,
                    payload: &payload,
                };
                journal.append(NOW, &item).unwrap();
                let forecast = Forecast { items, payload_bytes, identity_bytes: 2, topics, name_bytes: 8 };
                let taken: u64 = journal.segments().map(|report| report.bytes).sum();
                assert_eq!(bytes_for(&forecast, &settings), taken, "{forecast:?}");
            }
        }
    }
}

#[test]
fn a_turn_reads_as_much_as_it_may() {
    let mut journal = open(&Drive::new(1 << 20, 1), settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    (0..1_000).for_each(|sequence| assert!(put(&mut journal, topic, sequence).is_ok()));
    let (mut cursor, mut found) = (Cursor::after(topic, Position::BEGIN), Vec::new());
    for turn in 0.. {
        let mut batch = journal.read(&mut cursor, NOW, Budget { items: 7, bytes: 100_000 });
        let before = found.len();
        while let Some(item) = batch.next_item() {
            found.push(item.sequence);
        }
        if batch.is_at_end() {
            break;
        }
        assert_eq!(found.len() - before, 7, "turn {turn}");
    }
    assert_eq!(found, (0..1_000).collect::<Vec<u64>>());
    // Who has little still comes on, one by one.
    let mut cursor = Cursor::after(topic, Position::BEGIN);
    for sequence in 0..100 {
        let mut batch = journal.read(&mut cursor, NOW, Budget { items: 9, bytes: 1 });
        assert_eq!(batch.next_item().map(|item| item.sequence), Some(sequence));
        assert_eq!(batch.next_item(), None);
    }
}

#[test]
fn who_comes_late_gets_what_was_last_or_what_is_young() {
    let mut journal = open(&Drive::new(1 << 20, 1), settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    let other = journal.topic(b"b", TopicSettings::default()).unwrap();
    let at = |sequence: u64| NOW + Span::secs(sequence as i64);
    for sequence in 0..500 {
        put_at(&mut journal, topic, sequence, at(sequence)).unwrap();
        put_at(&mut journal, other, sequence, at(sequence)).unwrap();
    }
    for items in [0, 1, 7, 8, 9, 100, 499, 500, 501] {
        let cursor = journal.history(topic, History::Last(items), at(500));
        let first = 500_u64.saturating_sub(items);
        assert_eq!(read_on(&mut journal, cursor, at(500)), (first..500).collect::<Vec<u64>>());
    }
    let cursor = journal.history(topic, History::Younger(Span::secs(100)), at(500));
    assert_eq!(read_on(&mut journal, cursor, at(500)), (400..500).collect::<Vec<u64>>());
    let cursor = journal.history(topic, History::Younger(Span::secs(10)), at(900));
    assert_eq!(read_on(&mut journal, cursor, at(900)), [0_u64; 0]);
}

#[test]
fn the_least_critical_make_room_first() {
    for (room, kept) in [(Room::OldestFirst, 0), (Room::LeastCriticalFirst, 100)] {
        let settings = Settings { bytes_max: (64 << 10) + 10 * 8_192, room, ..settings() };
        let mut journal = open(&Drive::new(1 << 20, 1), settings);
        let critical = TopicSettings { priority: 0, ..TopicSettings::default() };
        let (critical, other) =
            (journal.topic(b"a", critical).unwrap(), journal.topic(b"b", TopicSettings::default()).unwrap());
        (0..100).for_each(|sequence| assert!(put(&mut journal, critical, sequence).is_ok()));
        (0..2_000).for_each(|sequence| assert!(put(&mut journal, other, sequence).is_ok()));
        let found = read(&mut journal, critical, NOW).len() as u64;
        let counters = journal.counters(critical).unwrap();
        assert!(found >= kept, "{found} of the critical are kept with {room:?}");
        assert_eq!(counters.journal_full + found, 100);
        assert!(journal.counters(other).unwrap().journal_full > 500);
    }
}

#[test]
fn a_topic_gives_up_its_oldest_when_it_has_too_many_bytes() {
    let mut journal = open(&Drive::new(1 << 20, 1), settings());
    let small = TopicSettings { bytes_max: 2_000, ..TopicSettings::default() };
    let (small, other) =
        (journal.topic(b"a", small).unwrap(), journal.topic(b"b", TopicSettings::default()).unwrap());
    for sequence in 0..300 {
        put(&mut journal, small, sequence).unwrap();
        put(&mut journal, other, sequence).unwrap();
        // No more than its limit, and what stands between two marks.
        assert!(journal.topic_bytes(small).unwrap() <= 2_000 + 8 * 118);
    }
    let found = read(&mut journal, small, NOW);
    assert_eq!(found, (300 - found.len() as u64..300).collect::<Vec<u64>>());
    assert_eq!(journal.counters(small).unwrap().topic_full, 300 - found.len() as u64);
    assert_eq!(read(&mut journal, other, NOW).len(), 300);
}

#[test]
fn what_is_kept_long_does_not_hold_back_what_is_not() {
    let drive = Drive::new(1 << 20, 1);
    let mut journal = open(&drive, settings());
    let short = TopicSettings { keep: Span::secs(10), ..TopicSettings::default() };
    let (long, short) =
        (journal.topic(b"a", TopicSettings::default()).unwrap(), journal.topic(b"b", short).unwrap());
    let mut positions = Vec::new();
    for sequence in 0..2_000 {
        if sequence % 20 == 0 {
            positions.push(put(&mut journal, long, sequence).unwrap());
        }
        put(&mut journal, short, sequence).unwrap();
    }
    let (before, later) = (journal.used_bytes(), NOW + Span::secs(11));
    // Who is in the middle of reading goes on, wherever its items go.
    let mut cursor = Cursor::after(long, Position::BEGIN);
    assert_eq!(journal.read(&mut cursor, NOW, ALL).next_item().map(|item| item.sequence), Some(0));
    for step in 0..1_000 {
        let now = later + Span::millis(step * 10);
        journal.maintain(now, 4_096);
        sync(&mut journal, now);
    }
    assert!(journal.used_bytes() < before / 3, "{before} bytes before, {} after", journal.used_bytes());
    let expected: Vec<u64> = (0..2_000).step_by(20).collect();
    assert_eq!(read_on(&mut journal, cursor, later), expected[1..]);
    assert_eq!(read_on(&mut journal, Cursor::after(long, positions[50]), later), expected[51..]);
    assert_eq!(journal.counters(short).unwrap().expired, 2_000 - read(&mut journal, short, NOW).len() as u64);
    drive.disk.borrow_mut().crash(&mut fastrand::Rng::with_seed(3));
    assert_eq!(read(&mut open(&drive, settings()), long, later), expected);
}

#[test]
fn it_comes_back_when_the_disk_has_room_again() {
    let drive = Drive::new(1 << 20, 1);
    let mut journal = open(&drive, settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    put(&mut journal, topic, 0).unwrap();
    drive.disk.borrow_mut().resize(0);
    let refused =
        (1..500).filter(|sequence| put(&mut journal, topic, *sequence) == Err(NotKept::Full)).count() as u64;
    assert!(refused > 400);
    assert_eq!(journal.counters(topic).unwrap().not_kept.full, refused);
    assert_eq!(events(&mut journal), [Event::State(State::Full)]);
    drive.disk.borrow_mut().resize(1 << 20);
    assert_eq!(put(&mut journal, topic, 500), Err(NotKept::Full), "it is not tried each time");
    let later = NOW + Span::secs(1);
    put_at(&mut journal, topic, 501, later).unwrap();
    assert_eq!(events(&mut journal), [Event::State(State::Healthy)]);
    assert_eq!(read(&mut journal, topic, NOW).last(), Some(&501));
}

#[test]
fn a_write_that_fails_ends_the_segment_and_nothing_else() {
    let drive = Drive::new(1 << 20, 1);
    let mut journal = open(&drive, settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    put(&mut journal, topic, 0).unwrap();
    drive.fails.set(true);
    assert_eq!(put(&mut journal, topic, 1), Err(NotKept::Failed));
    drive.fails.set(false);
    put_at(&mut journal, topic, 2, NOW + Span::secs(1)).unwrap();
    assert_eq!(read(&mut journal, topic, NOW), [0, 2]);
    drop(journal);
    let mut journal = open(&drive, settings());
    assert_eq!(read(&mut journal, topic, NOW), [0, 2]);
}

#[test]
fn a_sync_that_fails_poisons_until_it_is_opened_again() {
    let drive = Drive::new(1 << 20, 1);
    let mut journal = open(&drive, settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    let position = put(&mut journal, topic, 0).unwrap();
    drive.disk.borrow_mut().refuse_syncs(true);
    sync(&mut journal, NOW);
    assert!(matches!(journal.state(), State::Poisoned(_)) && journal.durable() < position);
    assert_eq!(put(&mut journal, topic, 1), Err(NotKept::Poisoned));
    assert_eq!(read(&mut journal, topic, NOW), [0]);
    drive.disk.borrow_mut().refuse_syncs(false);
    sync(&mut journal, NOW);
    assert!(matches!(journal.state(), State::Poisoned(_)));
    drop(journal);
    let mut journal = open(&drive, settings());
    put(&mut journal, topic, 1).unwrap();
    assert_eq!(read(&mut journal, topic, NOW), [0, 1]);
}

#[test]
fn a_file_of_another_version_is_refused_and_left_as_it_is() {
    let drive = Drive::new(1 << 20, 1);
    let mut journal = open(&drive, settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    (0..300).for_each(|sequence| assert!(put(&mut journal, topic, sequence).is_ok()));
    drop(journal);
    let file = FileName::Segment { id: 1, generation: 0 };
    drive.disk.borrow_mut().write_at(&file.to_string(), 8, &[9, 0]).unwrap();
    let files = || drive.clone().list().unwrap();
    let before = files();
    let refused = Journal::open(drive.clone(), settings()).err().unwrap();
    assert_eq!(refused, OpenError::Version { file, version: 9 });
    assert!(refused.to_string().starts_with("segment-0000000001.0 has version 9 and this program reads 1"));
    assert_eq!(files(), before);
}

#[test]
fn damage_is_told_with_its_place_and_ends_one_segment_only() {
    let drive = Drive::new(1 << 20, 1);
    let mut journal = open(&drive, settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    (0..30).for_each(|sequence| assert!(put(&mut journal, topic, sequence).is_ok()));
    drop(journal);
    let file = FileName::Segment { id: 0, generation: 0 };
    drive.disk.borrow_mut().damage(&file.to_string(), 2, &mut fastrand::Rng::with_seed(1)).unwrap();
    let mut journal = open(&drive, settings());
    let found = read(&mut journal, topic, NOW);
    assert_eq!(found, (0..found.len() as u64).collect::<Vec<u64>>());
    let told = events(&mut journal);
    let [Event::Damage(damage)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(damage.file, file);
    assert_eq!(
        damage.at,
        64 + 29 + 118 * found.len() as u64,
        "behind the head, the topic's name, and the items that are left"
    );
    assert_eq!(damage.bytes, 118 * (30 - found.len() as u64));
    put(&mut journal, topic, 30).unwrap();
    assert_eq!(read(&mut journal, topic, NOW).last(), Some(&30));
}

#[test]
fn positions_stay_and_never_go_back() {
    let drive = Drive::new(1 << 20, 1);
    let mut journal = open(&drive, settings());
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    let receiver = journal.receiver(b"north").unwrap();
    // More than one file of notes holds.
    for number in 1..5_000 {
        journal.hand_on(receiver, topic, Position(number)).unwrap();
        journal.hand_on(receiver, topic, Position(number / 2)).unwrap();
        assert_eq!(journal.handed_on(receiver, topic), Position(number));
        sync(&mut journal, NOW);
    }
    let notes = |drive: &Drive| drive.clone().list().unwrap().len();
    assert_eq!(notes(&drive), 1);
    drive.disk.borrow_mut().crash(&mut fastrand::Rng::with_seed(1));
    let mut journal = open(&drive, settings());
    assert_eq!(journal.receiver(b"north"), Ok(receiver));
    assert_eq!(journal.handed_on(receiver, topic), Position(4_999));
    assert!(put(&mut journal, topic, 0).unwrap() > Position(4_999));
    journal.forget_receiver(receiver);
    drop(journal);
    let mut journal = open(&drive, settings());
    assert_eq!(journal.receivers().count(), 0);
    assert_ne!(journal.receiver(b"south"), Ok(receiver), "numbers are not given twice");
}

#[test]
fn everything_has_a_limit() {
    let limits = Settings { topics_max: 1, receivers_max: 1, positions_max: 1, ..settings() };
    let mut journal = open(&Drive::new(1 << 20, 1), limits);
    let topic = journal.topic(b"a", TopicSettings::default()).unwrap();
    assert_eq!(journal.topic(b"b", TopicSettings::default()), Err(LimitError::Topics));
    let receiver = journal.receiver(b"a").unwrap();
    assert_eq!(journal.receiver(b"b"), Err(LimitError::Receivers));
    journal.hand_on(receiver, topic, Position(1)).unwrap();
    assert_eq!(journal.hand_on(receiver, TopicId(9), Position(1)), Err(LimitError::Positions));
    let (created, expires) = (NOW, Time::NEVER);
    let item =
        NewItem { topic, identity: b"", sequence: 0, created, expires, flags: 0, payload: &[0; 5_000] };
    assert_eq!(journal.append(NOW, &item), Err(NotKept::TooLong));
    assert_eq!(journal.append(NOW, &NewItem { payload: b"", expires: NOW, ..item }), Err(NotKept::Expired));
    assert_eq!(journal.append(NOW, &NewItem { topic: TopicId(9), ..item }), Err(NotKept::NoTopic));
    assert!(!journal.forget_topic(topic), "a receiver has a position");
    journal.forget_receiver(receiver);
    assert!(journal.forget_topic(topic));
    let short = Settings { segment_bytes: 4_096, ..settings() };
    assert!(matches!(short.check(), Err(SettingsError::ItemBytes { .. })));
}

#[test]
fn checksums_are_those_of_the_standard() {
    // RFC 3720, appendix B.4.
    assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c::crc32c(&[0xff; 32]), 0x62a8_ab43);
}
