//! Subscribers to whom nothing is promised, with real processes: they are told so, they get messages, and they take no time from others.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use contract::{Contract, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use support::{Pair, Site, wait_until};
use verge::{Client, Needs, Publisher};

/// A pair whose time is out soon, since writing takes long.
fn tight() -> Pair {
    let site = Site::new("");
    let config = std::fs::read_to_string(&site.config).unwrap();
    let dear = "write_cost = \"1ms\"\nsubscriptions = \"best-effort\"\nshare = 1.0";
    let tight = config.replace("write_cost = \"5us\"", dear);
    assert_ne!(tight, config);
    site.folder.write("verge.toml", tight);
    Pair::start_on(site)
}

/// A client that counts what comes.
struct Counting {
    client: Client,
    count: Arc<AtomicU64>,
}

impl Counting {
    fn new(pair: &Pair) -> Counting {
        let (client, count) = (pair.site.client(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&count);
        let counts = move |_: &verge::Delivery<'_>| _ = counted.fetch_add(1, Ordering::Relaxed);
        client.subscribe_with("t", counts).unwrap();
        Counting { client, count }
    }

    /// What the broker says of how it is served.
    fn told(&self) -> Option<String> {
        self.client.dropped_needs().unwrap().pop()
    }
}

/// Publishes every 20 ms until it is dropped.
struct Publishing(Arc<AtomicBool>);

impl Publishing {
    fn start(publisher: Publisher) -> Publishing {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let _ = publisher.publish(b"x");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Publishing(ends)
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn for_whom_there_is_no_time_is_served_last_and_told_so_and_goes_on_after_a_fail_over() {
    let mut pair = tight();
    let reigns = pair.wait_for_protection();
    let contract = Contract::every(Span::millis(20)).deadline(Span::millis(60)).tolerate(3).retain(20);
    let client = pair.site.client();
    let _publishing = Publishing::start(client.publisher("t", contract).unwrap());
    let mut clients = Vec::new();
    while clients.iter().filter(|(_, told): &&(Counting, Option<String>)| told.is_some()).count() < 2 {
        assert!(clients.len() < 60, "there is no end of time");
        let counting = Counting::new(&pair);
        let told = counting.told();
        clients.push((counting, told));
    }
    let says = |told: &Option<String>| {
        told.as_ref().is_none_or(|words| words.contains("served as best effort: not schedulable"))
    };
    assert!(clients.iter().all(|(_, told)| says(told)) && clients[0].1.is_none());
    let all_get_more = |what: &str| {
        let had: Vec<u64> = clients.iter().map(|(one, _)| one.count.load(Ordering::Relaxed)).collect();
        let more = |((one, _), had): (&(Counting, Option<String>), &u64)| {
            one.count.load(Ordering::Relaxed) > had + 20
        };
        wait_until(what, || clients.iter().zip(&had).all(more));
    };
    all_get_more("everybody to be served");
    assert!(pair.broker(reigns).log().contains("is served as best effort: not schedulable"));
    let urgent = Needs { deadline: Some(Span::millis(50)), ..Needs::NONE };
    let refused = pair.site.client().subscribe_needing("t", urgent).err().map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|words| words.contains("not schedulable")), "{refused:?}");
    pair.kill(reigns);
    pair.wait_for_reign(1 - reigns);
    all_get_more("everybody to be served by the other broker");
}

#[test]
fn who_asks_for_best_effort_is_served_on_the_command_line_too() {
    let pair = Pair::start("");
    pair.wait_for_protection();
    let client = pair.site.client();
    let _publishing =
        Publishing::start(client.publisher("t", Contract::every(Span::millis(20)).retain(20)).unwrap());
    let ran = pair.site.run(&["sub", "-t", "#", "--best-effort", "-C", "5", "-v"]);
    ran.must(0, &["t x"]);
    pair.site
        .run(&["sub", "-t", "#", "--best-effort", "--deadline", "5ms"])
        .must(2, &["--best-effort", "--deadline"]);
    let both = Needs { loss: Some(0), ..Needs::BEST_EFFORT };
    let refused = client.subscribe_needing("t", both).err().unwrap().to_string();
    assert!(refused.contains("best effort promises nothing"), "{refused}");
}
