//! Tells whoever runs a command for long what becomes of its connection.

use config::Config;
use console::{Trouble, complain};
use contract::Span;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::{Client, Error, Reigning, Shortfall};

/// How often the connection is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// For how long there may be no primary before anybody is told: a failover takes a fraction of it.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// Clocks that differ by more than this are no jitter between synchronised ones.
const CLOCKS_APART: Span = Span::millis(10);
/// For how long one broker may be missing while another reigns before anybody is told: it may be starting.
const TELL_OF_ONE_AFTER: Duration = Duration::from_secs(10);
/// The shortest time between two sentences about the same absence, which are told when reasons change.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// A look that comes so much later than it should shows that the whole process stood still.
const STANDSTILL: Duration = Duration::from_millis(250);
/// For so long afterwards what becomes of the connection has that reason: brokers have closed it, and it is made again.
const AFTERMATH: Duration = Duration::from_secs(5);
/// What may wait to be told.
const WAITING_MAX: usize = 16;

/// Watches over a client until it is dropped.
pub struct Watch {
    events: Sender<Heard>,
    thread: Option<JoinHandle<()>>,
}

enum Heard {
    /// There was no primary for so long.
    Outage(Span),
    /// The way to the primary leads through this broker from now on, or no longer does; there was none for so long.
    Way { broker: usize, relayed: bool, outage: Span },
    /// Messages were dropped for this subscriber, which is slow.
    Shortfall(Shortfall),
    /// The command ends.
    End,
}

impl Watch {
    /// Says when a primary is missing, and why, and when one came later than the contracts assume.
    pub fn start(client: &Client, config: &Config) -> Result<Watch, Trouble> {
        let (events, heard) = bounded(WAITING_MAX);
        // On the client's own thread nothing is written, since whoever reads it may stand still.
        let told = events.clone();
        let begins_through = client.through()?;
        let mut relays = begins_through.is_some();
        client.on_reign(move |reigning| {
            let Reigning::Primary { outage, broker, relayed, .. } = reigning else { return };
            let changed = std::mem::replace(&mut relays, relayed) != relayed;
            let _ = told.try_send(if changed {
                Heard::Way { broker: usize::from(broker.0), relayed, outage }
            } else {
                Heard::Outage(outage)
            });
        })?;
        if let Some(broker) = begins_through {
            tell_way(client, broker, true, None)?;
        }
        let told = events.clone();
        client.on_shortfall(move |shortfall| {
            let _ = told.try_send(Heard::Shortfall(*shortfall));
        })?;
        let assumed = config.delays.failover;
        let mut watcher = Watcher {
            client: client.clone(),
            assumed,
            absence: None,
            apart: false,
            told: None,
            standstill: None,
            reaches: Reaches::default(),
        };
        let watch = move || watcher.watch(&heard);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(watch)?;
        Ok(Watch { events, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.events.send(Heard::End);
        // That it panicked has been printed, and the command's own result does not depend on it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Watcher {
    client: Client,
    /// The failover time that contracts assume, x.
    assumed: Span,
    /// Since when there has been no primary.
    absence: Option<Instant>,
    /// Whether this host's clock was last told to be apart.
    apart: bool,
    /// When that was last told, and with which reasons.
    told: Option<(Instant, String)>,
    /// When this process went on after it had stood still, and how long that was.
    standstill: Option<(Instant, Duration)>,
    reaches: Reaches,
}

/// Says which broker is not reached while another reigns: a client of one broker is not protected.
#[derive(Default)]
struct Reaches {
    /// Since when each is in trouble, and whether that was told.
    troubles: BTreeMap<String, (Instant, bool)>,
}

impl Reaches {
    fn look(&mut self, client: &Client) -> Result<(), Error> {
        let reaches = client.reaches()?;
        self.troubles.retain(|address, (_, told)| {
            let lasts = reaches.iter().any(|reach| reach.address == *address && reach.trouble.is_some());
            if !lasts && *told {
                complain(&format!("verge: {address} is no trouble any more"));
            }
            lasts
        });
        for reach in reaches {
            let Some(trouble) = reach.trouble else { continue };
            let after = if reach.is_wrong { TELL_AFTER } else { TELL_OF_ONE_AFTER };
            let (since, told) = self.troubles.entry(reach.address.clone()).or_insert((Instant::now(), false));
            if since.elapsed() >= after && !*told {
                complain(&format!("verge: {} {trouble}; going on with the others", reach.address));
                *told = true;
            }
        }
        Ok(())
    }
}

impl Watcher {
    fn watch(&mut self, heard: &Receiver<Heard>) {
        let mut looked = Instant::now();
        loop {
            let event = heard.recv_timeout(LOOK);
            // From look to look, since a process may be stopped while it looks, too.
            self.look_for_standstill(looked.elapsed());
            looked = Instant::now();
            match event {
                Ok(Heard::Outage(outage)) => self.tell_outage(outage),
                Ok(Heard::Way { broker, relayed, outage }) => {
                    if tell_way(&self.client, broker, relayed, Some(outage)).is_err() {
                        return;
                    }
                }
                Ok(Heard::Shortfall(shortfall)) => complain(&format!(
                    "verge: this subscriber reads slower than its topics publish: {shortfall}. Subscribe to less, publish less or \
                     smaller, or give it a faster link"
                )),
                Ok(Heard::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if !self.look_for_absence() => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// All threads stop with a process, so that this one sees it by its own clock.
    fn look_for_standstill(&mut self, since_last: Duration) {
        let late = since_last.saturating_sub(LOOK);
        if late >= STANDSTILL {
            self.standstill = Some((Instant::now(), late));
        }
        if late >= TELL_AFTER {
            complain(&format!(
                "verge: this process stood still for {:.1} s: it was stopped, or its host gave it no processor. Messages of that time come \
                 late, or not at all",
                late.as_secs_f64()
            ));
        }
    }

    /// Says so when a failover takes longer than the contracts assume: their loss bounds then do not hold.
    fn tell_outage(&mut self, outage: Span) {
        let assumed = self.assumed;
        if outage <= assumed {
            return;
        }
        match self.standstill.filter(|(ended, _)| ended.elapsed() <= AFTERMATH) {
            Some((_, lasted)) => complain(&format!(
                "verge: this process stood still for {:.1} s, and its connection was made again within {outage} after that: more than \
                 tolerated may be lost to it, while brokers and network did what they promise",
                lasted.as_secs_f64()
            )),
            None => complain(&format!(
                "verge: there was no primary for {outage}, longer than network.failover = {assumed}: more than tolerated \
                 may be lost. Raise network.failover, or see `verge doctor` on the brokers' hosts"
            )),
        }
    }

    /// Says so when this host's clock is not the primary's, and when it is again.
    fn look_at_clock(&mut self) {
        let Ok(Some(clock)) = self.client.clock() else { return };
        if (clock.least() > CLOCKS_APART) == self.apart {
            return;
        }
        self.apart = !self.apart;
        let (by, side) =
            if clock.ahead > Span::ZERO { (clock.ahead, "ahead of") } else { (-clock.ahead, "behind") };
        complain(&if self.apart {
            format!(
                "verge: the clock of this host is {by} {side} the broker's (to within {}): latencies, and what is called late, mean \
                 nothing until both are synchronised (chrony, or PTP; see `verge doctor`)",
                clock.within
            )
        } else {
            "verge: the clock of this host is the broker's again".to_owned()
        });
    }

    /// Says so when there is no primary at all, and when there is one again. `false` when the client has ended.
    fn look_for_absence(&mut self) -> bool {
        let Ok(absence) = self.client.without_primary() else { return false };
        let Some(reasons) = absence else {
            self.absence = None;
            self.look_at_clock();
            // Where messages pass through one broker, it has been said that the other is out of reach.
            let direct = self.client.through().is_ok_and(|through| through.is_none());
            if direct && self.reaches.look(&self.client).is_err() {
                return false;
            }
            if self.told.take().is_some() {
                complain("verge: a primary is there again");
            }
            return true;
        };
        let away = self.absence.get_or_insert_with(Instant::now).elapsed();
        let is_news =
            self.told.as_ref().is_none_or(|(at, last)| at.elapsed() >= TELL_AGAIN && *last != reasons);
        if away >= TELL_AFTER && is_news {
            complain(&format!(
                "verge: no primary broker for {:.0} s: {reasons}; trying on",
                away.as_secs_f64()
            ));
            self.told = Some((Instant::now(), reasons));
        }
        true
    }
}

/// What has become of the way to the primary, which leads through a broker that stands by, or no longer does.
fn tell_way(client: &Client, broker: usize, relayed: bool, outage: Option<Span>) -> Result<(), Error> {
    let reaches = client.reaches()?;
    let through = reaches.iter().find(|reach| reach.broker == Some(broker));
    let through = through.map_or_else(|| "its partner".to_owned(), |reach| reach.address.clone());
    if !relayed {
        complain(&format!("verge: the primary at {through} is reached directly again"));
        return Ok(());
    }
    let others = reaches.into_iter().map(|reach| reach.address);
    let others: Vec<String> = others.filter(|address| *address != through).collect();
    let primary = if others.is_empty() { "the primary".to_owned() } else { others.join(", ") };
    let lost = outage.map_or_else(String::new, |outage| {
        format!(" There was none for {outage}, in which more than tolerated may be lost.")
    });
    complain(&format!(
        "verge: {primary} is out of reach from here, and messages pass through {through}, which stands by.{lost} Mend the way to {primary}"
    ));
    Ok(())
}
