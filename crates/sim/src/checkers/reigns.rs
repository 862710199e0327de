//! One primary per epoch, and no broker's reign goes back while it lives.
//!
//! Source: "the highest epoch wins" (ARCHITECTURE, faults). Within the fault model an epoch belongs to one broker. Beyond
//! it, two brokers that have lost their memory, or cannot see each other, may take the same number; the node in the reign
//! then tells them apart, and everybody picks the same one.

use contract::{Epoch, Reign};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "reigns";
pub(super) const STATEMENT: &str = "an epoch has one primary, and no broker's reign goes back";

#[derive(Clone)]
pub(super) struct Reigns {
    assumed: bool,
    /// Who took which epoch.
    taken: BTreeMap<Epoch, (usize, Reign)>,
    hosts: BTreeMap<Reign, usize>,
    highest: [Reign; 2],
}

impl Reigns {
    pub(super) fn new(assumed: bool) -> Reigns {
        Reigns { assumed, taken: BTreeMap::new(), hosts: BTreeMap::new(), highest: [Reign::default(); 2] }
    }

    pub(super) fn starts(&mut self, host: usize) {
        self.highest[host] = Reign::default();
    }

    pub(super) fn promoted(&mut self, host: usize, reign: Reign) -> Result<(), String> {
        self.hosts.insert(reign, host);
        if let Some((other, before)) = self.taken.insert(reign.epoch, (host, reign))
            && self.assumed
            && before != reign
        {
            let names = ["a", "b"];
            return Err(format!(
                "epoch {} was taken by {} and then by {}",
                reign.epoch, names[other], names[host]
            ));
        }
        if reign <= self.highest[host] {
            return Err(format!(
                "a broker took epoch {} after epoch {}",
                reign.epoch, self.highest[host].epoch
            ));
        }
        self.hears(host, reign)
    }

    /// A broker knows of a reign.
    pub(super) fn hears(&mut self, host: usize, reign: Reign) -> Result<(), String> {
        if reign < self.highest[host] {
            return Err(format!(
                "broker {} went back from epoch {} to {}",
                ["a", "b"][host],
                self.highest[host].epoch,
                reign.epoch
            ));
        }
        self.highest[host] = reign;
        Ok(())
    }

    /// Whose reign it is.
    pub(super) fn host_of(&self, reign: Reign) -> Option<usize> {
        self.hosts.get(&reign).copied()
    }
}
