//! The thread that keeps a router's place in coordination, beside the broker that reigns.
//!
//! The idea: the broker carries whatever sites bring and want; here is only said that there is this router, which topics it has been given, and that
//! the sites of each are linked, so that who had it before may stop; and what the router carries, by which it is given more. All that this has to
//! know of the broker is whether it reigns, which sites are linked, and what has left it; it is asked ten times a second.

use super::approach::Approach;
use super::coordination::{Coordinated, Service, identity};
use crate::Trouble;
use crate::log::Lines;
use config::{Config, RouterConfig};
use contract::{Span, Time};
use crossbeam_channel::{Receiver, Sender, bounded};
use federation::{
    Holder, LeaderNews, Load, MemberNews, Participant, Request, Router, RouterNews, RouterSettings, Ticket,
};
use host::{Helpers, now};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the broker is asked.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Over which time is measured what the router carries; others are told as often, where it has changed.
const LOADS_EVERY: Span = Span::secs(10);
/// A figure that differs by no more than a part in so many is not told: all sites of a router hear of what it says.
const MATTERS: u64 = 4;

/// What is asked of the broker.
pub struct Seen {
    /// The epoch in which it reigns, if it does.
    pub reign: Option<u64>,
    /// Sites whose links are connected.
    pub sites: BTreeSet<String>,
    /// Bytes that have left it since it began, whoever they were for.
    pub sent: u64,
}

/// Questions on their way to the data thread.
pub struct Questions {
    asked: Receiver<()>,
    answers: Sender<Seen>,
}

impl Questions {
    /// Answers what has been asked.
    pub fn answer(&self, look: impl FnOnce() -> Seen) {
        if self.asked.try_recv().is_ok() {
            // There is room for one, and who asks fetches it; or the broker is ending.
            _ = self.answers.try_send(look());
        }
    }
}

/// Starts the thread, if these brokers are a router. What is readable when there is a question wakes the data thread.
pub fn start(
    config: &Config,
    lines: &Lines,
    helpers: &Helpers,
) -> Result<Option<(Questions, OwnedFd)>, Trouble> {
    let Some(router) = &config.router else { return Ok(None) };
    let failed = |error: rustix::io::Errno| Trouble(format!("cannot make a bell: {error}"));
    let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(failed)?;
    let rings = bell.try_clone().map_err(|error| Trouble(error.to_string()))?;
    let (ask, asked) = bounded(1);
    let (answers, answered) = bounded(1);
    let (ring, rung) = bounded(1);
    // Where one ring waits, another says nothing more.
    let wake = Arc::new(move || _ = ring.try_send(()));
    let service = Service::start(config, lines, helpers, Approach::direct(false), wake)?;
    let mut seat = Seat {
        router: router.clone(),
        identity: identity(config),
        session: config.coordination.as_ref().map_or(Span::ZERO, |service| service.session),
        reigning: None,
        meter: None,
        lines: lines.clone(),
        told: String::new(),
    };
    helpers.hire("routing", move || -> Result<(), String> {
        let (mut service, mut looks_at) = (service, Instant::now());
        loop {
            host::end_on_purpose("routing")?;
            if Instant::now() >= looks_at {
                looks_at = Instant::now() + LOOKS_EVERY;
                // One that does not answer in time has much to do: what was known goes on.
                if ask.try_send(()).is_ok() {
                    _ = rustix::io::write(&rings, &1_u64.to_ne_bytes());
                }
            }
            while let Ok(seen) = answered.try_recv() {
                seat.look(&seen);
            }
            seat.turn();
            service.turn(&mut seat);
            _ = rung.recv_timeout(looks_at.saturating_duration_since(Instant::now()));
        }
    })?;
    Ok(Some((Questions { asked, answers }, bell)))
}

/// What a router has done since its process began.
#[derive(Clone, Copy)]
struct Reading {
    /// By a clock that nobody sets.
    at: Time,
    /// Topics that it has then.
    topics: u64,
    /// Bytes that have left it.
    sent: u64,
    /// Processor time.
    processor: Span,
}

impl Reading {
    /// What it has carried since an earlier one, and for how many topics that was.
    fn since(&self, earlier: &Reading, sites: usize) -> Load {
        let topics = self.topics.midpoint(earlier.topics);
        let passed = self.at.since(earlier.at).0.max(1) as u128;
        let each_second = u128::from(self.sent.saturating_sub(earlier.sent)) * 1_000_000_000 / passed;
        let busy = (self.processor - earlier.processor).0.max(0) as u128 * 1_000 / passed;
        Load {
            topics: u32::try_from(topics).unwrap_or(u32::MAX),
            connections: u32::try_from(sites).unwrap_or(u32::MAX),
            bytes_per_second: u64::try_from(each_second).unwrap_or(u64::MAX),
            processor_permille: u32::try_from(busy).unwrap_or(u32::MAX),
        }
    }
}

/// Whether what a router carries is no more as it was told.
fn matters(told: &Load, load: &Load) -> bool {
    let differs = |told: u64, now: u64, least: u64| told.abs_diff(now) > (told / MATTERS).max(least);
    told.connections != load.connections
        || differs(told.topics.into(), load.topics.into(), 0)
        || differs(told.bytes_per_second, load.bytes_per_second, 1_000)
        || differs(told.processor_permille.into(), load.processor_permille.into(), 10)
}

/// What this process has had of processors.
fn processor_time() -> Span {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Span::secs(time.tv_sec) + Span::nanos(time.tv_nsec)
}

/// The router while its broker reigns.
struct Seat {
    router: RouterConfig,
    identity: String,
    session: Span,
    reigning: Option<(u64, Box<Router>)>,
    /// What the router had done when it was looked at last, and what it said of that.
    meter: Option<(Reading, Load)>,
    lines: Lines,
    /// What has been told of trouble last.
    told: String,
}

impl Seat {
    /// What the broker has answered.
    fn look(&mut self, seen: &Seen) {
        if seen.reign != self.reigning.as_ref().map(|(reign, _)| *reign) {
            self.reigning = seen.reign.map(|reign| (reign, Box::new(self.claim(reign))));
            self.meter = None;
        }
        let Some((_, router)) = &mut self.reigning else { return };
        router.linked(now(), &seen.sites);
        let at = host::monotonic();
        if self.meter.as_ref().is_some_and(|(before, _)| at.since(before.at) < LOADS_EVERY) {
            return;
        }
        let topics = router.topics().count() as u64;
        let reading = Reading { at, topics, sent: seen.sent, processor: processor_time() };
        let mut told = Load::default();
        if let Some((before, known)) = &self.meter {
            let load = reading.since(before, seen.sites.len());
            told = *known;
            if matters(known, &load) {
                told = load;
                router.tell_load(now(), load);
            }
        }
        self.meter = Some((reading, told));
    }

    fn claim(&self, reign: u64) -> Router {
        let holder = Holder { identity: self.identity.clone(), reign };
        let places: Vec<String> = self.router.places.iter().map(ToString::to_string).collect();
        let settings = RouterSettings::new(&self.router.name, holder, &places.join(","));
        let (only, topics_max) = (self.router.topics.clone(), Some(self.router.topics_max));
        Router::new(RouterSettings { only, topics_max, policy: self.router.policy, ..settings })
    }

    fn turn(&mut self) {
        let Some((_, router)) = &mut self.reigning else { return };
        if router.next_deadline() <= now() {
            router.handle_timeout(now());
        }
        self.say_news();
    }

    fn say_news(&mut self) {
        let name = &self.router.name;
        while let Some(news) = self.reigning.as_mut().and_then(|(_, router)| router.poll_news()) {
            let said = match news {
                RouterNews::Member(MemberNews::Claimed) => Ok("it is known by its name".to_owned()),
                RouterNews::Member(MemberNews::NameTaken) => Err(
                    "another router holds its name: give each a name of its own (router.name). It is tried again"
                        .to_owned(),
                ),
                RouterNews::Member(MemberNews::Deposed) => {
                    Err(format!("what holds its name is of a later reign: it is claimed again when that has gone, in {} at most", self.session))
                }
                RouterNews::Member(MemberNews::Layout { found }) => Err(format!(
                    "the tree of the coordination service is not of this release (`{found}`): give coordination.namespace another one"
                )),
                RouterNews::Member(MemberNews::Forbidden { path, why }) => Err(format!("{path}: {why}")),
                RouterNews::Leader(LeaderNews::Leads) => Ok("it leads the routers".to_owned()),
                RouterNews::Leader(LeaderNews::Follows) => Ok("it leads the routers no longer".to_owned()),
                RouterNews::Leader(LeaderNews::Gave { topics }) => {
                    Ok(format!("it has given {topics} topics to routers"))
                }
                RouterNews::Leader(LeaderNews::Hindered) => {
                    Err("the coordination service refuses what it writes. It is tried again".to_owned())
                }
                _ => continue,
            };
            match said {
                Ok(text) => self.lines.say(&format!("router {name}: {text}")),
                Err(text) => self.lines.warn(&format!("router {name}: {text}")),
            }
        }
    }
}

impl Coordinated for Seat {
    fn wants(&self) -> Option<u64> {
        self.reigning.as_ref().map(|(reign, _)| *reign)
    }

    fn poll(&mut self) -> Option<(Ticket, Request)> {
        self.reigning.as_mut()?.1.poll_request()
    }

    fn tell(&mut self, tell: &mut dyn FnMut(&mut dyn Participant)) {
        if let Some((_, router)) = &mut self.reigning {
            tell(&mut **router);
        }
        self.say_news();
    }

    fn trouble(&mut self, trouble: Option<&str>) {
        let text = trouble.unwrap_or_default();
        if self.told != text {
            self.told = text.to_owned();
            if !text.is_empty() {
                self.lines.warn(&format!("router {}: {text}", self.router.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_router_carries_is_reckoned_by_the_second() {
        let reading = |seconds: u64, topics, sent, millis| Reading {
            at: Time(seconds * 1_000_000_000),
            topics,
            sent,
            processor: Span::millis(millis),
        };
        let (before, after) = (reading(5, 5, 1_000, 300), reading(15, 9, 1_241_000, 4_660));
        let load = Load { topics: 7, connections: 3, bytes_per_second: 124_000, processor_permille: 436 };
        assert_eq!(after.since(&before, 3), load);
        let idle = reading(5, 0, 1_000, 300);
        assert_eq!(idle.since(&idle, 0), Load::default());
    }

    #[test]
    fn only_what_matters_is_told() {
        let told = Load { topics: 100, connections: 3, bytes_per_second: 100_000, processor_permille: 100 };
        let alike = Load { topics: 80, connections: 3, bytes_per_second: 124_000, processor_permille: 80 };
        assert!(!matters(&told, &told) && !matters(&told, &alike));
        for other in [
            Load { connections: 4, ..told },
            Load { topics: 70, ..told },
            Load { bytes_per_second: 130_000, ..told },
            Load { processor_permille: 130, ..told },
            Load::default(),
        ] {
            assert!(matters(&told, &other), "{other:?}");
        }
        let idle = Load { bytes_per_second: 900, processor_permille: 8, ..Load::default() };
        assert!(!matters(&Load::default(), &idle));
    }
}
