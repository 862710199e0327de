//! How a broker is watched: the control thread with its HTTP server, and the service manager that is told that all is well.

use super::picture::Picture;
use crate::Trouble;
use crate::status;
use broker::Snapshot;
use config::{BrokerAddress, Config};
use host::{Helpers, Notifier, Place};
use report::{KeeperReport, SiteReport};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use verge::Standing;
use web::{Answers, Beat, Control, SiteSource};

/// The time between two looks where no watchdog says how long it is.
const BEAT: Duration = Duration::from_secs(5);

/// How the site's uplink is, and its keeper if it has one.
pub type Joined = (Picture<SiteReport>, Option<Picture<KeeperReport>>);

/// What is shown of the site.
fn site((uplink, keeper): Joined) -> SiteSource {
    Arc::new(move || {
        let keeper = keeper.as_ref().and_then(Picture::look);
        uplink.look().map(|report| SiteReport { keeper, ..report })
    })
}

/// Starts the control thread, if anything is to be watched. It must be there before the data thread takes its priority, which it
/// would inherit. So many `connections` are taken at once. Returns what the data thread has to answer, and where it listens.
pub fn start(
    config: &Config,
    own: &BrokerAddress,
    notifier: &Notifier,
    (connections, joined): (usize, Option<Joined>),
    helpers: &Helpers,
) -> Result<Option<(Answers, Option<SocketAddr>)>, Trouble> {
    let key = || format!("brokers.{}.http", own.name);
    let http = own.http.as_ref().map(|place| listen(place, &key())).transpose()?;
    if http.is_none() && !notifier.is_connected() {
        return Ok(None);
    }
    let address = http.as_ref().and_then(|listener| listener.local_addr().ok());
    let (probe, answers) = web::probe()?;
    let shown = config.clone();
    let control = Control {
        probe,
        http,
        connections,
        status: Arc::new(move || status::as_json(&shown)),
        site: joined.map(site),
        beat: notifier.is_connected().then(|| beat(notifier.clone())),
    };
    helpers.hire("control", move || control.run().map_err(|error| error.to_string()))?;
    Ok(Some((answers, address)))
}

/// A listener for HTTP; the key is where its address comes from.
pub fn listen(address: &Place, key: &str) -> Result<TcpListener, Trouble> {
    TcpListener::bind(address.as_str()).map_err(|error| {
        Trouble(format!(
            "cannot listen for HTTP at {address}: {error}. Give {key} another address, or say \"none\""
        ))
    })
}

/// Tells the service manager how the broker is, and that it is alive only when its data thread has answered.
fn beat(notifier: Notifier) -> (Duration, Beat) {
    let interval = interval(&notifier);
    let mut told = String::new();
    let beat = move |snapshot: Option<&Snapshot>| {
        let text = snapshot.map_or_else(|| "the data thread does not answer".to_owned(), describe);
        if snapshot.is_some() && notifier.watchdog().is_some() {
            notifier.alive();
        }
        if text != told {
            notifier.status(&text);
            told = text;
        }
    };
    (interval, Box::new(beat))
}

/// Twice within the time that the manager waits, so that one delay does no harm.
pub fn interval(notifier: &Notifier) -> Duration {
    notifier.watchdog().map_or(BEAT, |watchdog| (watchdog / 2).min(BEAT))
}

/// How a broker is, in a few words.
pub fn describe(snapshot: &Snapshot) -> String {
    let role = match snapshot.node.standing {
        Standing::Primary => "primary",
        Standing::Backup => "backup",
        _ => "looking for its partner",
    };
    let protected = if snapshot.node.protected { "protected" } else { "UNPROTECTED" };
    let occupancy = snapshot.occupancy;
    format!(
        "{role} in epoch {}, {protected}; {} clients, {} streams",
        snapshot.node.reign.epoch.0, occupancy.clients, occupancy.streams
    )
}
