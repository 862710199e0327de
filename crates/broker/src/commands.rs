//! What clients ask for besides carrying their messages: streams and subscriptions come and go.

pub(crate) mod crowd;
pub(crate) mod guests;
pub(crate) mod needs;
pub(crate) mod register;
pub(crate) mod rules;
pub(crate) mod subscribe;
pub(crate) mod tasks;
