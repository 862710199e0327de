//! The pair: who reigns, whether the other broker lives, and what a backup is told.

pub(crate) mod finished;
pub(crate) mod guard;
pub(crate) mod liveness;
pub(crate) mod pair;
pub(crate) mod partner;
pub(crate) mod reign;
pub(crate) mod standby;
