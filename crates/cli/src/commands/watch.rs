//! Tells whoever runs a command for long what becomes of its connection.

use crate::config::Config;
use crate::output::Trouble;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::{Client, Error, Reigning};

/// How often the connection is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// For how long there may be no primary before anybody is told: a fail-over takes a fraction of it.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// For how long one broker may be missing while another reigns before anybody is told: it may be starting.
const TELL_OF_ONE_AFTER: Duration = Duration::from_secs(10);
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
        watch_shortfalls(client)?;
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
    client.on_reign(move |reigning| {
        if let Reigning::Primary { outage, .. } = reigning
            && outage > assumed
        {
            eprintln!(
                "verge: there was no primary for {outage}, longer than network.failover = {assumed}: more than tolerated \
                 may be lost. Raise network.failover, or see `verge doctor` on the brokers' hosts"
            );
        }
    })?;
    Ok(())
}

/// Says so when a broker drops messages for this subscriber, which keeps its connection and gets the newest.
fn watch_shortfalls(client: &Client) -> Result<(), Trouble> {
    client.on_shortfall(|shortfall| {
        eprintln!(
            "verge: this subscriber reads slower than its topics publish: {shortfall}. Subscribe to less, publish less or smaller, \
             or give it a faster link"
        );
    })?;
    Ok(())
}

/// Says which broker is not reached while another reigns: a client of one broker is not protected.
#[derive(Default)]
struct Reaches {
    /// Since when each is in trouble, and what was last told of it.
    troubles: BTreeMap<String, (Instant, Option<String>)>,
}

impl Reaches {
    fn look(&mut self, client: &Client) -> Result<(), Error> {
        let reaches = client.reaches()?;
        self.troubles.retain(|address, (_, told)| {
            let lasts = reaches.iter().any(|reach| reach.address == *address && reach.trouble.is_some());
            if !lasts && told.is_some() {
                eprintln!("verge: {address} is no trouble any more");
            }
            lasts
        });
        for reach in reaches {
            let Some(trouble) = reach.trouble else { continue };
            let after = if reach.is_wrong { TELL_AFTER } else { TELL_OF_ONE_AFTER };
            let (since, told) = self.troubles.entry(reach.address.clone()).or_insert((Instant::now(), None));
            if since.elapsed() >= after && told.is_none() {
                eprintln!("verge: {} {trouble}; going on with the others", reach.address);
                *told = Some(trouble);
            }
        }
        Ok(())
    }
}

/// Says so when there is no primary at all, and when there is one again.
fn watch_absence(client: &Client, ended: &Receiver<()>) {
    let mut reaches = Reaches::default();
    let mut since = None;
    let mut told: Option<(Instant, String)> = None;
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let Ok(absence) = client.without_primary() else { return };
        let Some(reasons) = absence else {
            since = None;
            if reaches.look(client).is_err() {
                return;
            }
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
