//! Clocks that are set, or run fast: nobody ends, nothing is missing, and what is said is said of clocks.

use crate::lab::Lab;
use crate::plant::{GUESTS, Plant};

const HOSTS: [&str; GUESTS] =
    ["the primary's host", "the backup's host", "the publisher's host", "the subscriber's host"];

#[test]
fn a_clock_that_is_set_ends_nobody_whosever_it_is() {
    let Some(lab) = Lab::start("a_clock_that_is_set_ends_nobody_whosever_it_is", GUESTS) else { return };
    let plant = Plant::start(&lab, "");
    for by in ["2 seconds", "-2 seconds"] {
        for (guest, host) in lab.guests().iter().zip(HOSTS) {
            guest.step_clock(by);
            plant.flows(&format!("a step of {by} on {host}"));
        }
        // Once more, since an alarm that is set for the first time after a step behaves otherwise than at the second.
        for guest in lab.guests() {
            guest.step_clock(by);
        }
        plant.flows(&format!("a step of {by} on all hosts"));
    }
    plant.nothing_is_missing();
}

#[test]
fn a_clock_that_runs_fast_is_named_and_no_deadline_is_blamed() {
    let Some(lab) = Lab::start("a_clock_that_runs_fast_is_named_and_no_deadline_is_blamed", GUESTS) else {
        return;
    };
    let plant = Plant::start(&lab, "");
    // On the hosts of both brokers, since a busy machine may have changed who reigns.
    [1, 2].iter().for_each(|host| lab.guest(*host).drift_clock(100));
    // Messages come to look older and older there, until they are older than their deadline of half a second.
    plant.wait_for("messages of `plant/flow` from");
    plant.flows("a clock that runs fast");
    let log = plant.said();
    assert!(log.contains("behind this broker's (to within"), "{log}");
    let blamed: Vec<&str> = log.lines().filter(|line| line.contains("lengthen the deadline")).collect();
    assert!(blamed.is_empty(), "{blamed:?}");
    plant.nothing_is_missing();

    // A clock ahead is named as one behind is: that of the publisher's host, for the broker on the other.
    lab.guest(3).step_clock("30 seconds");
    plant.wait_for("s ahead of this broker's (to within");
    plant.publisher.wait_for("the clock of this host is");
    plant.subscriber.wait_for("the clock of this host is");
}
