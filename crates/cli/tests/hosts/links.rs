//! Links that lose and delay packets. Whoever lives keeps the reign, and nothing is missing.

use crate::lab::Lab;
use crate::plant::{GUESTS, Plant};
use crate::support::wait_until;
use std::time::Duration;

#[test]
fn a_link_that_loses_one_packet_in_a_hundred_moves_no_reign() {
    let Some(lab) = Lab::start("a_link_that_loses_one_packet_in_a_hundred_moves_no_reign", GUESTS) else {
        return;
    };
    let plant = Plant::start(&lab, "");
    lab.guest(4).spawn("verge sub -c /lab/verge.toml -t copied > /dev/null");
    lab.guest(3).spawn(&format!("verge pub -c /lab/verge.toml -t copied -m x {LOAD} --repeat 1000000"));
    for weather in ["delay 3ms 2ms loss 1%", "delay 10ms 5ms loss 1%"] {
        [1, 2].iter().for_each(|host| lab.guest(*host).netem(weather));
        for _ in 0..5 {
            plant.flows(weather);
        }
        // The way between the brokers is longer than the contracts of what is copied count with.
        plant.wait_for("Set network.broker_to_broker to more than");
        [1, 2].iter().for_each(|host| lab.guest(*host).mend_link());
    }
    for broker in &plant.brokers {
        assert!(!broker.log().contains("is primary in epoch 2"), "{}", broker.log());
    }
    plant.nothing_is_missing();
}

/// A contract whose messages have to be copied where a failover takes a second.
const LOAD: &str = "--period 50ms --deadline 500ms --loss 2 --retain 23";
/// Publishers of such beside the plant's own, and what each sends.
const LOADS: usize = 10;
const LOAD_BYTES: usize = 4_096;

#[test]
fn a_link_that_carries_less_than_copies_need_is_named_and_its_broker_can_die() {
    let Some(lab) =
        Lab::start("a_link_that_carries_less_than_copies_need_is_named_and_its_broker_can_die", GUESTS)
    else {
        return;
    };
    let plant = Plant::start(&lab, "");
    let payload = "x".repeat(LOAD_BYTES);
    // What nobody wants need not be copied.
    lab.guest(4).spawn("verge sub -c /lab/verge.toml -t load/# > /dev/null");
    for load in 0..LOADS {
        lab.guest(3).spawn(&format!(
            "verge pub -c /lab/verge.toml -t load/{load} -m {payload} {LOAD} --repeat 1000000"
        ));
    }
    lab.guest(1).narrow_towards(&[lab.guest(2)], "500kbit", "400ms");
    lab.guest(2).narrow_towards(&[lab.guest(1)], "500kbit", "400ms");
    plant.wait_for("bytes in a second, and copies need");
    plant.flows("a link of 500 kbit/s");
    // Heartbeats share the queue with copies, so that a few are taken for a death until patience has grown.
    println!("{} takeovers", plant.takeovers());
    let reigns = plant.reigning();
    lab.guest(reigns + 1).kill();
    plant.flows_without(reigns, "the death of the primary's host behind a link of 500 kbit/s");
    plant.nothing_is_missing();
}

/// A contract whose messages need copies.
const COPIED: &str = "--period 50ms --deadline 500ms --loss 2 --retain 8";
/// The usual detection and failover time, without real-time rights, which the machine below the guests does not have.
const USUAL: &str = r#"
[realtime]
priority = 0
lock_memory = false
[replication]
policy = "eager"
[admission]
arrival_cost = "5us"
dispatch_cost = "5us"
replication_cost = "5us"
turn_cost = "8us"
read_cost = "2us"
write_cost = "5us"
kib_cost = "1us"
blocking = "1ms"
"#;
/// The reign may go to and fro until each broker has been wrong three times; two more for a busy machine below the guests.
const TAKEOVERS_MAX: usize = 8;

#[test]
fn a_thin_link_moves_no_reign_for_long_and_takes_no_further_topic() {
    let Some(lab) = Lab::start("a_thin_link_moves_no_reign_for_long_and_takes_no_further_topic", GUESTS)
    else {
        return;
    };
    // The usual failover time of 50 ms: the queue in front of the link alone is longer.
    let plant = Plant::start_as(&lab, String::from(USUAL));
    let payload = "x".repeat(LOAD_BYTES);
    lab.guest(4).spawn("verge sub -c /lab/verge.toml -t load/# > /dev/null");
    for load in 0..LOADS {
        lab.guest(3).spawn(&format!(
            "verge pub -c /lab/verge.toml -t load/{load} -m {payload} {COPIED} --repeat 1000000"
        ));
    }
    plant.flows("the load");
    lab.guest(1).narrow_towards(&[lab.guest(2)], "500kbit", "400ms");
    lab.guest(2).narrow_towards(&[lab.guest(1)], "500kbit", "400ms");
    let before = plant.takeovers();
    plant.wait_for("bytes in a second, and copies need");
    std::thread::sleep(Duration::from_secs(10));
    let mut tries = 0;
    wait_until("that a further topic is refused", || {
        // The reign may just have moved.
        tries += 1;
        let told = lab
            .guest(3)
            .run(&format!("verge pub -c /lab/verge.toml -t load/further/{tries} -m x {COPIED}"))
            .out;
        told.contains("was refused: the link to the backup carries")
    });
    std::thread::sleep(Duration::from_secs(5));
    let takeovers = plant.takeovers() - before;
    println!("{takeovers} takeovers");
    assert!(takeovers <= TAKEOVERS_MAX, "{takeovers} takeovers");
    plant.flows("a thin link");
    plant.nothing_is_missing();
}

/// Loss in percent, delay in milliseconds, and by how much it may be off, in each direction.
const LINKS: [(f64, u32, u32); 12] = [
    (0.0, 0, 0),
    (0.1, 0, 0),
    (1.0, 0, 0),
    (3.0, 0, 0),
    (0.0, 3, 2),
    (0.1, 3, 2),
    (1.0, 3, 2),
    (3.0, 3, 2),
    (0.0, 10, 5),
    (0.1, 10, 5),
    (1.0, 10, 5),
    (3.0, 10, 5),
];

/// `bench/takeovers/measure.py` runs this with `VERGE_RESULTS`, a file into which a line of JSON is written for each link, and `SECONDS`.
#[test]
#[ignore = "a measurement of ten minutes"]
fn how_often_links_move_the_reign() {
    let Some(lab) = Lab::start("how_often_links_move_the_reign", GUESTS) else { return };
    let seconds: u64 = std::env::var("SECONDS").map_or(40, |text| text.parse().unwrap());
    let mut rows = String::new();
    for (loss, delay, off) in LINKS {
        let plant = Plant::start_as(
            &lab,
            "[network]\nfailover = \"100ms\"\n[realtime]\npriority = 0\nlock_memory = false\n".to_owned(),
        );
        [1, 2].iter().for_each(|host| {
            lab.guest(*host).netem(&format!("limit 10000 delay {delay}ms {off}ms loss {loss}%"));
        });
        let before = plant.takeovers();
        std::thread::sleep(Duration::from_secs(seconds));
        let takeovers = plant.takeovers() - before;
        [1, 2].iter().for_each(|host| lab.guest(*host).mend_link());
        plant.flows("the link is whole again");
        let (late, missing) = plant.late_and_missing();
        let sent = plant.newest();
        plant.end();
        let row = serde_json::json!({
            "loss": loss, "delay": delay, "off": off, "seconds": seconds,
            "takeovers": takeovers, "sent": sent, "missing": missing, "late": late,
        });
        println!("{row}");
        rows += &format!("{row}\n");
    }
    if let Ok(file) = std::env::var("VERGE_RESULTS") {
        std::fs::write(file, rows).unwrap();
    }
}
