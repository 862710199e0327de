//! How a broker is watched: the control thread with its HTTP server, and the service manager that is told that all is well.

use crate::commands::status;
use crate::config::{BrokerAddress, Config};
use crate::output::Trouble;
use broker::Snapshot;
use host::{Notifier, Place, endings};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use verge::Standing;
use web::{Answers, Beat, Control};

/// The time between two looks where no watchdog says how long it is.
const BEAT: Duration = Duration::from_secs(5);

/// Starts the control thread, if anything is to be watched. It must be there before the data thread takes its priority, which it
/// would inherit. Returns what the data thread has to answer, and where it listens.
pub fn start(
    config: &Config,
    own: &BrokerAddress,
    notifier: &Notifier,
) -> Result<Option<(Answers, Option<SocketAddr>)>, Trouble> {
    let http = own.http.as_ref().map(|place| listen(place, &own.name)).transpose()?;
    if http.is_none() && !notifier.is_connected() {
        return Ok(None);
    }
    let address = http.as_ref().and_then(|listener| listener.local_addr().ok());
    let (probe, answers) = web::probe()?;
    let shown = config.clone();
    let control = Control {
        probe,
        http,
        status: Arc::new(move || status::report_json(&shown)),
        beat: notifier.is_connected().then(|| beat(notifier.clone())),
    };
    std::thread::Builder::new().name("control".to_owned()).spawn(move || control.run())?;
    if notifier.is_connected() {
        tell_of_the_end(notifier.clone())?;
    }
    Ok(Some((answers, address)))
}

fn listen(address: &Place, name: &str) -> Result<TcpListener, Trouble> {
    TcpListener::bind(address.as_str()).map_err(|error| {
        Trouble(format!(
            "cannot listen for HTTP at {address}: {error}. Give brokers.{name}.http another address, or say \"none\""
        ))
    })
}

/// Tells the service manager how the broker is, and that it is alive only when its data thread has answered.
fn beat(notifier: Notifier) -> (Duration, Beat) {
    // Twice within the time that the manager waits, so that one delay does no harm.
    let interval = notifier.watchdog().map_or(BEAT, |watchdog| (watchdog / 2).min(BEAT));
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

fn describe(snapshot: &Snapshot) -> String {
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

/// SIGTERM and SIGINT are for the data thread; the manager is told at once, since draining may take a while.
fn tell_of_the_end(notifier: Notifier) -> Result<(), Trouble> {
    let mut endings = endings()?;
    std::thread::Builder::new().name("ending".to_owned()).spawn(move || {
        if endings.read(&mut [0; 1]).is_ok_and(|read| read > 0) {
            notifier.stopping();
        }
    })?;
    Ok(())
}
