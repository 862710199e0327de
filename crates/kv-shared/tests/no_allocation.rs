//! Reading, writing, draining and publishing allocate nothing, whatever comes of them.

mod common;

use common::{config, setup};
use contract::{Span, Time};
use kv::{KeyId, Node, Publish};
use kv_shared::{RingReader, RingWriter, State, StoreWriter, clock};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn nothing_is_allocated_once_all_is_there() {
    let setup = setup(config());
    let mut writer = StoreWriter::create(&setup, Node(0)).unwrap();
    writer.set_state(State::Running);
    let store = writer.reader().unwrap();
    let mut reader = RingReader::create(&setup, 10).unwrap();
    let mut ring = RingWriter::map(reader.file()).unwrap();
    let mut buffer = [0; 16];
    let (mut found, mut refused, mut drained) = (0, 0, 0);
    let begun = counting::allocations();
    for round in 1..2_000_u64 {
        let now = clock::now();
        writer.beat(now);
        writer.begun(round);
        for key in (0..6).map(KeyId) {
            let publishing = now + Span::millis(30);
            match store.check_write(key, &1.5_f64.to_le_bytes(), publishing, now) {
                Ok(()) => refused += u32::from(ring.push(key, publishing, &[0; 8]).is_err()),
                Err(_) => refused += 1,
            }
            found += u32::from(store.read(key, now - Span::millis(1), now, &mut buffer).is_ok());
            found += u32::from(store.read(key, Time::ZERO, now, &mut buffer[..3]).is_ok());
        }
        if round % 2 == 0 {
            drained += reader.drain(|key, _, value| writer.publish(key, now, value)).unwrap();
        }
        writer.finished(round);
        if round % 500 == 0 {
            writer.clear();
        }
    }
    assert_eq!(counting::allocations() - begun, 0);
    assert!(found > 100 && refused > 1_000 && drained > 1_000, "{found} {refused} {drained}");
}
