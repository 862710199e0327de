//! What a rule does when it fires.

use crate::runner::Hosting;
use crate::spec::Rule;
use peer_host::Journal;
use std::time::{Duration, Instant};
use verge::{Announcement, Client, Error, Peers, Publisher};

/// How long a message may take to be published; it is given up then.
const PUBLISHES_WITHIN: Duration = Duration::from_secs(5);
/// Alarms of one function that the log says in a second.
const ALARMS_MAX: u32 = 10;
/// The most letters of a message that the log says.
const SAID_MAX: usize = 200;

/// Where what a rule says goes.
pub(crate) struct Outlet {
    given: Option<Announcement>,
    publisher: Option<Publisher>,
}

impl Outlet {
    /// Opens them.
    pub(crate) fn open(
        name: &str,
        rule: &Rule,
        (client, peers, hosting): (&Client, &Peers, &Hosting),
    ) -> Result<Outlet, Error> {
        let given = rule.give.as_ref().map(|profile| {
            let (journal, whose) =
                (hosting.journal.clone(), format!("function {name}, rule {}", rule.when.name));
            client.announce_with(peers, profile, move |met| {
                if let verge::Met::Unfit { why, .. } | verge::Met::Refused { why, .. } = met {
                    journal.warn(&format!("{whose}: what it gives is not taken: {why}"));
                }
            })
        });
        let publisher = rule.topic.as_ref().map(|topic| client.publisher_as_configured(topic));
        Ok(Outlet { given: given.transpose()?, publisher: publisher.transpose()? })
    }

    /// Publishes what the rule says.
    pub(crate) fn publish(&self, payload: &[u8]) -> Result<(), Error> {
        let until = Instant::now() + PUBLISHES_WITHIN;
        // Nobody may want it, which is right.
        self.given.as_ref().map_or(Ok(()), |given| patiently(until, || given.publish(payload).map(drop)))?;
        self.publisher
            .as_ref()
            .map_or(Ok(()), |publisher| patiently(until, || publisher.publish(payload).map(drop)))
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
