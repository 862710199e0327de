//! What a function does with what it has to say.

use crate::runner::Hosting;
use crate::spec::OutletSpec;
use contract::Span;
use peer_host::Journal;
use std::sync::Arc;
use std::time::{Duration, Instant};
use verge::{Announcement, Client, Error, Peers, Publisher};

/// How long a message may take to be published; it is given up then.
const PUBLISHES_WITHIN: Duration = Duration::from_secs(5);
/// How long a function that has just been started is given to subscribe what it wants.
const SUBSCRIBES_WITHIN: Duration = Duration::from_millis(50);
/// How long one that was stopped, or whose time is over, may take to want nothing any more.
const ENDS_WITHIN: Duration = Duration::from_millis(200);
/// Alarms of one function that the log says in a second.
const ALARMS_MAX: u32 = 10;
/// The most letters of a message that the log says.
const SAID_MAX: usize = 200;

/// Where what a function says goes.
pub(crate) struct Outlet {
    given: Option<Announcement>,
    publisher: Option<Publisher>,
}

impl Outlet {
    /// Opens it.
    pub(crate) fn open(
        whose: String,
        spec: &OutletSpec,
        (client, peers, hosting): (&Client, &Peers, &Hosting),
    ) -> Result<Outlet, Error> {
        let given = spec.give.as_ref().map(|profile| {
            let journal = Arc::clone(&hosting.journal);
            client.announce_with(peers, profile, move |met| {
                if let verge::Met::Unfit { why, .. } | verge::Met::Refused { why, .. } = met {
                    journal.warn(&format!("{whose}: what it gives is not taken: {why}"));
                }
            })
        });
        let publisher = spec.topic.as_ref().map(|topic| client.publisher_as_configured(topic));
        Ok(Outlet { given: given.transpose()?, publisher: publisher.transpose()? })
    }

    /// Waits for who has just been started and is to want what this gives. Returns whether somebody does.
    pub(crate) fn wait(&self) -> bool {
        if self.is_wanted() {
            // By one that is just about to end.
            std::thread::sleep(ENDS_WITHIN);
        }
        let until = Instant::now() + PUBLISHES_WITHIN;
        while !self.is_wanted() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(SUBSCRIBES_WITHIN);
        true
    }

    /// Publishes something.
    pub(crate) fn publish(&self, payload: &[u8]) -> Result<(), Error> {
        let until = Instant::now() + PUBLISHES_WITHIN;
        if let Some(given) = &self.given {
            // Nobody may want it, which is right.
            patiently(until, || given.publish(payload).map(drop))?;
        }
        self.publisher
            .as_ref()
            .map_or(Ok(()), |publisher| patiently(until, || publisher.publish(payload).map(drop)))
    }

    /// Whether somebody has to want what it gives.
    pub(crate) fn gives(&self) -> bool {
        self.given.is_some()
    }

    /// Whether somebody does.
    pub(crate) fn is_wanted(&self) -> bool {
        self.given.as_ref().is_some_and(Announcement::is_wanted)
    }
}

/// How long it is waited before one that has not come is started again.
const STARTS_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// A function that ends so soon may have ended.
const NEARLY: Duration = Duration::from_millis(500);

/// A function that a rule starts.
pub(crate) struct Starter {
    name: String,
    lasts: Span,
    /// When it was started last.
    at: Option<Instant>,
}

impl Starter {
    pub(crate) fn new(name: &str, lasts: Span) -> Starter {
        Starter { name: name.to_owned(), lasts, at: None }
    }

    /// Starts it, unless it has just been started and is there: it goes on so long after the last time, more or less half of it. Returns whether it
    /// may have ended before.
    pub(crate) fn start(&mut self, peers: &Peers, is_there: bool) -> Result<bool, Error> {
        let half = Duration::from_nanos(self.lasts.as_nanos_u64() / 2);
        let rests = if is_there { half } else { STARTS_AGAIN_AFTER.min(half) };
        if self.at.is_some_and(|at| at.elapsed() < rests) {
            return Ok(false);
        }
        let is_new = !is_there || self.at.is_none_or(|at| at.elapsed() + NEARLY >= half * 2);
        peers.start_function(&self.name, Some(self.lasts))?;
        self.at = Some(Instant::now());
        Ok(is_new)
    }
}

fn patiently(until: Instant, mut publish: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match publish() {
            Err(error) if error.is_retryable() && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Alarms of one function.
pub(crate) struct Alarms {
    since: Instant,
    count: u32,
}

impl Alarms {
    pub(crate) fn new() -> Alarms {
        Alarms { since: Instant::now(), count: 0 }
    }

    /// Says one in the log, unless there are too many.
    pub(crate) fn say(&mut self, journal: &dyn Journal, whose: &str, said: &[u8]) -> Result<(), String> {
        if self.since.elapsed() >= Duration::from_secs(1) {
            (self.since, self.count) = (Instant::now(), 0);
        }
        self.count += 1;
        if self.count > ALARMS_MAX {
            return Err(format!("more than {ALARMS_MAX} alarms in a second: the others were not said"));
        }
        journal.warn(&format!("{whose}: {}", shown(said, SAID_MAX)));
        Ok(())
    }
}

/// A message as a line of text, cut off.
pub(crate) fn shown(message: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(message);
    let letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut shown: String = letters.take(most).collect();
    if text.chars().nth(most).is_some() {
        shown.push_str("...");
    }
    shown
}
