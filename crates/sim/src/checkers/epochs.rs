//! A lower epoch is never accepted: clients follow reigns upwards only, and publish nowhere else.
//!
//! Source: "clients refuse frames of a lower epoch". What is refused is authority: deliveries of a deposed primary are
//! taken, since they would otherwise be lost.

use super::reigns::Reigns;
use contract::{Reign, Time};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "epochs";
pub(super) const STATEMENT: &str = "clients follow reigns upwards only, and publish to nobody else";

#[derive(Clone, Default)]
pub(super) struct Epochs {
    followed: BTreeMap<usize, Followed>,
}

/// Whom a client follows.
#[derive(Clone, Copy, Default)]
struct Followed {
    highest: Reign,
    now: Option<Reign>,
    /// When that last changed: what it wrote in the same turn may have been written before.
    changed: Time,
}

impl Epochs {
    pub(super) fn dies(&mut self, host: usize) {
        self.followed.remove(&host);
    }

    pub(super) fn follows(&mut self, now: Time, host: usize, reign: Option<Reign>) -> Result<(), String> {
        let entry = self.followed.entry(host).or_default();
        (entry.now, entry.changed) = (reign, now);
        let Some(reign) = reign else { return Ok(()) };
        if reign < entry.highest {
            return Err(format!(
                "a client followed epoch {} after epoch {}",
                reign.epoch, entry.highest.epoch
            ));
        }
        entry.highest = reign;
        Ok(())
    }

    pub(super) fn publishes(
        &self,
        now: Time,
        host: usize,
        broker: usize,
        reigns: &Reigns,
    ) -> Result<(), String> {
        let followed = self.followed.get(&host);
        let until_now = |known: &Followed| (known.changed == now).then_some(known.highest);
        let Some(reign) = followed.and_then(|known| known.now.or(until_now(known))) else {
            return Err("a client published while it followed nobody".to_owned());
        };
        match reigns.host_of(reign) {
            Some(owner) if owner != broker => {
                Err(format!("a client that follows epoch {} published to the other broker", reign.epoch))
            }
            _ => Ok(()),
        }
    }
}
