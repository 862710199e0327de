//! Tells whoever runs a command for long what becomes of its connection.

use crate::config::Config;
use crate::output::Trouble;
use contract::Span;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::{Client, Reigning};

/// How often the connection is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// For how long there may be no primary before anybody is told: a fail-over takes a fraction of it.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// The shortest time between two sentences about the same absence, which are told when reasons change.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// Watches over a client until it is dropped.
pub struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Says when a primary is missing, and why, and when one came later than the contracts assume.
    pub fn start(client: &Client, config: &Config) -> Result<Watch, Trouble> {
        watch_failover(client, config)?;
        let (end, ended) = channel();
        let client = client.clone();
        let watch = move || watch_absence(&client, &ended);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(watch)?;
        Ok(Watch { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        // That it panicked has been printed, and the command's own result does not depend on it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Says so when a fail-over takes longer than the contracts assume (x): their loss bounds then do not hold.
fn watch_failover(client: &Client, config: &Config) -> Result<(), Trouble> {
    let assumed = config.delays.failover;
    let brokers = client.brokers().to_vec();
    let way = |brokers: &[SocketAddr], broker: usize| {
        brokers.get(broker).map_or_else(|| "its partner".to_owned(), ToString::to_string)
    };
    let begins_through = client.through()?;
    if let Some(broker) = begins_through {
        eprintln!("verge: {}", way_in_words(&brokers, &way(&brokers, broker), true, None));
    }
    let mut relays = begins_through.is_some();
    client.on_reign(move |reigning| {
        let Reigning::Primary { outage, broker, relayed, .. } = reigning else { return };
        if std::mem::replace(&mut relays, relayed) != relayed {
            let through = way(&brokers, usize::from(broker.0));
            eprintln!("verge: {}", way_in_words(&brokers, &through, relayed, Some(outage)));
        } else if outage > assumed {
            eprintln!(
                "verge: there was no primary for {outage}, longer than network.failover = {assumed}: more than tolerated \
                 may be lost. Raise network.failover, or see `verge doctor` on the brokers' hosts"
            );
        }
    })?;
    Ok(())
}

/// What has become of the way to the primary.
fn way_in_words(brokers: &[SocketAddr], through: &str, relayed: bool, outage: Option<Span>) -> String {
    if !relayed {
        return format!("the primary at {through} is reached directly again");
    }
    let others: Vec<String> = brokers.iter().map(ToString::to_string).filter(|it| it != through).collect();
    let primary = if others.is_empty() { "the primary".to_owned() } else { others.join(", ") };
    let lost = outage.map_or_else(String::new, |outage| {
        format!(" There was none for {outage}, in which more than tolerated may be lost.")
    });
    format!(
        "{primary} is out of reach from here, and messages pass through {through}, which stands by.{lost} Mend the way to {primary}"
    )
}

/// Says so when there is no primary at all, and when there is one again.
fn watch_absence(client: &Client, ended: &Receiver<()>) {
    let mut since = None;
    let mut told: Option<(Instant, String)> = None;
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let Ok(absence) = client.without_primary() else { return };
        let Some(reasons) = absence else {
            since = None;
            if told.take().is_some() {
                eprintln!("verge: a primary is there again");
            }
            continue;
        };
        let away = since.get_or_insert_with(Instant::now).elapsed();
        let is_news = told.as_ref().is_none_or(|(at, last)| at.elapsed() >= TELL_AGAIN && *last != reasons);
        if away >= TELL_AFTER && is_news {
            eprintln!("verge: no primary broker for {:.0} s: {reasons}; trying on", away.as_secs_f64());
            told = Some((Instant::now(), reasons));
        }
    }
}
