//! What a participant's owner holds: requests in, events out, and a hook that wakes it.

use crate::driver::Driver;
use crate::settings::{BadSettings, Settings};
use federation::{REQUESTS_MAX, Reply, Request, Session, Ticket};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait for the thread that sends them, beside the [`REQUESTS_MAX`] under way.
pub const REQUESTS_QUEUED_MAX: usize = REQUESTS_MAX;

/// Events that may wait to be polled. While they do, no answer is taken from the service; the session lives on.
pub const TOLD_MAX: usize = 1_024;

/// What a participant is told, and what people are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// For `handle_session`.
    Session(Session),
    /// For `handle_reply`.
    Reply(Ticket, Reply),
    /// For `handle_event`: something of this node has changed.
    Ring(String),
    /// For people: something is wrong that they can mend. Told once, until it is something else or all is well.
    Trouble(Trouble),
}

/// What keeps a participant from the service.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// No server answers. It is tried again.
    #[error(
        "no coordination service at {servers} ({why}): is it running, and does anything stand between? Tried again"
    )]
    Unreachable {
        /// The ensemble, as it was given.
        servers: String,
        /// What the client says.
        why: String,
    },
    /// The service turns the user away. It is tried again.
    #[error(
        "the coordination service at {servers} turns {user} away: correct the user or the password. Tried again"
    )]
    TurnedAway {
        /// The ensemble, as it was given.
        servers: String,
        /// Who we said we are.
        user: String,
    },
    /// What everything stands below is not there, and may not be created. It is tried again.
    #[error(
        "the namespace {namespace} cannot be created at {servers} ({why}): let an admin create it, or give this user the right to"
    )]
    Namespace {
        /// The ensemble, as it was given.
        servers: String,
        /// The node.
        namespace: String,
        /// What the client says.
        why: String,
    },
    /// A node is somebody else's.
    #[error(
        "the coordination service does not allow what was asked of {path}: its access list names another user than {user}; log in as that one, or let an admin change the list"
    )]
    Forbidden {
        /// The node, below the namespace.
        path: String,
        /// Who we said we are.
        user: String,
    },
    /// The files of certificates, or the servers' names, have become bad. It is tried again.
    #[error("{0}. Tried again")]
    Settings(String),
}

/// As many requests wait as may. Here it is again.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{REQUESTS_QUEUED_MAX} requests wait already: poll the events, then ask again")]
pub struct Full(pub Ticket, pub Request);

/// Called on the thread of the driver when there is something to poll, or room to ask. Must not wait.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A request, and how many changes of the session whoever asked had been told.
pub(crate) struct Asked {
    pub(crate) life: u64,
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
}

/// A session with the service, for one participant. Nothing here waits, save [`ZooKeeper::close`].
///
/// Dropped, it closes the session behind the caller's back, so that what the participant owns goes at once.
pub struct ZooKeeper {
    requests: mpsc::Sender<Asked>,
    events: mpsc::Receiver<Event>,
    life: u64,
    abandon: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl ZooKeeper {
    /// Begins to connect, on a thread of its own, and tries for ever.
    ///
    /// # Errors
    ///
    /// Settings with which nothing can be reached, files that cannot be read, and no thread. A service that is away is no error: it is told
    /// as [`Trouble`].
    pub fn connect(settings: Settings, wake: Wake) -> Result<ZooKeeper, BadSettings> {
        settings.check()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BadSettings::Thread)?;
        let (requests, asked) = mpsc::channel(REQUESTS_QUEUED_MAX);
        let (told, events) = mpsc::channel(TOLD_MAX);
        let (abandon, abandoned) = oneshot::channel::<()>();
        let driver = Driver::new(settings, asked, told, wake);
        let serve = async move {
            tokio::select! {
                () = driver.drive() => {}
                Ok(()) = abandoned => {}
            }
        };
        let thread = std::thread::Builder::new().name("coordination".to_owned());
        let thread = thread.spawn(move || runtime.block_on(serve)).map_err(BadSettings::Thread)?;
        Ok(ZooKeeper { requests, events, life: 0, abandon, thread })
    }

    /// Whether another request may be asked now. There is room again after events have been polled.
    pub fn has_room(&self) -> bool {
        self.requests.capacity() > 0
    }

    /// Asks. Requests are sent in this order, without waiting for answers. What is asked before a change of the session has been polled
    /// is not sent after it, and not answered.
    ///
    /// # Errors
    ///
    /// [`Full`] where as many wait as may.
    pub fn ask(&self, ticket: Ticket, request: Request) -> Result<(), Full> {
        let asked = Asked { life: self.life, ticket, request };
        match self.requests.try_send(asked) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(asked) | mpsc::error::TrySendError::Closed(asked)) => {
                Err(Full(asked.ticket, asked.request))
            }
        }
    }

    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        if matches!(event, Event::Session(_)) {
            self.life += 1;
        }
        Some(event)
    }

    /// Closes the session, so that what the participant owns goes at once, and waits until that is done or a second is over.
    pub fn close(self) {
        let ZooKeeper { requests, events, thread, abandon, .. } = self;
        drop((requests, events));
        _ = thread.join();
        drop(abandon);
    }

    /// Ends the connection as if this process had died: what the participant owns stays until the session times out, for its partner to
    /// take over.
    pub fn abandon(self) {
        _ = self.abandon.send(());
        _ = self.thread.join();
    }
}
