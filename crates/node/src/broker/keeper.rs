//! The thread that keeps what this broker's site publishes, and makes good what it has missed; and the thread that syncs its journal.

use super::beside::{Voice, Word};
use super::picture::{Painter, Picture};
use super::uplink::{AtHome, Ring, bell};
use crate::Trouble;
use crate::log::Lines;
use config::{BrokerAddress, Config, JournalConfig, SiteConfig};
use crossbeam_channel::{Receiver, Sender, bounded};
use engine::{Keeper, KeeperNews, KeeperReporter, KeeperSettings, KeeperView, KeptTopics};
use host::{Driver, Helpers, JournalFiles, JournalSync, now, random_number};
use journal::{Event, Journal, State};
use report::{GivenReport, KeeperReport, MissedReport};
use std::path::PathBuf;

type Own = Keeper<JournalFiles, Told>;

/// Starts the keeper, where the site has a journal.
pub fn start(
    config: &Config,
    own: &BrokerAddress,
    (lines, voice): (&Lines, &Voice),
    helpers: &Helpers,
) -> Result<Option<Picture<KeeperReport>>, Trouble> {
    let Some(site) = &config.site else { return Ok(None) };
    let Some(like) = &site.journal else { return Ok(None) };
    let folder = like.folder.join(&own.name);
    let journal = match open(&folder, like) {
        Ok(journal) => journal,
        Err(Trouble(why)) => {
            // What is live goes on.
            let said =
                format!("site {}: nothing is kept until this broker is started again: {why}", site.name);
            voice.clone().tell(&Word::bad(said).alarm("journal_down", &[]));
            return Ok(Some(Picture::of(without(why, like.bytes_max))));
        }
    };
    lines.say(&format!("site {}: its journal is {}", site.name, folder.display()));
    if let Some(plan) = planner::keeping(config).filter(|plan| !plan.kept) {
        lines.say(&format!(
            "note: the journal may have {} bytes, and what is to be kept may take {}: the oldest messages are given up before their time then. See \
             `verge site check`",
            plan.bytes_max, plan.needs_bytes
        ));
    }
    let at_home = AtHome::of(config, own, site)?;
    let told = Told { voice: voice.clone(), site: site.name.clone() };
    let keeper = Keeper::new(settings(config, site, like, &at_home), journal, now(), told);
    let mut driver = Driver::new(keeper, Vec::new())?;
    at_home.reach(&mut driver, Own::peers_of_home, config, lines, helpers)?;
    let (ring, bell) = bell()?;
    driver.wake_with(&bell)?;
    // A journal gives no other order until it has been told of the one before.
    let (orders, to_sync) = bounded(1);
    let (done, synced) = bounded(1);
    helpers.hire("journal sync", move || {
        sync(&to_sync, &done, &ring);
        Ok(())
    })?;
    let (picture, painter) = Picture::new();
    let shown = Shown { bytes_max: like.bytes_max, folder, is_gone: false, voice: voice.clone() };
    helpers.hire("keeper", move || run(driver, &orders, &synced, painter, shown))?;
    Ok(Some(picture))
}

/// The journal in a folder.
fn open(folder: &std::path::Path, like: &JournalConfig) -> Result<Journal<JournalFiles>, Trouble> {
    let refused = |why: String| Trouble(format!("site.journal {}: {why}", folder.display()));
    let files = JournalFiles::open(folder).map_err(|error| refused(error.to_string()))?;
    Journal::open(files, like.settings()).map_err(|error| refused(error.to_string()))
}

fn settings(config: &Config, site: &SiteConfig, like: &JournalConfig, at_home: &AtHome) -> KeeperSettings {
    let beside = at_home.beside as u8;
    let mut settings = KeeperSettings::new(&site.name, beside, config.brokers.len() as u8, now().0);
    for end in [&mut settings.tap, &mut settings.talk] {
        (end.credentials.user, end.credentials.password) = at_home.login.clone();
        end.failover = config.delays.failover;
    }
    let kept = |topic: &config::TopicFamily| KeptTopics {
        filter: topic.rule.filter.clone(),
        keep: topic.keep,
        bytes_max: topic.keep_bytes.unwrap_or(u64::MAX),
        rank: topic.keep_rank,
    };
    settings.keep = config.topics.iter().map(kept).collect();
    settings.want = site.want.clone();
    (settings.history, settings.rate, settings.takes) = (like.history, like.rate, like.takes);
    settings.identity = random_number();
    settings
}

/// Turns until the process ends.
fn run(
    mut driver: Driver<Own>,
    orders: &Sender<JournalSync>,
    synced: &Receiver<(u64, Result<(), String>)>,
    mut painter: Painter<KeeperReport>,
    mut shown: Shown,
) -> Result<(), String> {
    let mut ready = Vec::new();
    loop {
        host::end_on_purpose("keeper")?;
        driver.wait_and_turn(&mut ready).map_err(|error| error.to_string())?;
        driver.with_unsent(|keeper, _| {
            for (ticket, result) in synced.try_iter() {
                keeper.synced(ticket, result);
            }
            if let Some(order) = keeper.poll_sync(now()) {
                match keeper.journal().files().prepare(&order) {
                    Ok(work) => _ = orders.send(work),
                    Err(error) => keeper.synced(order.ticket, Err(error.to_string())),
                }
            }
        });
        painter.draw(now(), || shown.report(driver.node().view()));
    }
}

/// Waits for the disk, and nobody waits for that.
fn sync(orders: &Receiver<JournalSync>, done: &Sender<(u64, Result<(), String>)>, ring: &Ring) {
    for work in orders {
        if done.send(work.run()).is_err() {
            return;
        }
        ring();
    }
}

/// How a keeper is shown.
struct Shown {
    bytes_max: u64,
    folder: PathBuf,
    /// Somebody has removed the folder.
    is_gone: bool,
    voice: Voice,
}

impl Shown {
    fn report(&mut self, view: KeeperView) -> KeeperReport {
        let mut report = report_of(view, self.bytes_max);
        let was_gone = std::mem::replace(&mut self.is_gone, !self.folder.exists());
        if self.is_gone && report.trouble.is_empty() {
            report.trouble = format!(
                "its folder {} has been removed while the broker runs: what is kept is gone when it ends. Start it again",
                self.folder.display()
            );
            if !was_gone {
                let said = format!("the journal: {}", report.trouble);
                self.voice.tell(&Word::bad(said).alarm("journal_down", &[]));
            }
        }
        report
    }
}

/// What is shown where there is no journal although there should be one.
fn without(trouble: String, bytes_max: u64) -> KeeperReport {
    KeeperReport {
        asks: false,
        wanted: 0,
        trouble,
        bytes: 0,
        bytes_max,
        kept: 0,
        not_kept: 0,
        given_up: 0,
        missed: Vec::new(),
        given: Vec::new(),
    }
}

fn report_of(view: KeeperView, bytes_max: u64) -> KeeperReport {
    let missed = view.origins.into_iter().map(|origin| MissedReport {
        site: origin.site.into(),
        heard: origin.heard,
        asks: origin.asks,
        left: origin.left,
        messages: origin.came.messages,
        bytes: origin.came.bytes,
        gone: origin.gone,
    });
    let given = view.given.into_iter().map(|(site, traffic)| GivenReport {
        site,
        messages: traffic.messages,
        bytes: traffic.bytes,
    });
    KeeperReport {
        asks: view.acts,
        wanted: view.wanted,
        trouble: trouble(&view.state).unwrap_or_default(),
        bytes: view.bytes,
        bytes_max,
        kept: view.kept,
        not_kept: view.not_kept,
        given_up: view.given_up,
        missed: missed.collect(),
        given: given.collect(),
    }
}

/// What is wrong with a journal, and what would do.
fn trouble(state: &State) -> Option<String> {
    match state {
        State::Healthy => None,
        State::Full => Some(
            "its disk is full: nothing new is kept until there is room. It is tried again each second"
                .to_owned(),
        ),
        State::Failed(why) => {
            Some(format!("its disk does not do what it is asked for ({why}). It is tried again each second"))
        }
        State::Poisoned(why) => Some(format!(
            "a sync has failed ({why}), so that nobody knows what the disk has: nothing is kept until this broker is started again"
        )),
        _ => Some("it is not well".to_owned()),
    }
}

/// Tells what the keeper has to tell.
struct Told {
    voice: Voice,
    site: String,
}

impl KeeperReporter for Told {
    fn report(&mut self, news: &KeeperNews<'_>) {
        if let Some(word) = self.word(news) {
            self.voice.tell(&word);
        }
    }
}

impl Told {
    fn word<'a>(&self, news: &KeeperNews<'a>) -> Option<Word<'a>> {
        let site = &self.site;
        Some(match *news {
            KeeperNews::Journal(Event::State(state)) => match trouble(state) {
                None => Word::good(format!("site {site}: the journal keeps again what it is to"))
                    .alarm("journal_back", &[]),
                Some(why) => Word::bad(format!("site {site}: the journal: {why}")).alarm("journal_down", &[]),
            },
            KeeperNews::Journal(Event::Damage(damage)) => {
                Word::bad(format!("site {site}: the journal is damaged: {damage}"))
                    .alarm("journal_damaged", &[])
            }
            KeeperNews::Journal(Event::NotRemoved { file, reason }) => Word::bad(format!(
                "site {site}: the journal's {file} is of no more use, and could not be removed: {reason}"
            )),
            KeeperNews::Journal(Event::NotNoted { reason }) => Word::bad(format!(
                "site {site}: the journal could not note how far the site has come ({reason}): after a restart, what came since comes once more"
            )),
            KeeperNews::Homeless { why } => {
                Word::bad(format!("site {site}: the site's own broker does not let its keeper in: {why}"))
                    .alarm("keeper_refused", &[])
            }
            KeeperNews::Unpromised { why } => Word::bad(format!(
                "site {site}: the keeper is served as best effort, and what it misses is not kept: {why}"
            ))
            .alarm("keeper_best_effort", &[]),
            KeeperNews::Refused { topic, why } => {
                Word::bad(format!("site {site}: the site's own broker refuses {topic} to its keeper: {why}"))
                    .alarm("keeper_refused", &[("topic", topic)])
            }
            KeeperNews::Had { site: origin, messages, gone: 0 } => Word::good(format!(
                "site {site}: what was missed of {origin} has come: {messages} messages"
            )),
            KeeperNews::Had { site: origin, messages, gone } => Word::bad(format!(
                "site {site}: what was missed of {origin} has come: {messages} messages; {gone} more are there no longer"
            ))
            .alarm("missed_for_good", &[("site", origin)]),
            _ => return None,
        })
    }
}
