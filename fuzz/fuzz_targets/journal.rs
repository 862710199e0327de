//! Any bytes as the files of a journal. It opens or says why not, and then it keeps and gives what it is given.
#![no_main]

use contract::{Span, Time};
use journal::{
    Budget, Cursor, Durability, FileError, FileName, Files, Journal, NewItem, Position, Settings, SyncOrder,
    TopicSettings,
};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

struct Memory(BTreeMap<FileName, Vec<u8>>);

impl Files for Memory {
    fn list(&mut self) -> Result<Vec<(FileName, u64)>, FileError> {
        Ok(self.0.iter().map(|(name, bytes)| (*name, bytes.len() as u64)).collect())
    }

    fn create(&mut self, name: FileName, bytes: u64) -> Result<(), FileError> {
        let length = usize::try_from(bytes).map_err(|_| FileError::Full)?;
        match self.0.insert(name, vec![0; length]) {
            None => Ok(()),
            Some(_) => Err(FileError::Failed("it is there".to_owned())),
        }
    }

    fn write(&mut self, name: FileName, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        let file = self.0.get_mut(&name).ok_or(FileError::Full)?;
        let at = usize::try_from(at).map_err(|_| FileError::Full)?;
        file.get_mut(at..)
            .and_then(|rest| rest.get_mut(..bytes.len()))
            .ok_or(FileError::Full)?
            .copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, name: FileName, at: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let file = self.0.get(&name).ok_or(FileError::Full)?;
        let rest = usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn remove(&mut self, name: FileName) -> Result<(), FileError> {
        self.0.remove(&name);
        Ok(())
    }

    fn finish(&mut self, _name: FileName) {}

    fn sync(&mut self, _order: &SyncOrder) -> Result<(), FileError> {
        Ok(())
    }
}

fuzz_target!(|files: Vec<(bool, u8, u8, Vec<u8>)>| {
    let name = |notes, id: u8, generation: u8| match notes {
        true => FileName::Notes(id.into()),
        false => FileName::Segment { id: id.into(), generation: generation.into() },
    };
    let files =
        files.into_iter().map(|(notes, id, generation, bytes)| (name(notes, id % 8, generation % 2), bytes));
    let settings = Settings {
        segment_bytes: 16 << 10,
        bytes_max: 256 << 10,
        payload_bytes_max: 1_024,
        durability: Durability::Os,
        ..Settings::default()
    };
    let Ok(mut journal) = Journal::open(Memory(files.collect()), settings) else { return };
    let now = Time(1_000_000_000_000);
    let Ok(topic) = journal.topic(b"t", TopicSettings { keep: Span::secs(60), ..TopicSettings::default() })
    else {
        return;
    };
    let before = journal.last();
    let mut kept = Vec::new();
    for sequence in 0..20 {
        let item = NewItem {
            topic,
            identity: b"i",
            sequence,
            created: now,
            expires: Time::NEVER,
            flags: 0,
            payload: b"p",
        };
        kept.extend(journal.append(now, &item).map(|position: Position| (position, sequence)));
        journal.maintain(now, 4_096);
    }
    let mut cursor = Cursor::after(topic, before);
    let mut batch = journal.read(&mut cursor, now, Budget { items: 1_000, bytes: 1 << 20 });
    let mut found = Vec::new();
    while let Some(item) = batch.next_item() {
        found.push((item.position, item.sequence));
    }
    // Room may have been made for the last ones.
    assert!(kept.ends_with(&found), "{kept:?} {found:?}");
});
