//! What simulated weather and reviews once found broken, and was mended: one test for each.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use contract::timing::LinkDelay;
use contract::{Contract, LinkClass, Links, Span};
use endpoint::{Endpoint, PublicationState};
use wire::limits::STREAMS_MAX;
use wire::{Announce, Frame, MarkKind, MessageKind, PeerIndex, Register, Standing, Verdict};
use world::alone::{Alone, hello, reign};
use world::run::{replicated, run, run_with, urgent};
use world::{Who, World};

/// A broker's name for the one stream of these tests.
fn announce(stream: u32, incarnation: u64, next_seq: u64) -> Frame<'static> {
    let (contract, topic, publisher) = (replicated(), "t", "p");
    Frame::Announce(Announce {
        stream,
        incarnation,
        next_seq,
        contract,
        gapless: true,
        class: 0,
        topic,
        publisher,
        origin: "",
        crossing: contract::Crossing::NONE,
    })
}

#[test]
fn a_broker_that_polls_without_having_joined_is_told_to_join_again() {
    let mut primary = Alone::broker(0, |_| {});
    let (joined, stray) = (primary.accept(), primary.accept());
    for link in [joined, stray] {
        primary.tell(link, &hello(Standing::Seeking, "b", 10, 0));
    }
    assert!(primary.state().is_primary());
    primary.tell(joined, &Frame::Join);
    for link in [joined, stray] {
        primary.tell(link, &Frame::Poll { number: 1 });
    }
    assert_eq!(primary.wants_closed(joined), None);
    assert_eq!(primary.wants_closed(stray), Some("it stands by here without having joined"));
}

#[test]
fn the_newest_request_to_join_counts() {
    let mut primary = Alone::broker(0, |_| {});
    let (older, newer) = (primary.accept(), primary.accept());
    for link in [older, newer] {
        primary.tell(link, &hello(Standing::Seeking, "b", 10, 0));
        primary.tell(link, &Frame::Join);
        assert!(primary.heard(link).contains(&"Synced".to_owned()));
    }
    primary.tell(newer, &Frame::Standby);
    primary.tell(newer, &Frame::Poll { number: 1 });
    assert!(primary.state().is_protected());
    assert_eq!(primary.wants_closed(newer), None);
}

#[test]
fn an_older_request_to_join_that_comes_last_leaves_the_pair_protected() {
    let mut world = World::new(|_| {});
    for conn in [0, 1] {
        world.lag.insert((conn, Who::Broker(1)), Span::millis(5));
    }
    world.run_for(Span::millis(6));
    // The backup has asked on a slow connection, which breaks; it asks again on another, which is faster.
    world.lose_primary(1);
    world.run_for(Span::millis(3));
    assert!(world.broker(0).is_protected(), "{:?}", world.log(0));
    world.run_for(Span::secs(1));
    assert!(world.broker(0).is_protected() && world.broker(1).is_protected(), "{:?}", world.log(0));
    assert!(world.log(0).iter().any(|line| line.contains("UNPROTECTED")), "the older request came last");
}

#[test]
fn a_client_that_gives_a_broker_up_sleeps_while_the_connection_closes() {
    let mut client = Alone::client();
    let link = client.connect(0);
    client.tell(link, &hello(Standing::Primary, "a", 10, 1));
    client.pass(Span::secs(1));
    assert_eq!(client.wants_closed(link), None);
    client.pass(engine::driving::CLOSING_TIME);
    assert_eq!(client.wants_closed(link), Some("no answer to polls"));
    assert!(client.times_closed(link) <= 10, "{} farewells", client.times_closed(link));
}

/// Behind a narrow connection, the answers to its polls wait for seconds behind messages.
#[test]
fn a_client_does_not_give_up_a_broker_that_sends_messages() {
    let mut client = Alone::client();
    let link = client.connect(0);
    client.tell(link, &hello(Standing::Primary, "a", 10, 1));
    for seq in 0..25 {
        client.pass(Span::millis(200));
        client.send(link, MessageKind::Deliver, 0, seq, b"late");
        assert_eq!(client.wants_closed(link), None, "after {seq} messages");
    }
    // Answers are seen to be late by 50 polls, which is more than silence may last.
    client.pass(Span::secs(9));
    assert_eq!(client.wants_closed(link), None);
    client.pass(Span::secs(2));
    assert_eq!(client.wants_closed(link), Some("no answer to polls"), "nothing comes any more");
}

#[test]
fn a_subscription_is_asked_for_once_on_each_connection() {
    let mut client = Alone::client();
    client.subscribe("#");
    for answered in [false, true] {
        let link = client.connect(0);
        client.tell(link, &hello(Standing::Primary, "a", 10, 1));
        let heard = client.heard(link);
        let asked = heard.iter().filter(|frame| frame.contains("Subscribe ")).count();
        assert_eq!(asked, 1, "answered before: {answered}; {heard:?}");
        client.tell(link, &Frame::Subscribed { number: 0, admitted: true, reigns: true, text: "" });
        client.close(link);
        client.pass(Span::millis(100));
    }
}

#[test]
fn a_registration_that_a_backup_could_not_keep_is_made_again_when_it_reigns() {
    let mut world = World::protected(|settings| settings.limits.streams = 2);
    let (crowd, publisher, subscriber) =
        (world.add_client("c"), world.add_client("p"), world.add_client("s"));
    // One that reaches the backup alone fills its table with what nobody has admitted.
    world.wall(crowd, 0, true);
    world.run_for(Span::millis(50));
    world.subscribe(subscriber, "t");
    world.advertise(crowd, "c/0", urgent());
    world.advertise(crowd, "c/1", urgent());
    world.run_for(Span::millis(50));
    let topic = world.advertise(publisher, "t", urgent());
    for message in 0..10_u8 {
        world.run_for(Span::millis(50));
        if message == 5 {
            world.kill(0);
            world.run_for(Span::millis(50));
        }
        world.publish(publisher, topic, &[message]).unwrap();
    }
    world.run_for(Span::millis(50));
    let messages = &world.seen(subscriber).messages;
    let payloads: Vec<u8> = messages.iter().map(|(.., payload)| payload[0]).collect();
    assert_eq!(payloads, (0..10).collect::<Vec<u8>>());
}

#[test]
fn a_broker_that_refused_is_asked_again_when_it_reigns_although_the_other_has_admitted_meanwhile() {
    let mut client = Alone::client();
    let (a, b) = (client.connect(0), client.connect(1));
    client.tell(a, &hello(Standing::Primary, "a", 10, 1));
    client.tell(b, &hello(Standing::Backup, "b", 20, 1));
    client.advertise("t", urgent());
    let verdict = |admitted| {
        let (contract, deadlines) = (Some(urgent()), [Span::ZERO; 2]);
        let (remedies, reigns, replicate) = (Default::default(), true, false);
        let text = if admitted { "" } else { "it does not fit here" };
        Frame::Verdict(Verdict {
            stream: 0,
            admitted,
            reigns,
            replicate,
            contract,
            deadlines,
            remedies,
            text,
        })
    };
    let asks = |client: &mut Alone<_>, link| {
        Alone::<engine::ClientNode<world::Seen>>::heard(client, link)
            .iter()
            .filter(|frame| frame.starts_with("Register"))
            .count()
    };
    assert_eq!((asks(&mut client, a), asks(&mut client, b)), (1, 1));
    client.tell(a, &verdict(false));
    // It reigns for as long as it likes, and is not asked again and again.
    client.pass(Span::millis(50));
    assert_eq!(asks(&mut client, a), 0);
    client.tell(b, &reign(Standing::Primary, 20, 2));
    client.tell(b, &verdict(true));
    assert_eq!((asks(&mut client, a), asks(&mut client, b)), (0, 1));
    // Under the number that it refused, it would drop every message.
    client.tell(a, &reign(Standing::Primary, 10, 3));
    assert_eq!((asks(&mut client, a), asks(&mut client, b)), (1, 0));
    client.tell(a, &verdict(true));
    client.tell(b, &reign(Standing::Primary, 20, 4));
    assert_eq!((asks(&mut client, a), asks(&mut client, b)), (0, 0), "both have it now");
}

#[test]
fn a_registration_above_the_limit_of_streams_is_refused_and_ends_no_connection() {
    let mut world = World::protected(|settings| settings.limits.streams = 2);
    let client = world.add_client("p");
    world.run_for(Span::millis(50));
    let topics: Vec<u32> =
        (0..3).map(|index| world.advertise(client, &format!("t/{index}"), urgent())).collect();
    world.run_for(Span::millis(50));
    let verdicts = &world.seen(client).verdicts;
    assert_eq!(verdicts[&topics[1]], PublicationState::Admitted(urgent()));
    let refused = |text: &str| text.contains("at most 2 streams");
    assert!(
        matches!(verdicts.get(&topics[2]), Some(PublicationState::Refused(text, _)) if refused(text)),
        "{verdicts:?}"
    );
    assert!(world.seen(client).dismissed.is_empty());
    assert_eq!(world.endpoint(client).connected().count(), 2);
}

#[test]
fn what_comes_to_the_wrong_broker_from_an_earlier_life_is_not_taken_for_the_present_one() {
    let mut run = run(&[urgent()]);
    let old = run.topics[0].0;
    run.publish_for(Span::secs(1));
    run.world.request(run.publisher, 0, &Frame::Handover);
    run.publish_for(Span::millis(300));
    run.world.publish_raw(run.publisher, 0, old, 50);
    run.world.run_for(Span::millis(10));
    // The publisher restarts, and reaches the primary alone; a connection of its earlier life to the backup is still up.
    let again = run.world.add_client("publisher");
    run.world.wall(again, 0, true);
    run.world.run_for(Span::millis(50));
    let before = run.world.seen(run.subscriber).messages.len();
    let new = run.world.advertise(again, "t/0", urgent());
    // The backup has not heard of the new life when it sends this on.
    run.world.publish_raw(run.publisher, 0, old, 0);
    run.world.run_for(Span::millis(50));
    assert_eq!(run.world.publish(again, new, b"new life"), Ok(0));
    run.world.run_for(Span::millis(50));
    let messages = &run.world.seen(run.subscriber).messages;
    assert!(messages[..before].iter().any(|(_, seq, ..)| *seq == 50), "sent on before, by the same number");
    let payloads = messages[before..].iter().map(|(.., payload)| String::from_utf8_lossy(payload));
    assert_eq!(payloads.collect::<Vec<_>>(), ["new life"]);
}

#[test]
fn what_another_broker_still_sends_of_an_earlier_life_is_not_taken_for_the_present_one() {
    let mut client = Alone::client();
    let (old, new) = (client.connect(0), client.connect(1));
    client.tell(old, &hello(Standing::Primary, "a", 10, 1));
    client.tell(old, &announce(3, 1, 0));
    client.send(old, MessageKind::Deliver, 3, 0, b"old 0");
    client.tell(new, &hello(Standing::Primary, "b", 20, 2));
    client.tell(new, &announce(9, 2, 0));
    client.send(new, MessageKind::Deliver, 9, 0, b"new 0");
    client.send(old, MessageKind::Deliver, 3, 1, b"old 1");
    client.send(new, MessageKind::Deliver, 9, 1, b"new 1");
    assert_eq!(client.payloads(), ["old 0", "new 0", "new 1"]);
}

/// Whoever subscribes to one topic of a broker with many may be given any number for it.
#[test]
fn a_client_takes_any_number_that_a_broker_may_give_a_stream() {
    let last = STREAMS_MAX as u32 - 1;
    let mut client = Alone::client();
    let link = client.connect(0);
    client.tell(link, &hello(Standing::Primary, "a", 10, 1));
    client.tell(link, &announce(last, 1, 0));
    client.send(link, MessageKind::Deliver, last, 0, b"of the last stream");
    client.tell(link, &announce(last + 1, 1, 0));
    client.send(link, MessageKind::Deliver, last + 1, 0, b"of none");
    assert_eq!(client.payloads(), ["of the last stream"]);
}

#[test]
fn the_first_message_of_a_life_is_handed_over_although_a_fail_over_overtook_it() {
    for life in [1, 2] {
        let mut client = Alone::client();
        let (dying, next) = (client.connect(0), client.connect(1));
        client.tell(dying, &hello(Standing::Primary, "a", 10, 1));
        client.tell(next, &hello(Standing::Primary, "b", 20, 2));
        if life == 2 {
            client.tell(next, &announce(0, 1, 0));
        }
        // The new primary is the first to name this life, and begins with the second message.
        client.tell(next, &announce(0, life, 1));
        client.send(next, MessageKind::Deliver, 0, 1, b"second");
        client.tell(dying, &announce(0, life, 0));
        client.send(dying, MessageKind::Deliver, 0, 0, b"first");
        client.send(next, MessageKind::Deliver, 0, 0, b"first, sent again");
        assert_eq!(client.payloads(), ["second", "first"], "life {life}");
    }
}

#[test]
fn a_backup_is_brought_up_to_date_whatever_waits_for_it_turn_after_turn() {
    let mut primary = Alone::broker(0, |settings| {
        settings.limits.sync_backlog_bytes = 4_096;
        settings.detection.misses = 500;
    });
    let (publisher, backup) = (primary.accept(), primary.accept());
    primary.tell(backup, &hello(Standing::Seeking, "b", 10, 0));
    primary.tell(publisher, &hello(Standing::Orphaned, "p", 0, 0));
    for stream in 0..200 {
        let topic = &format!("t/{stream}");
        let contract = Some(replicated());
        primary.tell(publisher, &Frame::Register(Register { stream, incarnation: 1, contract, topic }));
    }
    primary.tell(backup, &Frame::Join);
    let mut told = primary.heard(backup);
    for seq in 0..5 {
        // The copy of this turn waits when the broker looks, and has left by the next turn.
        primary.send(publisher, MessageKind::Publish, 0, seq, &[7; 5_000]);
        primary.pass(Span::millis(100));
        told.extend(primary.heard(backup));
    }
    assert!(told.contains(&"Replicate 4".to_owned()));
    assert_eq!(told.iter().filter(|frame| frame.starts_with("Announce")).count(), 200);
    assert!(told.contains(&"Synced".to_owned()));
}

#[test]
fn a_broker_whose_primary_seeks_again_before_telling_it_everything_seeks_too() {
    let mut broker = Alone::broker(0, |_| {});
    let link = broker.accept();
    broker.tell(link, &hello(Standing::Primary, "b", 10, 1));
    assert!(broker.state().follows(link));
    broker.tell(link, &reign(Standing::Seeking, 10, 1));
    assert!(broker.state().is_primary(), "neither reigns, and this one prefers to");
}

#[test]
fn an_older_word_of_the_primary_on_another_connection_does_not_send_its_backup_away() {
    let mut backup = Alone::broker(1, |_| {});
    let (link, slow) = (backup.accept(), backup.accept());
    backup.tell(link, &hello(Standing::Primary, "a", 10, 1));
    assert!(backup.state().follows(link));
    backup.tell(slow, &hello(Standing::Seeking, "a", 10, 0));
    assert!(backup.state().follows(link), "before it knows everything");
    backup.tell(link, &Frame::Synced);
    backup.tell(slow, &reign(Standing::Seeking, 10, 0));
    assert!(backup.state().follows(link) && backup.state().is_protected(), "and when it does");
}

#[test]
fn a_greeting_that_has_gone_stale_is_corrected_and_no_word_overtakes_one() {
    let mut broker = Alone::broker(0, |_| {});
    let (dialed, silent, other) = (broker.connect(0), broker.accept(), broker.accept());
    let heard = broker.heard(dialed);
    assert!(heard.len() == 1 && heard[0].contains("standing: Seeking"), "{heard:?}");
    broker.tell(other, &hello(Standing::Seeking, "b", 10, 0));
    assert!(broker.state().is_primary());
    let heard = broker.heard(dialed);
    assert!(heard.len() == 1 && heard[0].contains("standing: Primary"), "not answered yet: {heard:?}");
    assert_eq!(broker.heard(silent), [""; 0], "a connection begins with a greeting");
    broker.tell(silent, &hello(Standing::Seeking, "b", 10, 0));
    let heard = broker.heard(silent);
    assert!(heard[0].starts_with("Hello") && heard[0].contains("standing: Primary"), "{heard:?}");
}

#[test]
fn prunes_of_copies_that_are_gone_push_out_no_copies_that_are_there() {
    let mut backup = Alone::broker(1, |_| {});
    let (primary, subscriber) = (backup.accept(), backup.accept());
    backup.tell(primary, &hello(Standing::Primary, "a", 10, 1));
    backup.tell(primary, &announce(0, 1, 0));
    let session = Frame::Session {
        incarnation: 1,
        present: true,
        needs: contract::Needs::NONE,
        client: "s",
        filter: "t",
    };
    backup.tell(primary, &session);
    backup.tell(primary, &Frame::Synced);
    backup.tell(subscriber, &hello(Standing::Orphaned, "s", 0, 0));
    assert_eq!(backup.state().slots(), 16);
    (0..24).for_each(|seq| backup.send(primary, MessageKind::Replicate, 0, seq, b"copy"));
    (0..8).for_each(|seq| backup.mark(primary, MarkKind::Prune, 0, seq));
    backup.close(primary);
    backup.pass(Span::ZERO);
    backup.refuse_dials();
    assert!(backup.state().is_primary());
    let delivered: Vec<String> =
        backup.heard(subscriber).into_iter().filter(|frame| frame.starts_with("Deliver")).collect();
    assert_eq!(delivered, (8..24).map(|seq| format!("Deliver {seq}")).collect::<Vec<_>>());
}

#[test]
fn what_waits_for_a_slow_confirmation_is_still_there_when_the_primary_dies() {
    fn tune(settings: &mut broker::Settings) {
        let delay = LinkDelay { to_subscriber: Span::millis(1), confirmation: Span::millis(200) };
        settings.links = Links::new([(LinkClass::EDGE, delay)]);
    }
    let often = Contract::every(Span::millis(5)).deadline(Span::millis(20)).retain(12).confirmed();
    let mut run = run_with(tune, &[often]);
    run.publish_for(Span::millis(500));
    run.world.stall(run.subscriber, true);
    run.publish_for(Span::millis(190));
    // The host dies: what was only written is gone with it.
    run.world.kill(0);
    run.world.stall(run.subscriber, false);
    run.publish_for(Span::millis(300));
    run.assert_nothing_missing();
}

#[test]
fn a_backup_has_room_for_as_many_copies_as_configured() {
    let run = run_with(|settings| settings.limits.backup_slots = 100, &[urgent(), replicated()]);
    for broker in [0, 1] {
        assert_eq!(run.world.broker(broker).slots(), 8 + 128, "only one of the topics is copied");
    }
}

#[test]
fn whoever_has_just_handed_over_reigns_again_when_the_successor_restarts() {
    // The one that prefers to reign is the successor, so that it would go first if both knew as little.
    let mut run = run(&[urgent()]);
    run.publish_for(Span::millis(200));
    run.world.request(run.publisher, 0, &Frame::Handover);
    run.publish_for(Span::millis(500));
    run.world.request(run.publisher, 1, &Frame::Handover);
    // Dead before its predecessor has been told everything, and back before that one stops looking for it.
    while !run.world.broker(0).is_primary() {
        run.world.run_for(Span::micros(100));
    }
    run.world.kill(0);
    run.world.start(0);
    run.publish_for(Span::millis(500));
    assert!(run.world.broker(1).is_primary() && run.world.broker(1).is_protected(), "{:?}", run.logs());
    run.assert_nothing_missing();
}

/// A broker that has handed over to the one on the first link, asked by the client on the second; and the epoch it gave.
fn handed_over() -> (Alone<engine::BrokerNode<engine::testing::Log>>, wire::LinkId, wire::LinkId, u64) {
    let mut deposed = Alone::broker(1, |_| {});
    deposed.pass(Span::secs(10));
    let backup = deposed.accept();
    deposed.tell(backup, &hello(Standing::Seeking, "a", 10, 0));
    for frame in [Frame::Join, Frame::Standby, Frame::Poll { number: 1 }] {
        deposed.tell(backup, &frame);
    }
    let client = deposed.accept();
    deposed.tell(client, &hello(Standing::Orphaned, "c", 0, 0));
    let given = deposed.state().reign().epoch.next().0;
    deposed.tell(client, &Frame::Handover);
    assert!(!deposed.state().is_primary());
    (deposed, backup, client, given)
}

#[test]
fn an_epoch_that_was_given_to_a_successor_is_not_taken_again() {
    let (mut deposed, backup, _, given) = handed_over();
    // The successor dies without a word.
    deposed.close(backup);
    deposed.pass(Span::secs(10));
    assert!(deposed.state().is_primary());
    assert!(deposed.state().reign().epoch.0 > given);
}

#[test]
fn a_successor_that_restarts_before_it_has_reigned_does_not_go_first() {
    let (mut deposed, backup, _, _) = handed_over();
    // Its successor's next process knows nothing, and would go first; it hears that somebody knows more and reigns again.
    let successor = deposed.accept();
    deposed.close(backup);
    deposed.tell(successor, &hello(Standing::Seeking, "a", 99, 0));
    let heard = deposed.heard(successor);
    assert!(heard[0].contains("standing: Backup") && heard[1].contains("standing: Primary"), "{heard:?}");
}

#[test]
fn whoever_has_handed_over_takes_the_reign_back_from_a_successor_that_fell_silent() {
    let (mut deposed, _, _, given) = handed_over();
    // One client has heard of the successor before its host died; the others wait for anybody.
    let client = deposed.accept();
    deposed.tell(client, &hello(Standing::Orphaned, "d", 0, 0));
    deposed.tell(client, &reign(Standing::Following, 10, given));
    deposed.pass(Span::millis(100));
    assert!(deposed.state().is_primary() && deposed.state().reign().epoch.0 > given);
}

#[test]
fn strangers_that_come_and_go_do_not_make_a_broker_dial_again() {
    let mut seeking = Alone::broker(0, |_| {});
    // Its partner's host takes the connection, and nobody answers there.
    seeking.connect(0);
    for _ in 0..5 {
        let stranger = seeking.accept();
        seeking.close(stranger);
        seeking.pass(Span::millis(150));
    }
    assert_eq!(seeking.dials(), 0);
}

#[test]
fn a_successor_that_still_polls_is_waited_for_and_not_for_ever() {
    let (mut deposed, backup, _, _) = handed_over();
    for number in 2..20 {
        deposed.pass(Span::millis(10));
        deposed.tell(backup, &Frame::Poll { number });
    }
    assert!(!deposed.state().is_primary());
    for number in 20..150 {
        deposed.pass(Span::millis(10));
        deposed.tell(backup, &Frame::Poll { number });
    }
    assert!(deposed.state().is_primary());
}

#[test]
fn clients_that_poll_do_not_stand_for_a_successor() {
    let (mut deposed, _, client, _) = handed_over();
    for number in 2..10 {
        deposed.pass(Span::millis(10));
        deposed.tell(client, &Frame::Poll { number });
    }
    assert!(deposed.state().is_primary());
}

#[test]
fn a_clock_that_jumps_after_a_handover_takes_no_reign_back() {
    let (mut deposed, backup, _, given) = handed_over();
    deposed.seat.now = deposed.seat.now + Span::secs(5);
    deposed.pass(Span::ZERO);
    assert!(!deposed.state().is_primary());
    deposed.tell(backup, &reign(Standing::Primary, 10, given));
    assert!(!deposed.state().is_primary() && deposed.state().reign().epoch.0 == given);
}

#[test]
fn a_client_that_is_forwarded_and_then_not_sleeps() {
    let mut client = Alone::client();
    let link = client.connect(0);
    client.tell(link, &hello(Standing::Primary, "a", 10, 1));
    for standing in [Standing::Backup, Standing::Primary] {
        client.tell(link, &reign(standing, 10, 1));
    }
    client.pass(Span::millis(200));
}

#[test]
fn a_broker_that_ends_reigns_once_more_if_its_successor_dies() {
    for first in [0, 1] {
        let mut run = run(&[urgent()]);
        run.publish_for(Span::millis(200));
        if first == 1 {
            run.world.request(run.publisher, 0, &Frame::Handover);
            run.publish_for(Span::millis(500));
        }
        let other = 1 - first;
        run.world.leave(first);
        while !run.world.broker(other).is_primary() {
            run.world.run_for(Span::micros(100));
        }
        run.world.kill(other);
        run.world.start(other);
        run.publish_for(Span::millis(500));
        run.assert_nothing_missing();
    }
}

#[test]
fn a_backup_takes_the_life_of_a_stream_that_its_primary_carries() {
    let mut backup = Alone::broker(1, |_| {});
    let (primary, publisher) = (backup.accept(), backup.accept());
    backup.tell(primary, &hello(Standing::Primary, "a", 10, 1));
    backup.tell(primary, &Frame::Synced);
    backup.tell(publisher, &hello(Standing::Orphaned, "p", 0, 0));
    let contract = Some(replicated());
    backup.tell(publisher, &Frame::Register(Register { stream: 0, incarnation: 9, contract, topic: "t" }));
    backup.close(publisher);
    // Its clock went back, and it reached the primary.
    backup.tell(primary, &announce(0, 5, 0));
    backup.close(primary);
    backup.refuse_dials();
    assert!(backup.state().is_primary());
    let publisher = backup.accept();
    backup.tell(publisher, &hello(Standing::Orphaned, "p", 0, 0));
    backup.tell(publisher, &Frame::Register(Register { stream: 0, incarnation: 5, contract, topic: "t" }));
    let heard = backup.heard(publisher);
    assert!(
        heard.iter().any(|frame| frame.contains("Verdict") && frame.contains("admitted: true")),
        "{heard:?}"
    );
}

#[test]
fn a_client_asks_for_no_way_before_the_primary_had_time_to_answer() {
    let mut client = Alone::client();
    // Both brokers have been away for long, and the one that stands by is reached first.
    client.refuse_dials();
    client.pass(Span::millis(1_000));
    client.refuse_dials();
    client.pass(Span::millis(1_000));
    let backup = client.connect(1);
    client.tell(backup, &hello(Standing::Backup, "b", 11, 1));
    client.pass(Span::millis(100));
    assert_eq!(client.dials(), 1, "the primary");
    let primary = client.connect(0);
    client.tell(primary, &hello(Standing::Primary, "a", 10, 1));
    client.pass(Span::millis(100));
    assert_eq!(client.dials(), 0);
    // It is asked for where the primary stays out of reach.
    client.close(primary);
    client.pass(Span::millis(1_000));
    assert!(client.is_dialing(Endpoint::way(PeerIndex(1))));
}
