//! What heartbeats change about who is taken for dead.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world;

use contract::{NodeId, Span};
use engine::BrokerNode;
use engine::testing::Log;
use wire::{Evidence, Frame, LinkId, Standing};
use world::alone::{Alone, hello, reign};

/// The other broker's process.
const OTHER: u64 = 10;

/// It lives, and its heartbeats come.
const ALIVE: Evidence = Evidence {
    node: NodeId(OTHER),
    silence: Span::millis(5),
    unheard: Span::millis(5),
    patience: Span::millis(20),
    still: Span::ZERO,
    heard: 1,
    round_trip: None,
    loss_ppm: 0,
};
const SILENT: Evidence = Evidence { silence: Span::millis(20), unheard: Span::millis(20), ..ALIVE };

/// A broker that stands by and knows everything, and its connection to the primary.
fn backup() -> (Alone<BrokerNode<Log>>, LinkId) {
    backup_of(|_| {})
}

fn backup_of(tune: fn(&mut broker::Settings)) -> (Alone<BrokerNode<Log>>, LinkId) {
    let mut broker = Alone::broker(1, tune);
    let primary = broker.accept();
    broker.tell(primary, &hello(Standing::Primary, "a", OTHER, 1));
    broker.tell(primary, &Frame::Synced);
    assert!(broker.state().follows(primary) && broker.state().is_protected());
    (broker, primary)
}

/// A broker that reigns and has a backup, and its connection to it.
fn primary() -> (Alone<BrokerNode<Log>>, LinkId) {
    let mut broker = Alone::broker(0, |_| {});
    broker.pass(Span::secs(10));
    let backup = broker.accept();
    broker.tell(backup, &hello(Standing::Seeking, "b", OTHER, 0));
    for frame in [Frame::Join, Frame::Standby, Frame::Poll { number: 1 }] {
        broker.tell(backup, &frame);
    }
    assert!(broker.state().is_primary() && broker.state().is_protected());
    (broker, backup)
}

#[test]
fn a_silent_connection_is_no_death_while_heartbeats_come() {
    let (mut broker, _) = backup();
    broker.hear(Some(ALIVE));
    broker.pass(Span::millis(1_500));
    assert!(!broker.state().is_primary());
    broker.hear(Some(SILENT));
    broker.pass(Span::millis(21));
    assert!(broker.state().is_primary());
}

#[test]
fn without_heartbeats_and_for_those_of_another_process_the_connection_alone_tells() {
    for evidence in [None, Some(Evidence { node: NodeId(77), ..ALIVE })] {
        let (mut broker, _) = backup();
        broker.hear(evidence);
        broker.pass(Span::millis(41));
        assert!(broker.state().is_primary(), "{evidence:?}");
    }
}

#[test]
fn a_process_whose_data_thread_stands_still_is_given_up() {
    let (mut broker, _) = backup();
    broker.hear(Some(Evidence { still: Span::millis(199), ..ALIVE }));
    broker.pass(Span::millis(500));
    assert!(!broker.state().is_primary());
    broker.hear(Some(Evidence { still: Span::millis(200), ..ALIVE }));
    broker.pass(Span::millis(21));
    assert!(broker.state().is_primary());
}

#[test]
fn a_connection_that_stays_silent_is_made_anew_and_the_primary_keeps_its_reign() {
    let (mut broker, primary) = backup();
    broker.hear(Some(ALIVE));
    broker.pass(Span::millis(2_100));
    assert!(broker.wants_closed(primary).is_some());
    broker.close(primary);
    broker.pass(Span::secs(3));
    assert!(!broker.state().is_primary(), "it is dialed until it answers");
    assert!(broker.dials() > 0);
    broker.refuse_dials();
    assert!(broker.state().is_primary(), "where nobody listens, nobody reigns, whatever was heard before");
}

#[test]
fn a_primary_that_is_still_telling_everything_is_let_finish() {
    let mut broker = Alone::broker(1, |_| {});
    let primary = broker.accept();
    broker.tell(primary, &hello(Standing::Primary, "a", OTHER, 1));
    broker.hear(Some(ALIVE));
    // Its answers to polls wait behind that.
    for _ in 0..50 {
        broker.pass(Span::millis(100));
        broker.tell(primary, &Frame::Join);
        assert!(broker.wants_closed(primary).is_none());
    }
    broker.pass(Span::millis(4_200));
    assert!(broker.wants_closed(primary).is_some(), "nothing comes any more");
}

#[test]
fn a_backup_that_polls_late_is_not_dropped_while_its_heartbeats_come() {
    let (mut broker, link) = primary();
    broker.hear(Some(ALIVE));
    broker.pass(Span::millis(1_500));
    assert!(broker.state().is_protected());
    broker.hear(Some(SILENT));
    broker.pass(Span::millis(100));
    assert!(!broker.state().is_protected());
    assert!(broker.wants_closed(link).is_some());
}

#[test]
fn a_suspicion_that_was_wrong_makes_it_wait_longer() {
    let (mut broker, primary) = backup_of(|settings| settings.delays.failover = Span::millis(100));
    broker.hear(Some(SILENT));
    broker.pass(Span::millis(41));
    assert!(broker.state().is_primary());
    // The one that was taken for dead says something.
    broker.tell(primary, &reign(Standing::Primary, OTHER, 1));
    let told = |broker: &mut Alone<BrokerNode<Log>>| {
        broker.pass(Span::millis(100));
        broker.seat.node.reporter().words.iter().any(|line| line.contains("took lives"))
    };
    assert!(told(&mut broker), "{:?}", broker.seat.node.reporter().words);
    // It reigns again, and is silent for as long as before.
    broker.tell(primary, &reign(Standing::Primary, OTHER, 9));
    broker.tell(primary, &Frame::Synced);
    assert!(broker.state().follows(primary));
    broker.pass(Span::millis(41));
    assert!(!broker.state().is_primary());
    broker.hear(Some(Evidence { silence: Span::millis(40), unheard: Span::millis(40), ..ALIVE }));
    broker.pass(Span::millis(41));
    assert!(broker.state().is_primary(), "twice the patience, and not more");
}

#[test]
fn whoever_reigned_a_moment_ago_does_not_search_when_its_successor_dies() {
    let (mut broker, link) = primary();
    broker.tell(link, &reign(Standing::Primary, OTHER, 5));
    assert!(broker.state().follows(link), "deposed");
    // The successor dies before it has told everything.
    broker.close(link);
    broker.refuse_dials();
    assert!(broker.state().is_primary());
    assert!(broker.state().reign().epoch.0 > 5);
}

#[test]
fn whoever_knew_everything_a_moment_ago_does_not_search_either() {
    let (mut broker, link) = backup();
    // Its primary closes the connection and takes it anew, and dies before it has told everything again.
    broker.close(link);
    let again = broker.connect(0);
    broker.tell(again, &hello(Standing::Primary, "a", OTHER, 1));
    assert!(broker.state().follows(again) && !broker.state().is_protected());
    broker.close(again);
    broker.refuse_dials();
    assert!(broker.state().is_primary());
}

/// The one that this broker takes for dead lives, and takes the reign back.
fn suspect_wrongly(broker: &mut Alone<BrokerNode<Log>>, primary: LinkId, times: u64) {
    for time in 0..times {
        broker.hear(Some(SILENT));
        broker.pass(Span::millis(41));
        assert!(broker.state().is_primary(), "for the {time}th time");
        broker.tell(primary, &reign(Standing::Primary, OTHER, 1 + time * 8));
        broker.tell(primary, &reign(Standing::Primary, OTHER, 9 + time * 8));
        broker.tell(primary, &Frame::Synced);
        assert!(broker.state().follows(primary));
    }
}

#[test]
fn one_wrong_suspicion_does_not_make_a_death_be_noticed_later_than_contracts_count_with() {
    // With the usual failover time of 50 ms there is no room to wait longer.
    let (mut broker, primary) = backup();
    suspect_wrongly(&mut broker, primary, 1);
    broker.pass(Span::millis(41));
    assert!(broker.state().is_primary());
}

#[test]
fn suspicions_that_are_wrong_again_and_again_end_and_the_operator_is_told() {
    let (mut broker, primary) = backup();
    suspect_wrongly(&mut broker, primary, 3);
    let late = |millis| Evidence { silence: Span::millis(millis), unheard: Span::millis(millis), ..ALIVE };
    broker.hear(Some(late(150)));
    broker.pass(Span::millis(500));
    assert!(!broker.state().is_primary(), "it has come back that late before");
    let told = &broker.seat.node.reporter().words;
    assert!(told.iter().any(|line| line.contains("network.failover")), "{told:?}");
    broker.hear(Some(late(160)));
    broker.pass(Span::millis(41));
    assert!(broker.state().is_primary(), "it may be dead as well");
}

#[test]
fn whoever_is_deposed_and_not_heard_by_its_successor_leaves_it_the_reign() {
    let (mut broker, link) = primary();
    broker.tell(link, &reign(Standing::Primary, OTHER, 5));
    assert!(broker.state().follows(link), "deposed");
    // What it says does not reach the successor, which has told it nothing and cannot know that it is followed.
    broker.hear(Some(Evidence { silence: Span::secs(1), ..ALIVE }));
    broker.pass(Span::secs(1));
    assert!(!broker.state().is_primary(), "two would reign, and each know what the other does not");
    // The successor dies.
    broker.hear(Some(Evidence { silence: Span::secs(1), ..SILENT }));
    broker.pass(Span::millis(41));
    assert!(broker.state().is_primary());
}

#[test]
fn a_client_of_another_pair_deposes_nobody_whose_partner_stands_by() {
    let (mut broker, _) = primary();
    let stray = broker.accept();
    broker.tell(stray, &hello(Standing::Orphaned, "stray", 0, 0));
    // It follows a broker of another pair, whose epoch is higher.
    broker.tell(stray, &reign(Standing::Following, OTHER + 1, 7));
    assert!(broker.state().is_primary() && broker.state().is_protected());
    // What it says of the partner is believed: the connection to that may be cut, and not yet known to be.
    broker.tell(stray, &reign(Standing::Following, OTHER, 7));
    assert!(!broker.state().is_primary());
}

#[test]
fn who_stands_by_says_that_its_primary_has_raised_its_reign() {
    for known_before in [false, true] {
        let (mut broker, primary) = backup();
        let client = broker.accept();
        broker.tell(client, &hello(Standing::Following, "client", 0, 1));
        broker.heard(client);
        if known_before {
            // The client was the first to hear of it.
            broker.tell(client, &reign(Standing::Following, OTHER, 2));
        }
        broker.tell(primary, &reign(Standing::Primary, OTHER, 2));
        let words = broker.heard(client).join("\n");
        assert!(words.contains("Reign { epoch: Epoch(2)") && words.contains("standing: Backup"), "{words}");
    }
}

#[test]
fn who_stands_by_is_of_the_reign_of_its_primary_whatever_clients_know() {
    let (mut broker, _) = backup();
    let stray = broker.accept();
    broker.tell(stray, &hello(Standing::Following, "stray", OTHER + 1, 7));
    let client = broker.accept();
    broker.tell(client, &hello(Standing::Following, "client", OTHER, 1));
    let words = broker.heard(client).join("\n");
    assert!(words.contains("epoch: Epoch(1)") && !words.contains("Epoch(7)"), "{words}");
}
