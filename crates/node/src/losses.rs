//! What is done when a thread is lost.

use crate::Trouble;
use host::Helpers;
use rustix::event::{PollFd, PollFlags, poll};

/// Does this when a thread of these is lost.
pub fn on_loss(helpers: Helpers, act: impl FnOnce() + Send + 'static) -> Result<(), Trouble> {
    std::thread::Builder::new().name("losses".to_owned()).spawn(move || {
        while helpers.loss().is_none() {
            // An error is a signal, and it is looked at again.
            let _ = poll(&mut [PollFd::from_borrowed_fd(helpers.bell(), PollFlags::IN)], None);
        }
        act();
    })?;
    Ok(())
}
