//! A message's way: it arrives, is dispatched, copied, processed, and leaves.

use crate::membership::pair::Pair;
use crate::settings::Settings;
use crate::steps::work::Flow;

pub(crate) mod announce;
pub(crate) mod arrive;
pub(crate) mod departures;
pub(crate) mod finished;
pub(crate) mod forward;
pub(crate) mod keep;
pub(crate) mod last;
pub(crate) mod lazy;
pub(crate) mod plain;
pub(crate) mod posting;
pub(crate) mod process;
pub(crate) mod replicate;
pub(crate) mod room;
pub(crate) mod run;
pub(crate) mod share;
pub(crate) mod work;

/// What a message's way takes: parts of a broker, borrowed for a step or a few. Steps see who reigns and cannot change it, and neither
/// promise anything nor take it back.
pub(crate) struct Steps<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) pair: &'a Pair,
    /// The reign was taken from a primary that was believed dead, and not given.
    pub(crate) reign_was_taken: bool,
    pub(crate) flow: &'a mut Flow,
}
