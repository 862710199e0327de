//! Two sites and a router, as real processes: what somebody at one site publishes comes to the other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use contract::{Span, Time};
use mqtt::packet::Version;
use mqtt::testing::{FromBroker, Heard, QoS, connect, subscribe};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU16;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Family, Load, PATIENT, Pair, Receiver, Site, free_ports, http, program, wait_for, wait_until};
use verge::Delivery;

/// What makes a pair a site, whose router is that.
fn joined(name: &str, router: &Site) -> String {
    let [_, _, second, _] = router.ports;
    format!(
        "{PATIENT}[site]\nname = \"{name}\"\n[routers.r1]\naddress = \"127.0.0.1:{}\"\npartner = \"127.0.0.1:{second}\"\n",
        router.ports[0]
    )
}

/// A topic with its own messages, until one of them has crossed.
fn wait_for_a_way(from: &Site, receiver: &Receiver) {
    let family = Family { name: "probe", topics: 1, ..Family::patient()[0] };
    let mut probe = Load::start(from, &[family]);
    wait_until("the first message to cross", || receiver.least(&probe.topics) > 0);
    probe.stop();
}

#[test]
fn what_is_published_at_one_site_comes_to_another_whichever_primary_dies() {
    let mut router = Pair::start(PATIENT);
    let mut north = Pair::start(&joined("north", &router.site));
    let mut south = Pair::start(&joined("south", &router.site));
    [&router, &north, &south].iter().for_each(|pair| _ = pair.wait_for_protection());
    let receiver = Receiver::start(&south.site, "#");
    // And a screen that wants to see each topic now and then.
    let seen: Arc<Mutex<BTreeMap<String, Vec<Time>>>> = Arc::default();
    let (screen, sees) = (south.site.client(), Arc::clone(&seen));
    let sees = move |delivery: &Delivery<'_>| {
        sees.lock().unwrap().entry(delivery.topic.to_owned()).or_default().push(delivery.created);
    };
    screen.subscribe_with("$every/500ms/#", sees).unwrap();
    wait_for_a_way(&north.site, &receiver);
    let families: Vec<Family> = Family::patient().into_iter().take(2).collect();
    let mut load = Load::start(&north.site, &families);
    receiver.wait_for_more(&load.topics, 10);
    for victim in [&mut north, &mut south, &mut router] {
        let primary = victim.wait_for_protection();
        victim.kill(primary);
        victim.wait_for_reign(1 - primary);
        receiver.wait_for_more(&load.topics, 10);
        victim.restart(primary);
        victim.wait_for_protection();
    }
    receiver.wait_for_more(&load.topics, 10);
    let published: BTreeMap<String, u64> = load.stop();
    receiver.must_have(&published);
    for topic in published.keys() {
        let seen = seen.lock().unwrap().get(&format!("$every/500ms/{topic}")).cloned().unwrap_or_default();
        // Where the primary of the publishing site dies, it begins anew.
        let early = seen.windows(2).filter(|pair| pair[1].since(pair[0]) < Span::millis(490)).count();
        assert!(seen.len() > 3 && early <= 1, "{topic}: {seen:?}");
    }
    for pair in [&mut north, &mut south] {
        let log = pair.broker(0).log() + &pair.broker(1).log();
        assert!(log.contains("this uplink carries") && log.contains("the router r1 is reached"), "{log}");
        assert!(!log.contains("does not carry") && !log.contains("name of its own"), "{log}");
    }
}

/// Each router is a broker alone, and hangs for longer than what is retained would cover.
#[test]
fn what_goes_by_two_routers_comes_while_either_of_them_hangs() {
    let routers = [Site::new(PATIENT), Site::new(PATIENT)];
    let brokers = [0, 1].map(|router| routers[router].start(0));
    let joined = |name: &str| {
        let address = |router: usize| {
            format!("[routers.r{router}]\naddress = \"127.0.0.1:{}\"\n", routers[router].ports[0])
        };
        let topic = "[[topic]]\nfilter = \"kept/#\"\nperiod = \"100ms\"\nretain = 5\npaths = 2\n";
        format!("{PATIENT}[site]\nname = \"{name}\"\n{}{}{topic}", address(0), address(1))
    };
    let (mut north, south) = (Pair::start(&joined("north")), Pair::start(&joined("south")));
    [&north, &south].iter().for_each(|pair| _ = pair.wait_for_protection());
    let receiver = Receiver::start(&south.site, "#");
    wait_for_a_way(&north.site, &receiver);
    let mut load = Load::start(&north.site, &Family::patient()[..1]);
    receiver.wait_for_more(&load.topics, 10);
    for (number, broker) in brokers.iter().enumerate() {
        let mut told = |says: &str| {
            let says = format!("the router r{number} is {says}");
            (0..2).map(|broker| north.broker(broker).log().matches(&says).count()).sum::<usize>()
        };
        let [reached, missed] = ["reached", "not reached"].map(&mut told);
        broker.signal(Signal::STOP);
        wait_until("the router is missed", || told("not reached") > missed);
        receiver.wait_for_more(&load.topics, 10);
        broker.signal(Signal::CONT);
        wait_until("the router is reached again", || told("reached") > reached);
        receiver.wait_for_more(&load.topics, 30);
    }
    let published = load.stop();
    receiver.must_have(&published);
}

#[test]
fn a_site_says_how_it_is_joined_and_a_broker_without_one_that_it_is_not() {
    let [port, other] = free_ports::<2>();
    let router = Site::new(PATIENT);
    let _router = router.start(0);
    let north = Site::new(&joined("north", &router));
    let text = std::fs::read_to_string(&north.config).unwrap();
    let text = text.replacen("[brokers.a]\n", &format!("[brokers.a]\nhttp = \"127.0.0.1:{port}\"\n"), 1);
    std::fs::write(&north.config, text).unwrap();
    let broker = north.start(0);
    wait_until("its HTTP port", || broker.log().contains("metrics at"));
    let report = wait_for("the router to be reached", || {
        let (code, body) = http::get(port, "/api/v1/site");
        let report: serde_json::Value = (code == 200).then(|| serde_json::from_str(&body).ok())??;
        (report["routers"][0]["reached"] == true).then_some(report)
    });
    assert_eq!((&report["site"], &report["carries"]), (&"north".into(), &true.into()));
    assert!(report["routers"][0]["clock_within_ns"].as_i64().unwrap() > 0, "{report}");
    let shown = north.run(&["site", "status", "-o", "json"]);
    shown.must(0, &["\"carries\": true", "\"trouble\": \"brokers.b.http is not given"]);
    north.run(&["site", "status"]).must(0, &["site north, broker a: its uplink carries", "r1"]);
    let second = first_second(&north);
    assert_eq!(
        (&second["broker"], &second["routers"][0]["reached"]),
        (&"a".into(), &true.into()),
        "{second}"
    );
    let alone = Site::new("");
    let text = std::fs::read_to_string(&alone.config).unwrap();
    let text = text.replacen("[brokers.a]\n", &format!("[brokers.a]\nhttp = \"127.0.0.1:{other}\"\n"), 1);
    std::fs::write(&alone.config, text).unwrap();
    let broker = alone.start(0);
    wait_until("its HTTP port", || broker.log().contains("metrics at"));
    let (code, body) = http::get(other, "/api/v1/site");
    assert!(code == 404 && body.contains("site.name"), "{code} {body}");
    alone.run(&["site", "status"]).must(2, &["give it site.name"]);
    alone.run(&["site", "top"]).must(2, &["give it site.name"]);
}

/// What `verge site top` says first.
fn first_second(site: &Site) -> serde_json::Value {
    let config = ["--config".as_ref(), site.config.as_os_str()];
    let words = ["site", "top", "-o", "json"].map(OsStr::new);
    let mut top = program(config.into_iter().chain(words)).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    for line in BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap) {
        text.push_str(&line);
        if line == "}" {
            break;
        }
    }
    top.kill().unwrap();
    top.wait().unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What a client of MQTT, which is connected and has subscribed alarms, gets until one says this.
fn alarm_that_says(stream: &mut TcpStream, reader: &mut FromBroker, says: &str) -> String {
    wait_for(says, || {
        while let Some(heard) = reader.next_heard().unwrap() {
            if let Heard::Message(message) = heard {
                let text = String::from_utf8_lossy(&message.payload).into_owned();
                if text.contains(says) {
                    return Some(text);
                }
            }
        }
        let mut bytes = [0; 4096];
        if let Ok(read) = stream.read(&mut bytes) {
            assert!(read > 0, "the broker has closed");
            reader.feed(&bytes[..read]);
        }
        None
    })
}

#[test]
fn a_router_that_goes_and_comes_back_is_an_alarm_on_the_sites_own_broker() {
    let [port] = free_ports::<1>();
    let router = Site::new(PATIENT);
    let mut running = router.start(0);
    let north = Site::new(&format!("{}[brokers.a]\nmqtt = \"127.0.0.1:{port}\"\n", joined("north", &router)));
    let text = std::fs::read_to_string(&north.config).unwrap();
    let (head, mqtt) = text.rsplit_once("[brokers.a]\n").unwrap();
    std::fs::write(&north.config, head.replacen("[brokers.a]\n", &format!("[brokers.a]\n{mqtt}"), 1))
        .unwrap();
    let broker = north.start(0);
    wait_until("the router to be reached", || broker.log().contains("the router r1 is reached"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut reader = FromBroker::new(Version::V5);
    stream.write_all(&connect(Version::V5, "panel", true).unwrap()).unwrap();
    let first = NonZeroU16::new(1).unwrap();
    stream.write_all(&subscribe(Version::V5, first, "$SYS/verge/alarms", QoS::AtMostOnce).unwrap()).unwrap();
    wait_for("the subscription", || {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap_or(0);
        reader.feed(&bytes[..read]);
        std::iter::from_fn(|| reader.next_heard().unwrap()).find(|heard| matches!(heard, Heard::Suback(..)))
    });
    running.kill();
    let alarm = alarm_that_says(&mut stream, &mut reader, "router_unreached");
    let alarm: serde_json::Value = serde_json::from_str(&alarm).unwrap();
    assert_eq!((&alarm["router"], &alarm["severity"]), (&"r1".into(), &"warn".into()), "{alarm}");
    assert!(alarm["text"].as_str().unwrap().contains("site north: the router r1 is not reached"), "{alarm}");
    let _again = router.start(0);
    let alarm = alarm_that_says(&mut stream, &mut reader, "router_reached");
    assert!(alarm.contains("\"severity\":\"info\""), "{alarm}");
}

#[test]
fn what_is_wrong_with_a_sites_configuration_is_said_with_a_remedy() {
    for (more, says) in [
        ("[site]\nname = \"north\"\n", "has no routers"),
        ("[routers.r1]\naddress = \"127.0.0.1:1\"\n", "site.name is not"),
        ("[site]\nname = \"a/b\"\n[routers.r1]\naddress = \"127.0.0.1:1\"\n", "site.name"),
        ("[site]\nname = \"n\"\nshare = [\"a/#/b\"]\n[routers.r1]\naddress = \"127.0.0.1:1\"\n", "`#`"),
        (
            "[site]\nname = \"n\"\nuser = \"x\"\n[routers.r1]\naddress = \"127.0.0.1:1\"\n",
            "site.password_file",
        ),
        (
            "[site]\nname = \"n\"\n[uplink]\ntls = true\n[routers.r1]\naddress = \"127.0.0.1:1\"\n",
            "give tls.ca",
        ),
    ] {
        let site = Site::new(more);
        site.run(&["config", "show"]).must(2, &[says]);
    }
}
