//! Contracts of topics that change while brokers run, as real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use rustix::process::Signal;
use std::time::{Duration, Instant};
use support::{PATIENT, Pair, wait_for, wait_until};

fn family(filter: &str, deadline: &str, retain: u32) -> String {
    format!(
        "[[topic]]\nfilter = \"{filter}\"\nperiod = \"50ms\"\ndeadline = \"{deadline}\"\nloss = 0\nretain = {retain}\n"
    )
}

/// Writes another configuration, and has these brokers read it; returns what the last one then says, once it has said this.
fn hang_up(pair: &mut Pair, base: &str, topics: &str, brokers: &[usize], says: &str) -> String {
    std::fs::write(&pair.site.config, format!("{base}{topics}")).unwrap();
    let mut said = String::new();
    for index in brokers {
        let before = pair.broker(*index).log().len();
        pair.broker(*index).signal(Signal::HUP);
        said = wait_for(says, || {
            let log = pair.broker(*index).log()[before..].to_owned();
            log.contains(says).then_some(log)
        });
    }
    said
}

#[test]
fn contracts_change_while_topics_are_published_and_a_broker_dies_thereafter() {
    let first = family("line/#", "400ms", 10);
    let mut pair = Pair::start(&format!("{PATIENT}{first}"));
    let primary = pair.wait_for_protection();
    let text = std::fs::read_to_string(&pair.site.config).unwrap();
    let base = text.strip_suffix(&first).unwrap().to_owned();
    let client = pair.site.client();
    let messages = client.subscribe("line/#").unwrap();
    let publisher = client.publisher_by_configuration("line/1").unwrap();
    let mut sent = 0_u64;
    let mut publish = |count: u64| {
        for _ in 0..count {
            publisher.publish(&sent.to_le_bytes()).unwrap();
            sent += 1;
            std::thread::sleep(Duration::from_millis(51));
        }
        sent
    };
    publish(5);
    let other = client.publisher_by_configuration("bay/1").err().unwrap().to_string();
    assert!(other.contains("has no contract"), "{other}");

    // The other one first: what it keeps has the contract that its primary says.
    let second = family("line/#", "450ms", 20) + &family("bay/#", "400ms", 10);
    let both = [1 - primary, primary];
    let log = hang_up(&mut pair, &base, &second, &both, "topic bay/#: new: ");
    wait_until("the publisher's contract", || {
        publisher.contract().is_some_and(|contract| contract.retain == 20)
    });
    publish(5);
    let log = wait_for("the change", || {
        let now = pair.broker(primary).log();
        now.contains("contract of topic `line/1`: ").then_some(now)
    }) + &log;
    assert!(log.contains("topic line/#: ") && log.contains("(applies now)"), "{log}");
    assert!(client.publisher_by_configuration("bay/1").unwrap().contract().is_some());
    assert!(
        pair.site.run(&["status", "--format", "json"]).out.contains("450"),
        "the status shows the new deadline"
    );

    // What breaks a contract changes nothing, also not what is right in the same file.
    let broken = family("line/#", "450ms", 0) + &family("yard/#", "400ms", 10);
    let log = hang_up(&mut pair, &base, &broken, &[primary], "the configuration is not taken over");
    assert!(log.contains("`line/1`") && log.contains("retain"), "{log}");
    assert!(client.publisher_by_configuration("yard/1").is_err());
    assert_eq!(publisher.contract().unwrap().retain, 20);

    pair.kill(primary);
    let sent = publish(5);
    let mut seen = Vec::new();
    let until = Instant::now() + Duration::from_secs(10);
    while seen.len() < sent as usize && Instant::now() < until {
        let message = messages.next_within(Duration::from_millis(200));
        seen.extend(message.filter(|it| &*it.topic == "line/1").map(|it| it.payload[..8].to_owned()));
    }
    let all: Vec<Vec<u8>> = (0..sent).map(|number| number.to_le_bytes().to_vec()).collect();
    assert_eq!(seen, all, "nothing is lost, and nothing comes twice");
    assert_eq!(publisher.contract().unwrap().retain, 20);
}
