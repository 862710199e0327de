//! A lower epoch is never accepted: clients follow reigns upwards only, and publish nowhere else.
//!
//! Source: "clients refuse frames of a lower epoch". What is refused is authority: deliveries of a deposed primary are
//! taken, since they would otherwise be lost.

use super::reigns::Reigns;
use contract::Reign;
use std::collections::BTreeMap;

pub(super) const NAME: &str = "epochs";
pub(super) const STATEMENT: &str = "clients follow reigns upwards only, and publish to nobody else";

#[derive(Clone, Default)]
pub(super) struct Epochs {
    /// By client: the highest reign it followed, and the one it follows.
    followed: BTreeMap<usize, (Reign, Option<Reign>)>,
}

impl Epochs {
    pub(super) fn dies(&mut self, host: usize) {
        self.followed.remove(&host);
    }

    pub(super) fn follows(&mut self, host: usize, reign: Option<Reign>) -> Result<(), String> {
        let entry = self.followed.entry(host).or_default();
        entry.1 = reign;
        let Some(reign) = reign else { return Ok(()) };
        if reign < entry.0 {
            return Err(format!("a client followed epoch {} after epoch {}", reign.epoch, entry.0.epoch));
        }
        entry.0 = reign;
        Ok(())
    }

    pub(super) fn publishes(&self, host: usize, broker: usize, reigns: &Reigns) -> Result<(), String> {
        let Some(reign) = self.followed.get(&host).and_then(|(_, follows)| *follows) else {
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
