//! What a site missed of another one comes to it afterwards: real processes, whose router is gone for a while.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Family, Load, PATIENT, Pair, Receiver, Site, wait_until};

/// What makes a pair a site that keeps its topics, whose router is that.
fn kept(name: &str, router: &Site, journal: &std::path::Path) -> String {
    let [first, _, second, _] = router.ports;
    format!(
        "{PATIENT}[site]\nname = \"{name}\"\njournal = \"{}\"\n[routers.r1]\naddress = \"127.0.0.1:{first}\"\n\
         partner = \"127.0.0.1:{second}\"\n[[topic]]\nfilter = \"kept/+\"\nperiod = \"100ms\"\nretain = 5\nkeep = \"1h\"\n",
        journal.display()
    )
}

/// What is published before the way is open has nobody to go to.
const OPENING: u64 = 10;

/// Until what was missed has come, far longer than it takes.
const ALL_COMES: Duration = Duration::from_secs(40);

/// How often each message has come: by topic and the number in its payload, live and as backlog.
type Came = Arc<Mutex<BTreeMap<(String, u64), [u32; 2]>>>;

/// Messages of these topics that have not come, and those that came more than once.
fn wrong(came: &Came, published: &BTreeMap<String, u64>) -> Vec<String> {
    let came = came.lock().unwrap();
    let each =
        published.iter().flat_map(|(topic, count)| (OPENING..*count).map(move |number| (topic, number)));
    let times = |topic: &String, number| came.get(&(topic.clone(), number)).copied().unwrap_or_default();
    let wrong = each.map(|(topic, number)| (topic, number, times(topic, number)));
    let wrong = wrong.filter(|(.., [live, backlog])| live + backlog != 1);
    wrong.map(|(topic, number, times)| format!("{topic} {number}: {times:?}")).collect()
}

/// Nothing is missing and nothing came twice, also after the deaths of primaries meanwhile and afterwards.
#[test]
fn what_was_published_while_the_router_was_away_comes_once() {
    let mut router = Pair::start(PATIENT);
    let journals = std::env::temp_dir().join(format!("verge-backlog-{}", std::process::id()));
    let mut north = Pair::start(&kept("north", &router.site, &journals.join("north")));
    let mut south = Pair::start(&kept("south", &router.site, &journals.join("south")));
    [&router, &north, &south].iter().for_each(|pair| _ = pair.wait_for_protection());
    let historian = south.site.client();
    let came = Came::default();
    for (way, filter) in ["kept/+", "$backlog/kept/+"].into_iter().enumerate() {
        let book = Arc::clone(&came);
        let record = move |delivery: &verge::Delivery<'_>| {
            let topic = delivery.topic.trim_start_matches("$backlog/").to_owned();
            let number = u64::from_le_bytes(delivery.payload[..8].try_into().unwrap());
            book.lock().unwrap().entry((topic, number)).or_default()[way] += 1;
        };
        historian.subscribe_with(filter, record).unwrap();
    }
    let family = Family { topics: 10, ..Family::patient()[0] };
    let mut load = Load::start(&north.site, &[family]);
    // Somebody at the site that publishes, who is not cut off.
    let witness = Receiver::start(&north.site, "kept/+");
    let latest = |way: usize| {
        let came = came.lock().unwrap();
        came.iter().filter(|(_, times)| times[way] > 0).map(|((_, number), _)| *number).max().unwrap_or(0)
    };
    let advance = |what: &str, by: u64| {
        let before = latest(0);
        wait_until(what, || latest(0) >= before + by);
    };
    // Places are known after the first lists.
    advance("messages to cross", 120);
    for dies_after in [false, true] {
        let [first, second] = [0, 1];
        router.kill(first);
        router.kill(second);
        let primary = north.wait_for_protection();
        if dies_after {
            witness.wait_for_more(&load.topics, 20);
            north.kill(primary);
            north.wait_for_reign(1 - primary);
        }
        witness.wait_for_more(&load.topics, 50);
        router.restart(first);
        router.restart(second);
        let before = latest(1);
        wait_until("what was missed", || latest(1) > before + 20);
        if dies_after {
            north.restart(primary);
            let primary = south.wait_for_protection();
            south.kill(primary);
            south.wait_for_reign(1 - primary);
            south.restart(primary);
        }
        advance("live messages", 50);
    }
    let published = load.stop();
    let until = Instant::now() + ALL_COMES;
    wait_until("everything to come, or to be too late", || {
        wrong(&came, &published).is_empty() || Instant::now() > until
    });
    assert_eq!(wrong(&came, &published), Vec::<String>::new());
    let log = south.broker(0).log() + &north.broker(0).log();
    assert!(!log.contains("does not keep") && !log.contains("refuses"), "{log}");
    let _ = std::fs::remove_dir_all(&journals);
}

#[test]
fn what_is_kept_wants_a_journal_and_the_broker_runs_without() {
    let topic = "[[topic]]\nfilter = \"kept/#\"\nperiod = \"1s\"\nkeep = \"1h\"\n";
    Site::new(topic).run(&["config", "show"]).must(2, &["`kept/#` is to be kept", "site.journal"]);
    let site = "[site]\nname = \"n\"\n[routers.r1]\naddress = \"127.0.0.1:1\"\n";
    Site::new(&format!("{site}{topic}")).run(&["config", "show"]).must(2, &["has no journal"]);
    let journal = site.replace("[routers", "journal = \"/proc/none\"\n[routers");
    let site = Site::new(&format!("{journal}{topic}"));
    site.run(&["config", "show"]).must(0, &["/proc/none"]);
    // What is live goes on.
    let broker = site.start(0);
    wait_until("the reign", || broker.log().contains("this broker is primary"));
    let log = broker.log();
    assert!(
        log.contains("nothing is kept until this broker is started again: site.journal /proc/none/a"),
        "{log}"
    );
}
