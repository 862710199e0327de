//! The control thread: the only place of a broker where an asynchronous runtime is.

use crate::probe::{Live, Probe};
use crate::server::{Shared, StatusSource, pages, serve};
use broker::Snapshot;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

/// Something to do at every beat, with the broker as it is then; `None` if the data thread has not answered.
pub type Beat = Box<dyn FnMut(Option<&Snapshot>) + Send>;

/// What the control thread does.
pub struct Control {
    /// How it hears of the broker.
    pub probe: Probe,
    /// Where requests come in, if anywhere.
    pub http: Option<TcpListener>,
    /// So many connections are taken there at once; [`CONNECTIONS_MAX`](crate::CONNECTIONS_MAX) where there are descriptors enough.
    pub connections: usize,
    /// What `/api/v1/status` says.
    pub status: StatusSource,
    /// What is done every so often. The data thread has as long to answer.
    pub beat: Option<(Duration, Beat)>,
}

impl Control {
    /// Does it until the process ends. An error says which part of it has ended, and why.
    pub fn run(self) -> io::Result<()> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        runtime.block_on(async move {
            let shared = Arc::new(Shared {
                live: Mutex::new(Live::new(self.probe)?),
                status: self.status,
                asking: Semaphore::new(1),
            });
            let mut parts = JoinSet::new();
            if let Some((interval, act)) = self.beat {
                parts.spawn(beat(interval, act, Arc::clone(&shared)));
            }
            if let Some(listener) = self.http {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                parts.spawn(serve(listener, self.connections, pages(shared)));
            }
            // None of them ends by itself.
            match parts.join_next().await {
                Some(Err(error)) => Err(io::Error::other(error)),
                Some(Ok(())) => Err(io::Error::other("nothing is watched any more")),
                None => Ok(()),
            }
        })
    }
}

async fn beat(interval: Duration, mut act: Beat, shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        act(shared.live.lock().await.look(false, interval).await);
    }
}
