//! `verge peer run`: one peer, until it is asked to end.

use crate::Trouble;
use crate::broker::observe::listen;
use crate::client::{self, Wanted};
use crate::log::{Lines, write_in_background};
use crate::losses::on_loss;
use crate::signals::{Heard, cut_short_after, ends_within, say_ignored};
use broker::Severity;
use config::{Config, LogConfig, PeerConfig, PeersConfig};
use engine::Where;
use functions::{Hosting, Runner};
use host::{Helpers, Notifier};
use peer_host::{Journal, Settings, Work};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::Limits;
use tokio::sync::oneshot;

/// Says everything in the log.
struct Spoken(Lines);

impl Journal for Spoken {
    fn note(&self, text: &str) {
        self.0.say(text);
    }

    fn warn(&self, text: &str) {
        self.0.warn(&format!("warning: {text}"));
    }
}

/// A peer has no other settings for its log.
const LOG: LogConfig = LogConfig { json: false, level: Severity::Info };
/// Things that a peer keeps at most: each takes about 1 KB of memory, besides what is on disk.
const KEPT_MAX: usize = 1_000_000;
/// What signals do.
const SIGNALS: &str = "SIGTERM ends a peer, and its configuration is read at its start only";

/// Ends the peer, once.
type Stop = Arc<Mutex<Option<oneshot::Sender<()>>>>;

/// Runs the peer of this name until it is asked to end.
///
/// # Errors
///
/// There is none, it cannot listen, or whoever reaches it could speak for others and that was not said to be right.
pub fn run(
    (config, whole): (&PeersConfig, &Config),
    name: &str,
    insecure: bool,
    heard: Heard,
) -> Result<(), Trouble> {
    let names: Vec<&str> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
    let Some(peer) = config.peers.iter().find(|peer| peer.name == name) else {
        return Err(Trouble(format!("there is no peer `{name}`: peers are {}", names.join(", "))));
    };
    check_reach(peer, config.secure, insecure)?;
    let helpers = Helpers::new()?;
    let lines = write_in_background(name, LOG, &helpers)?;
    let (ends, stopped) = oneshot::channel();
    let stop: Stop = Arc::new(Mutex::new(Some(ends)));
    hear_signals(heard, Arc::clone(&stop), lines.clone(), &helpers)?;
    on_loss(helpers.clone(), move || _ = end(&stop))?;
    let journal = Spoken(lines.clone());
    if insecure {
        journal.warn(
            "--insecure: whoever reaches this peer can speak for others, and hear what is offered and wanted",
        );
    }
    let notifier = Notifier::from_environment().unwrap_or_else(|error| {
        journal.warn(&format!("the service manager at NOTIFY_SOCKET cannot be told of anything: {error}"));
        Notifier::default()
    });
    let peers = TcpListener::bind(peer.address.as_str()).map_err(|error| {
        Trouble(format!("cannot listen at {} (peers.{name}.address): {error}", peer.address))
    })?;
    let key = format!("peers.{name}.http");
    let programs = peer.http.as_ref().map(|place| listen(place, &key)).transpose()?;
    journal.note(&format!("listens at {}", peer.address));
    if let Some(place) = &peer.http {
        journal.note(&format!("programs at http://{place}/api/v1/"));
    }
    let runner = Arc::new(Runner::new(hosting(config, whole, peer, &lines), helpers.clone()));
    let settings = Settings {
        name: name.to_owned(),
        address: peer.address.to_string(),
        peers,
        programs,
        location: peer.location,
        offers: peer.offers.clone(),
        space: config.space.clone(),
        overlay: config.overlay.clone(),
        tls: config.secure.then(|| whole.tls.clone()),
        store: peer.store.clone(),
        keeps: Limits { items: KEPT_MAX, bytes: peer.store_bytes },
        work: Some(Arc::clone(&runner) as Arc<dyn Work>),
    };
    notifier.ready();
    let ran = peer_host::run(settings, &helpers, &journal, stopped);
    runner.finish();
    ran.map_err(|error| Trouble(error.to_string()))?;
    notifier.stopping();
    if helpers.loss().is_none() {
        journal.note("ended");
    }
    lines.end();
    helpers.loss().map_or_else(|| Ok(()), |loss| Err(Trouble(loss.to_string())))
}

/// What functions have around them: they ask this peer, and the configured brokers.
fn hosting(config: &PeersConfig, whole: &Config, peer: &PeerConfig, lines: &Lines) -> Hosting {
    let brokers = whole.clone();
    let connect = move |name: &str| {
        let started = client::start(&brokers, &Wanted::default(), Some(name));
        started.map_err(|trouble| trouble.to_string())
    };
    Hosting {
        peer: peer.name.clone(),
        http: peer.http.as_ref().map(ToString::to_string),
        at: (peer.http.is_some() && !whole.brokers.is_empty()).then_some(if peer.is_core {
            Where::Core
        } else {
            Where::Edge
        }),
        space: config.space.clone(),
        connect: Arc::new(connect),
        journal: Arc::new(Spoken(lines.clone())),
    }
}

/// Without TLS nobody is asked who it is, and programs never are.
fn check_reach(peer: &PeerConfig, secure: bool, insecure: bool) -> Result<(), Trouble> {
    let http = peer.http.iter().map(|place| (place, "http"));
    let beyond = http
        .chain((!secure).then_some((&peer.address, "address")))
        .find(|(place, _)| place.is_of_others() || place.is_unspecified());
    match beyond.filter(|_| !insecure) {
        None => Ok(()),
        Some((place, key)) => {
            let remedy = if key == "address" {
                "set overlay.tls, or "
            } else {
                "give it an address of this host, or "
            };
            Err(Trouble(format!(
                "peers.{}.{key} = \"{place}\" is reached beyond this host, and whoever reaches it can offer, want and speak for other peers: \
             {remedy}say --insecure where nobody else is in that network",
                peer.name
            )))
        }
    }
}

fn end(stop: &Stop) -> bool {
    let ends = stop.lock().unwrap_or_else(PoisonError::into_inner).take();
    // One that has ended is not there to be told.
    ends.is_some_and(|ends| ends.send(()).is_ok())
}

/// SIGTERM and SIGINT end it. No other signal does anything.
fn hear_signals(heard: Heard, stop: Stop, lines: Lines, helpers: &Helpers) -> Result<(), Trouble> {
    heard.each(helpers, move |signal| match signal {
        SIGTERM | SIGINT => {
            let again = !end(&stop);
            cut_short_after(ends_within(Duration::ZERO, again), &lines);
        }
        _ => say_ignored(signal, SIGNALS, &lines),
    })
}
