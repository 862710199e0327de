//! An invented disk as a journal's files.

use crate::{FileError, FileName, Files, SyncOrder};
use simulation::Latency;
use simulation::disk::{Disk, DiskError, Settings};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A disk that is there after the journal is gone.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    pub(super) disk: Rc<RefCell<Disk>>,
    /// Whether writes fail.
    pub(super) fails: Rc<Cell<bool>>,
}

impl Drive {
    pub(super) fn new(bytes_max: u64, seed: u64) -> Drive {
        let sync = Latency::fixed(contract::Span::millis(1));
        let disk = Disk::new(Settings { bytes_max, sync }, seed);
        Drive { disk: Rc::new(RefCell::new(disk)), fails: Rc::new(Cell::new(false)) }
    }

    /// Carries an order out.
    pub(super) fn carry_out(&self, order: &SyncOrder) -> Result<(), FileError> {
        let mut disk = self.disk.borrow_mut();
        for file in &order.files {
            match disk.sync(&file.to_string()) {
                Ok(_) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if order.names {
            disk.sync_names().map_err(failed)?;
        }
        Ok(())
    }
}

fn failed(error: DiskError) -> FileError {
    match error {
        DiskError::Full { .. } => FileError::Full,
        other => FileError::Failed(other.to_string()),
    }
}

impl Files for Drive {
    fn list(&mut self) -> Result<Vec<(FileName, u64)>, FileError> {
        let disk = self.disk.borrow();
        let names = disk.list().filter_map(|name| Some((name.parse().ok()?, disk.len(name).ok()?)));
        Ok(names.collect())
    }

    fn create(&mut self, name: FileName, bytes: u64) -> Result<(), FileError> {
        let (mut disk, name) = (self.disk.borrow_mut(), name.to_string());
        disk.create(&name).map_err(failed)?;
        disk.truncate(&name, bytes).map_err(|error| {
            disk.remove(&name).unwrap();
            failed(error)
        })
    }

    fn write(&mut self, name: FileName, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        let (mut disk, name) = (self.disk.borrow_mut(), name.to_string());
        assert!(at + bytes.len() as u64 <= disk.len(&name).unwrap(), "{name}: behind its end");
        if self.fails.get() {
            // Part of it may have been written.
            let _ = disk.write_at(&name, at, &bytes[..bytes.len() / 2]);
            return Err(FileError::Failed("it does not want to".to_owned()));
        }
        disk.write_at(&name, at, bytes).map_err(failed)
    }

    fn read(&self, name: FileName, at: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        self.disk.borrow().read(&name.to_string(), at, buffer).map_err(failed)
    }

    fn remove(&mut self, name: FileName) -> Result<(), FileError> {
        self.disk.borrow_mut().remove(&name.to_string()).map_err(failed)
    }

    fn finish(&mut self, _name: FileName) {}

    fn sync(&mut self, order: &SyncOrder) -> Result<(), FileError> {
        self.carry_out(order)
    }
}
