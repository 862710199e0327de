//! Sites and routers that find each other by a real coordination service, as real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

#[path = "../../coordination/tests/service/server.rs"]
mod service;
mod support;

use service::Server;
use support::{Family, Load, PATIENT, Pair, Receiver, Site, wait_until};

/// Long enough for a host that has much to do.
const SESSION: &str = "3s";

fn coordinated(server: &Server, more: &str) -> String {
    format!(
        "{PATIENT}[coordination]\nservers = [\"127.0.0.1:{}\"]\nsession = \"{SESSION}\"\n{more}",
        server.port
    )
}

fn site(server: &Server, name: &str) -> String {
    coordinated(server, &format!("[site]\nname = \"{name}\"\n[uplink]\nretain = 100\n"))
}

fn router(server: &Server, name: &str) -> String {
    coordinated(server, &format!("[router]\nname = \"{name}\"\n"))
}

fn tree(of: &Site) -> serde_json::Value {
    let shown = of.run(&["site", "tree", "-o", "json"]);
    serde_json::from_str(&shown.out).unwrap_or_default()
}

#[test]
fn sites_that_have_not_heard_of_routers_find_them_and_outlive_each() {
    let Some(server) = Server::start() else { return };
    let mut first = Pair::start(&router(&server, "r1"));
    let second = Pair::start(&router(&server, "r2"));
    // Topics are shared among the routers that are known when they come.
    wait_until("both routers are known", || {
        let shown = tree(&first.site);
        ["r1", "r2"].iter().all(|router| shown["routers"][router]["record"].is_object())
    });
    let mut north = Pair::start(&site(&server, "north"));
    let south = Pair::start(&site(&server, "south"));
    let receiver = Receiver::start(&south.site, "#");
    let families: Vec<Family> = Family::patient().into_iter().take(1).collect();
    // What is published before a topic has a router has nobody to go to, as in a site of its own: the first messages open the ways.
    let mut opening = Load::start(&north.site, &families);
    receiver.wait_for_more(&opening.topics, 3);
    let shown = tree(&north.site);
    let topics = shown["topics"].as_object().unwrap();
    let carried = |router: &str| topics.values().filter(|topic| topic["router"] == router).count();
    assert_eq!((topics.len(), carried("r1"), carried("r2")), (20, 10, 10), "{shown}");
    assert!(shown["sites"]["north"].is_u64() && shown["sites"]["south"].is_u64(), "{shown}");
    wait_until("routers say what they carry", || {
        let shown = tree(&north.site);
        let load = |router: &str| shown["routers"][router]["record"]["load"].clone();
        ["r1", "r2"].into_iter().map(load).all(|load| {
            load["topics"] == 10 && load["connections"] == 2 && load["bytes_per_second"].as_u64() > Some(0)
        })
    });
    // A failover of a site and of a router changes nothing there, also when the session of the dead one has ended.
    for pair in [&mut north, &mut first] {
        let primary = pair.wait_for_protection();
        pair.kill(primary);
        pair.wait_for_reign(1 - primary);
        std::thread::sleep(std::time::Duration::from_secs(5));
        receiver.wait_for_more(&opening.topics, 5);
        pair.restart(primary);
        pair.wait_for_protection();
    }
    let after = tree(&north.site);
    assert_eq!(after["topics"], shown["topics"], "no topic has another router or another site");
    // A router that is gone for good is replaced when its session has ended.
    [0, 1].into_iter().for_each(|broker| _ = first.kill(broker));
    wait_until("topics go by the other router", || {
        let shown = tree(&north.site);
        shown["topics"].as_object().unwrap().values().all(|topic| topic["router"] == "r2")
    });
    receiver.wait_for_more(&opening.topics, 10);
    let published = opening.stop();
    let missing = receiver.settle(&published);
    // The first of each may have come before its way was open; later ones are covered by what uplinks retain.
    let number = |text: &String| text.rsplit_once('#').and_then(|(_, number)| number.parse::<u64>().ok());
    let late: Vec<&String> =
        missing.iter().filter(|text| number(text).is_none_or(|number| number > 30)).collect();
    assert!(late.is_empty(), "{late:?}");
    // A router that is to be stopped gives its topics away first.
    let first = Pair::start(&router(&server, "r1"));
    wait_until("the router is known", || tree(&north.site)["routers"]["r1"]["record"].is_object());
    let ran = north.site.run(&["router", "drain", "r2", "--within", "120s"]);
    ran.must(0, &["r2 has no topics any more"]);
    let shown = tree(&north.site);
    assert!(shown["topics"].as_object().unwrap().values().all(|topic| topic["router"] == "r1"), "{shown}");
    north.site.run(&["router", "drain", "r1"]).must(2, &["the only router"]);
    north.site.run(&["router", "drain", "r3"]).must(2, &["no router `r3`"]);
    north.site.run(&["router", "drain", "r2", "--undo"]).must(0, &["is given topics again"]);
    drop(first);
    north.site.run(&["site", "tree"]).must(0, &["kept/0", "r2", "north"]);
    drop(second);
}
