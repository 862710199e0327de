//! Keepers beside the brokers of sites, and the disks that outlive them.

use super::{Told, Who, World};
use contract::{Span, Time};
use engine::{Keeper, KeeperNews, KeeperReporter, KeeperSettings, KeptTopics, Node};
use journal::{FileError, FileName, Files, Journal, SyncOrder};
use simulation::network;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::{Effects, LinkChange, LinkId, PeerIndex};

/// The disk of a keeper. It does what it is asked for.
#[derive(Clone, Default)]
pub struct Shelf(Rc<RefCell<BTreeMap<FileName, Vec<u8>>>>);

impl Files for Shelf {
    fn list(&mut self) -> Result<Vec<(FileName, u64)>, FileError> {
        Ok(self.0.borrow().iter().map(|(name, bytes)| (*name, bytes.len() as u64)).collect())
    }
    fn create(&mut self, name: FileName, bytes: u64) -> Result<(), FileError> {
        assert!(self.0.borrow_mut().insert(name, vec![0; bytes as usize]).is_none());
        Ok(())
    }
    fn write(&mut self, name: FileName, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.0.borrow_mut().get_mut(&name).unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn read(&self, name: FileName, at: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let files = self.0.borrow();
        let rest = files[&name].get(at as usize..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
    fn remove(&mut self, name: FileName) -> Result<(), FileError> {
        self.0.borrow_mut().remove(&name);
        Ok(())
    }
    fn finish(&mut self, _name: FileName) {}
    fn sync(&mut self, _order: &SyncOrder) -> Result<(), FileError> {
        Ok(())
    }
}

impl KeeperReporter for Told {
    fn report(&mut self, news: &KeeperNews<'_>) {
        self.0.push(format!("{news:?}"));
    }
}

/// A keeper whose disk syncs at once.
pub struct Kept {
    pub keeper: Keeper<Shelf, Told>,
    shelf: Shelf,
    settings: KeeperSettings,
    /// The broker beside it.
    pub beside: usize,
}

impl Kept {
    fn open(settings: &KeeperSettings, shelf: &Shelf, now: Time) -> Keeper<Shelf, Told> {
        let like = journal::Settings {
            segment_bytes: 1 << 20,
            bytes_max: 64 << 20,
            payload_bytes_max: 256 << 10,
            identity_bytes_max: 2_048,
            ..journal::Settings::default()
        };
        let journal = Journal::open(shelf.clone(), like).unwrap();
        Keeper::new(settings.clone(), journal, now, Told::default())
    }
}

impl Node for Kept {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        self.keeper.handle_link(now, link, change, net);
    }
    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        self.keeper.handle_dial_failed(now, peer, refused, net);
    }
    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        self.keeper.handle_bytes(now, link, bytes, net)
    }
    fn run(&mut self, now: Time, net: &mut impl Effects) -> bool {
        self.keeper.run(now, net)
    }
    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        self.keeper.handle_timeout(now, net);
        if let Some(order) = self.keeper.poll_sync(now) {
            self.keeper.synced(order.ticket, Ok(()));
        }
    }
    fn next_deadline(&self) -> Time {
        self.keeper.next_deadline()
    }
}

impl World {
    /// A keeper beside each broker of a pair. What it keeps: these filters, for an hour.
    pub fn add_keepers(
        &mut self,
        site: &str,
        pair: usize,
        keep: &[&str],
        tune: impl Fn(&mut KeeperSettings),
    ) {
        for beside in [2 * pair, 2 * pair + 1] {
            let mut settings = KeeperSettings::new(site, beside as u8 % 2, 2, self.now.0);
            let kept = |filter: &&str| KeptTopics {
                filter: filter.parse().unwrap(),
                keep: Span::secs(3_600),
                bytes_max: u64::MAX,
                rank: 3,
            };
            settings.keep = keep.iter().map(kept).collect();
            settings.identity = 1_000 + beside as u64;
            tune(&mut settings);
            let shelf = Shelf::default();
            let keeper = Kept::open(&settings, &shelf, self.now);
            self.keepers.push(Kept { keeper, shelf, settings, beside });
            self.add_place(Who::Keeper(self.keepers.len() - 1));
        }
    }

    /// A keeper's process dies.
    pub fn kill_keeper(&mut self, keeper: usize) {
        let host = self.host(Who::Keeper(keeper));
        self.ended.insert(host);
        self.places[host].clear();
        network::end_all(self, host);
    }

    /// It begins anew, with what its disk has.
    pub fn start_keeper(&mut self, keeper: usize) {
        let host = self.host(Who::Keeper(keeper));
        let kept = &mut self.keepers[keeper];
        let mut settings = kept.settings.clone();
        (settings.tap.incarnation, settings.talk.incarnation) = (self.now.0, self.now.0);
        kept.keeper = Kept::open(&settings, &kept.shelf.clone(), self.now);
        self.ended.remove(&host);
        self.begin(host);
    }
}
