//! A message's way: it arrives, is dispatched, copied, processed, and leaves.

pub(crate) mod announce;
pub(crate) mod arrive;
pub(crate) mod departures;
pub(crate) mod forward;
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
