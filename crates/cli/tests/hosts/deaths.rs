//! Hosts that die or cannot be reached. Nothing is missing, since the publisher retains what comes of the time without a primary.

use crate::lab::Lab;
use crate::plant::{GUESTS, Plant};
use crate::support::wait_until;

#[test]
fn a_host_that_dies_is_survived_and_comes_back_as_backup() {
    let Some(lab) = Lab::start("a_host_that_dies_is_survived_and_comes_back_as_backup", GUESTS) else {
        return;
    };
    let mut plant = Plant::start(&lab, "");
    lab.guest(1).kill();
    wait_until("that the other broker reigns", || {
        plant.brokers[1].log().contains("this broker is primary in epoch 2")
    });
    plant.flows_without(0, "the death of the primary's host");
    lab.guest(1).boot();
    plant.restart(0);
    wait_until("that the pair is protected again", || plant.brokers[1].log().contains("protected: "));
    plant.flows("the host's return");
    plant.nothing_is_missing();
}

#[test]
fn a_cable_that_is_pulled_is_survived_and_one_broker_steps_down_when_it_is_back() {
    let Some(lab) = Lab::start("a_cable_that_is_pulled_is_survived", GUESTS) else { return };
    let plant = Plant::start(&lab, "");
    lab.guest(1).cut();
    wait_until("that the other broker reigns", || {
        plant.brokers[1].log().contains("this broker is primary in epoch 2")
    });
    plant.flows("the cut");
    let before = plant.protections();
    lab.guest(1).join();
    wait_until("that the first broker steps down", || plant.brokers[0].log().contains("stepped down"));
    plant.is_protected_again(before);
    plant.flows("the cable is plugged in");
    plant.nothing_is_missing();
}

#[test]
fn a_host_that_is_not_heard_is_survived_whichever_way_is_cut() {
    let Some(lab) = Lab::start("a_host_that_is_not_heard_is_survived_whichever_way_is_cut", GUESTS) else {
        return;
    };
    let plant = Plant::start(&lab, "");
    let all = [lab.guest(2), lab.guest(3), lab.guest(4)];
    let before = plant.protections();
    lab.guest(1).mute_towards(&all);
    wait_until("that the other broker reigns", || {
        plant.brokers[1].log().contains("this broker is primary in epoch 2")
    });
    plant.flows("the primary's host is not heard any more");
    lab.guest(1).mend_link();
    plant.is_protected_again(before);
    plant.flows("it is heard again");
    // Now the other way round: whoever reigns by now hears nothing. One that was not heard may have taken the reign back meanwhile.
    let deaf = plant.reigning();
    let others = [1, 2, 3, 4].into_iter().filter(|guest| *guest != deaf + 1);
    let before = plant.protections();
    others.clone().for_each(|other| lab.guest(other).mute_towards(&[lab.guest(deaf + 1)]));
    wait_until("that the other broker reigns", || plant.reigning() != deaf);
    plant.flows("the primary's host hears nothing any more");
    others.for_each(|other| lab.guest(other).mend_link());
    plant.is_protected_again(before);
    plant.flows("it hears again");
    plant.nothing_is_missing();
}

#[test]
fn both_hosts_that_die_leave_clients_that_go_on_when_they_are_back() {
    let Some(lab) = Lab::start("both_hosts_that_die_leave_clients_that_go_on_when_they_are_back", GUESTS)
    else {
        return;
    };
    let mut plant = Plant::start(&lab, "");
    [1, 2].iter().for_each(|host| lab.guest(*host).kill());
    for client in [&plant.publisher, &plant.subscriber] {
        client.wait_for("no primary broker for");
    }
    [1, 2].iter().for_each(|host| lab.guest(*host).boot());
    [0, 1].iter().for_each(|index| plant.restart(*index));
    for client in [&plant.publisher, &plant.subscriber] {
        client.wait_for("a primary is there again");
    }
    plant.flows("both hosts are back");
}
