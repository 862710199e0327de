//! The control thread: the only place of a broker where an asynchronous runtime is.

use crate::probe::{Live, Probe};
use crate::server::{Shared, StatusSource, pages, serve};
use crate::site::SiteSource;
use broker::Snapshot;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

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
    /// What `/api/v1/site` says, where this broker joins its site to others.
    pub site: Option<SiteSource>,
    /// What is done every so often. The data thread has as long to answer.
    pub beat: Option<(Duration, Beat)>,
}

impl Control {
    /// Does it until the process ends. An error says which part of it has ended, and why.
    pub fn run(self) -> io::Result<()> {
        on_runtime(async move |parts| {
            let shared = Arc::new(Shared {
                live: Mutex::new(Live::new(self.probe)?),
                status: self.status,
                site: self.site,
                asking: Semaphore::new(1),
            });
            if let Some((interval, act)) = self.beat {
                parts.spawn(beat(interval, act, Arc::clone(&shared)));
            }
            if let Some(listener) = self.http {
                parts.spawn(serve(listener, self.connections, pages(shared))?);
            }
            Ok(())
        })
    }
}

/// Runs parts of which none ends by itself. An error says which has, and why.
pub(crate) fn on_runtime(begin: impl AsyncFnOnce(&mut JoinSet<()>) -> io::Result<()>) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
    runtime.block_on(async move {
        let mut parts = JoinSet::new();
        begin(&mut parts).await?;
        match parts.join_next().await {
            Some(Err(error)) => Err(io::Error::other(error)),
            Some(Ok(())) => Err(io::Error::other("nothing is watched any more")),
            None => Ok(()),
        }
    })
}

/// Beats, of which one that is late puts off those after it.
pub(crate) fn ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn beat(interval: Duration, mut act: Beat, shared: Arc<Shared>) {
    let mut ticks = ticks(interval);
    loop {
        ticks.tick().await;
        act(shared.live.lock().await.look(false, interval).await);
    }
}
