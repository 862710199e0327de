//! Tells whoever runs a command for long what becomes of its connection.

use crate::config::Config;
use crate::output::Trouble;
use contract::Span;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::{Client, Reigning};

/// How often the connection is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// For how long there may be no primary before anybody is told: a fail-over takes a fraction of it.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// Clocks that differ by more than this are no jitter between synchronised ones.
const CLOCKS_APART: Span = Span::millis(10);
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

/// Says something. Where nobody reads it, nobody is to be told, and it must not end the client's thread.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says so when a fail-over takes longer than the contracts assume (x): their loss bounds then do not hold.
fn watch_failover(client: &Client, config: &Config) -> Result<(), Trouble> {
    let assumed = config.delays.failover;
    client.on_reign(move |reigning| {
        if let Reigning::Primary { outage, .. } = reigning
            && outage > assumed
        {
            say(&format!(
                "verge: there was no primary for {outage}, longer than network.failover = {assumed}: more than tolerated \
                 may be lost. Raise network.failover, or see `verge doctor` on the brokers' hosts"
            ));
        }
    })?;
    Ok(())
}

/// Says so when this host's clock is not the primary's, and when it is again.
fn watch_clock(client: &Client, apart: &mut bool) {
    let Ok(Some(clock)) = client.clock() else { return };
    if (clock.least() > CLOCKS_APART) == *apart {
        return;
    }
    *apart = !*apart;
    let (by, side) =
        if clock.ahead > Span::ZERO { (clock.ahead, "ahead of") } else { (-clock.ahead, "behind") };
    say(&if *apart {
        format!(
            "verge: the clock of this host is {by} {side} the broker's (to within {}): latencies, and what is called late, mean nothing \
             until both are synchronised (chrony, or PTP; see `verge doctor`)",
            clock.within
        )
    } else {
        "verge: the clock of this host is the broker's again".to_owned()
    });
}

/// Says so when there is no primary at all, and when there is one again.
fn watch_absence(client: &Client, ended: &Receiver<()>) {
    let mut apart = false;
    let mut since = None;
    let mut told: Option<(Instant, String)> = None;
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let Ok(absence) = client.without_primary() else { return };
        let Some(reasons) = absence else {
            watch_clock(client, &mut apart);
            since = None;
            if told.take().is_some() {
                say("verge: a primary is there again");
            }
            continue;
        };
        let away = since.get_or_insert_with(Instant::now).elapsed();
        let is_news = told.as_ref().is_none_or(|(at, last)| at.elapsed() >= TELL_AGAIN && *last != reasons);
        if away >= TELL_AFTER && is_news {
            say(&format!("verge: no primary broker for {:.0} s: {reasons}; trying on", away.as_secs_f64()));
            told = Some((Instant::now(), reasons));
        }
    }
}
