//! Writes what is on the desk, one transaction at a time, and begins anew where writing has failed.

use super::disk::{Disk, FILE, NEXT_FILE};
use super::{Changes, Desk, NEVER, Shared, StoreDoes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The time from a failure to the next attempt, which doubles up to the longest.
const REST: Duration = Duration::from_secs(2);
const REST_MAX: Duration = Duration::from_secs(15);

pub(super) struct Writer {
    shared: Arc<Shared>,
    commit_every: Duration,
    /// `None`: the store is given up.
    disk: Option<Disk>,
    /// The next commit, or the next attempt.
    next: Instant,
    rest: Duration,
}

impl Writer {
    pub(super) fn new(disk: Disk, shared: Arc<Shared>, commit_every: Duration) -> Writer {
        Writer { shared, commit_every, disk: Some(disk), next: Instant::now(), rest: REST }
    }

    pub(super) fn serve(mut self) {
        loop {
            let desk = self.wait();
            if self.shared.phase() == StoreDoes::Nothing && self.disk.is_some() {
                self.abandon();
            } else if self.disk.is_none() && !desk.ended {
                self.try_again();
            } else {
                self.next = Instant::now() + self.commit_every;
                if let Err(reason) = self.write(&desk) {
                    self.shared.poison(&reason);
                    self.abandon();
                }
            }
            self.shared.waiting_bytes.fetch_sub(desk.bytes, SeqCst);
            self.shared.writing_since.store(NEVER, SeqCst);
            if desk.ended {
                return self.end();
            }
        }
    }

    /// What there is to write, not before the next commit is due.
    fn wait(&self) -> Desk {
        let shared = &self.shared;
        let mut desk = shared.desk();
        loop {
            let given_up = shared.phase() == StoreDoes::Nothing;
            let pause = self.next.saturating_duration_since(Instant::now());
            if desk.ended || given_up && self.disk.is_some() {
                break;
            }
            if self.disk.is_some() && desk.is_empty() {
                desk = shared.laid.wait(desk).unwrap_or_else(PoisonError::into_inner);
            } else if pause.is_zero() {
                break;
            } else {
                desk = shared.laid.wait_timeout(desk, pause).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        shared.writing_since.store(shared.laid_since.swap(NEVER, SeqCst), SeqCst);
        let (upto, ended) = (desk.upto, desk.ended);
        std::mem::replace(&mut *desk, Desk { upto, ended, ..Desk::default() })
    }

    fn write(&mut self, desk: &Desk) -> Result<(), String> {
        self.commit(&desk.changes, desk.stored)?;
        if let Some(aside) = &desk.aside {
            self.put_aside(aside)?;
            self.commit(&desk.later, desk.later_stored)?;
        }
        if desk.complete {
            self.complete()?;
        }
        self.shared.written.store(desk.upto, SeqCst);
        Ok(())
    }

    fn commit(&mut self, changes: &Changes, stored: Option<u64>) -> Result<(), String> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let stored = stored.unwrap_or(disk.stored());
        if changes.is_empty() && stored == disk.stored() {
            return Ok(());
        }
        // Nothing that the library meets on a disk may end the process.
        let committed = catch_unwind(AssertUnwindSafe(|| disk.commit(changes, stored)));
        committed.unwrap_or_else(|_| Err("the store's library gave up".to_owned()))?;
        self.shared.records.store(disk.records(), SeqCst);
        self.shared.bytes.store(disk.bytes(), SeqCst);
        self.shared.stored.store(stored, SeqCst);
        let commit = disk.commits();
        if self.shared.phase() == StoreDoes::Write {
            self.shared.folder.note_ledger(|ledger| {
                (ledger.commit, ledger.stored, ledger.reached) = (commit, stored, stored);
            });
        }
        Ok(())
    }

    /// The file that there is gets another name, and a new one takes its place.
    fn put_aside(&mut self, aside: &Path) -> Result<(), String> {
        self.shared.aside_waits.store(false, SeqCst);
        let Some(disk) = self.disk.take() else { return Ok(()) };
        let (commits, path) = (disk.commits(), self.shared.folder.path().join(FILE));
        disk.close()?;
        let failed = |reason| format!("cannot rename {} to {}: {reason}", path.display(), aside.display());
        std::fs::rename(&path, aside).map_err(failed)?;
        self.shared.folder.prune_asides();
        let opened =
            Disk::open(&self.shared.folder, FILE, commits + 1, 0).map_err(|error| error.to_string())?;
        self.disk = Some(opened.0);
        self.shared.stored.store(0, SeqCst);
        self.shared.folder.note_ledger(|ledger| {
            (ledger.commit, ledger.stored, ledger.reached) = (commits + 1, 0, 0);
        });
        Ok(())
    }

    /// Leaves the file as it is.
    fn abandon(&mut self) {
        if let Some(disk) = self.disk.take() {
            disk.abandon();
        }
        self.next = Instant::now() + self.rest;
        self.rest = (self.rest * 2).min(REST_MAX);
        // The collector tells; it may be asleep.
        self.shared.wake();
    }

    /// Begins a new file, if that can be. It takes the place of the other when everything is in it.
    fn try_again(&mut self) {
        let shared = &self.shared;
        let reached = shared.reached.load(SeqCst);
        shared.folder.note_ledger(|ledger| ledger.reached = ledger.reached.max(reached));
        self.next = Instant::now() + self.rest;
        if !shared.deaf.load(SeqCst) {
            return;
        }
        let path = shared.folder.path().join(NEXT_FILE);
        let _ = std::fs::remove_file(&path);
        let commits = shared.folder.commits() + 1;
        if let Ok((disk, _)) = Disk::open(&shared.folder, NEXT_FILE, commits, 0) {
            self.disk = Some(disk);
            shared.set_phase(StoreDoes::BeginAnew);
        } else {
            let _ = std::fs::remove_file(&path);
            self.rest = (self.rest * 2).min(REST_MAX);
        }
    }

    /// The new file has everything.
    fn complete(&mut self) -> Result<(), String> {
        let (shared, Some(disk)) = (&self.shared, &mut self.disk) else { return Ok(()) };
        let folder = &shared.folder;
        let (from, to) = (folder.path().join(NEXT_FILE), folder.path().join(FILE));
        let failed = |reason| format!("cannot rename {} to {}: {reason}", from.display(), to.display());
        std::fs::rename(&from, &to).map_err(failed)?;
        let ledger =
            super::folder::Ledger { commit: disk.commits(), stored: disk.stored(), reached: disk.stored() };
        folder.note_open(ledger).map_err(|error| error.to_string())?;
        disk.renamed(to);
        shared.set_phase(StoreDoes::Write);
        self.rest = REST;
        Ok(())
    }

    fn end(mut self) {
        let Some(disk) = self.disk.take() else { return };
        if self.shared.phase() != StoreDoes::Write {
            disk.abandon();
            let _ = std::fs::remove_file(self.shared.folder.path().join(NEXT_FILE));
            return;
        }
        if let Err(reason) = disk.close().and_then(|()| self.shared.folder.note_closed()) {
            self.shared.poison(&reason);
        }
    }
}
