use super::*;
use rustix::io::dup;

fn ring(tuples: usize) -> (RingReader, RingWriter) {
    let reader = RingReader::with(3, 20, tuples).unwrap();
    let writer = RingWriter::map(dup(reader.file()).unwrap()).unwrap();
    (reader, writer)
}

fn drain(reader: &mut RingReader) -> Result<Vec<(u16, u64, Vec<u8>)>, RingProblem> {
    let mut taken = Vec::new();
    reader.drain(|key, stamp, value| taken.push((key.0, stamp.0, value.to_vec())))?;
    Ok(taken)
}

#[test]
fn tuples_come_out_as_they_went_in_and_no_more_than_the_quota() {
    let (mut reader, mut writer) = ring(3);
    for round in 0..50_u64 {
        let value = vec![round as u8; (round % 21) as usize];
        for key in 0..3 {
            writer.push(KeyId(key), Time(round), &value).unwrap();
        }
        assert_eq!(writer.push(KeyId(0), Time(round), &value), Err(Full(3)));
        let taken = drain(&mut reader).unwrap();
        assert_eq!(taken, [0, 1, 2].map(|key| (key, round, value.clone())));
        assert_eq!(drain(&mut reader), Ok(Vec::new()));
    }
}

#[test]
fn there_is_room_again_only_when_all_has_been_taken() {
    let (mut reader, mut writer) = ring(2);
    writer.push(KeyId(0), Time(1), b"a").unwrap();
    writer.push(KeyId(0), Time(2), b"b").unwrap();
    let mut refused = 0;
    reader.drain(|_, _, _| refused += u32::from(writer.push(KeyId(0), Time(3), b"c").is_err())).unwrap();
    assert_eq!(refused, 2);
    assert!(writer.push(KeyId(0), Time(3), b"c").is_ok());
}

#[test]
fn a_tuple_that_was_not_written_to_its_end_is_not_there() {
    let (mut reader, writer) = ring(2);
    let words = writer.memory.words();
    let slot = writer.form.slot(words, 0);
    slot[0].store(1 | 20 << 16, Relaxed);
    slot[2].store(u64::MAX, Relaxed);
    drop(writer);
    assert_eq!(drain(&mut reader), Ok(Vec::new()));
}

#[test]
fn wrong_rings_are_reported() {
    let (mut reader, writer) = ring(2);
    let words = writer.memory.words();
    for (written, waiting) in [(3, 3), (u64::MAX, u64::MAX)] {
        words[field::WRITTEN].store(written, Relaxed);
        assert_eq!(drain(&mut reader), Err(RingProblem::TooMany { waiting, max: 2 }));
    }
    words[field::WRITTEN].store(1, Relaxed);
    let slot = writer.form.slot(words, 0);
    slot[0].store(3, Relaxed);
    assert_eq!(drain(&mut reader), Err(RingProblem::UnknownKey { key: KeyId(3), keys: 3 }));
    slot[0].store(21 << 16, Relaxed);
    assert_eq!(drain(&mut reader), Err(RingProblem::ValueTooLong { bytes: 21, max: 20 }));
}

/// Every word of the ring gets anything, again and again; the reader gives tuples within its limits, or a problem.
#[test]
fn nothing_that_a_client_scribbles_harms_its_reader() {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut problems, mut tuples) = (0_u64, 0_u64);
    for _ in 0..200 {
        let tuples_max = random.usize(1..20);
        let (mut reader, writer) = ring(tuples_max);
        let words = writer.memory.words();
        for _ in 0..200 {
            for _ in 0..random.usize(0..40) {
                // Small numbers are often almost right.
                let word = match random.u8(..3) {
                    0 => random.u64(..),
                    1 => random.u64(..64),
                    _ => random.u64(..24) << 16 | random.u64(..4),
                };
                words[random.usize(..words.len())].store(word, Relaxed);
            }
            if random.bool() {
                let waiting = random.u64(..=tuples_max as u64 + 1);
                words[field::WRITTEN].store(reader.read.wrapping_add(waiting), Relaxed);
            }
            let mut taken = 0;
            let drained = reader.drain(|key, _, value| {
                assert!(key.0 < 3 && value.len() <= 20);
                taken += 1;
            });
            assert!(taken <= tuples_max);
            problems += u64::from(drained.is_err());
            tuples += taken as u64;
        }
    }
    assert!(problems > 1_000 && tuples > 1_000, "{problems} problems, {tuples} tuples");
}

/// The same while another thread scribbles all the time.
#[test]
fn a_client_that_scribbles_while_it_is_read_harms_nobody() {
    let (mut reader, writer) = ring(16);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(5);
            let words = writer.memory.words();
            while !stop.load(Relaxed) {
                let at = random.usize(HEADER_WORDS..words.len());
                words[at].store(random.u64(..22) << 16 | random.u64(..4), Relaxed);
                words[field::WRITTEN]
                    .store(words[field::READ].load(Relaxed).wrapping_add(random.u64(..=17)), Relaxed);
            }
        });
        let (mut drained, mut problems) = (0_u64, 0_u64);
        while drained < 2_000 || problems < 2_000 {
            match reader.drain(|key, _, value| assert!(key.0 < 3 && value.len() <= 20)) {
                Ok(_) => drained += 1,
                Err(_) => problems += 1,
            }
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn what_is_no_ring_is_not_taken_for_one() {
    let (file, _memory) = Memory::create("test", 4).unwrap();
    assert_eq!(RingWriter::map(&file).unwrap_err(), MemoryError::Foreign("it is no ring"));
    let (reader, writer) = ring(4);
    writer.memory.words()[field::TUPLES_MAX].store(5, Relaxed);
    assert!(RingWriter::map(reader.file()).is_err(), "the size does not fit");
    assert!(RingReader::with(1, 16, 0).is_err() && RingReader::with(1, 5_000, 1).is_err());
}
