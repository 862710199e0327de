//! Links that lose and delay packets. Whoever lives keeps the reign, and nothing is missing.

use crate::lab::Lab;
use crate::plant::{GUESTS, Plant};

#[test]
fn a_link_that_loses_one_packet_in_a_hundred_moves_no_reign() {
    let Some(lab) = Lab::start("a_link_that_loses_one_packet_in_a_hundred_moves_no_reign", GUESTS) else {
        return;
    };
    let plant = Plant::start(&lab, "");
    for weather in ["delay 3ms 2ms loss 1%", "delay 10ms 5ms loss 1%"] {
        [1, 2].iter().for_each(|host| lab.guest(*host).netem(weather));
        for _ in 0..5 {
            plant.flows(weather);
        }
        [1, 2].iter().for_each(|host| lab.guest(*host).mend_link());
    }
    for broker in &plant.brokers {
        assert!(!broker.log().contains("is primary in epoch 2"), "{}", broker.log());
    }
    plant.nothing_is_missing();
}
