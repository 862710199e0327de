//! Subscribers that need more than a topic's contract says: the strictest governs, and what cannot be kept is refused to them alone.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use broker::{Settings, Snapshot, Survey};
use contract::{Contract, LinkClass, Loss, Needs, Span};
use world::World;

struct Plant {
    world: World,
    publisher: usize,
    topic: u32,
}

const CALM: Needs = Needs::NONE;
const URGENT: Needs = Needs { deadline: Some(Span::millis(10)), loss: Some(0), ..CALM };
/// Less than the ways take.
const IMPOSSIBLE: Needs = Needs { deadline: Some(Span::micros(500)), ..CALM };

const STRICT: (Span, Loss) = (Span::millis(10), Loss::AtMost(0));
const STATED: (Span, Loss) = (Span::millis(40), Loss::AtMost(2));

fn contract() -> Contract {
    Contract::every(Span::millis(50)).deadline(Span::millis(40)).tolerate(2).retain(2)
}

impl Plant {
    /// A topic, and subscribers with these needs who were there before or come after it.
    fn new(before: &[Needs], after: &[Needs]) -> Plant {
        let mut world = World::protected(|_: &mut Settings| {});
        let publisher = world.add_client("plc");
        world.run_for(Span::millis(50));
        let join = |world: &mut World, needs: &[Needs], at: usize| {
            for (number, needs) in needs.iter().enumerate() {
                let client = world.add_client(&format!("s{}", at + number));
                world.run_for(Span::millis(50));
                world.subscribe_needing(client, "t", *needs);
                world.run_for(Span::millis(50));
            }
        };
        join(&mut world, before, 1);
        let topic = world.advertise(publisher, "t", contract());
        world.run_for(Span::millis(50));
        join(&mut world, after, 1 + before.len());
        Plant { world, publisher, topic }
    }

    fn publish(&mut self, old: Span) {
        let created = self.world.now - old;
        self.world.publish_created(self.publisher, self.topic, b"x", created).unwrap();
        self.world.run_for(Span::millis(60));
    }

    /// What a broker says of the topic: `D` and `L` by which it is planned, and who needs that.
    fn row(&mut self, broker: usize) -> (Span, Loss, String) {
        let broker = self.world.broker(broker);
        let (planned, needs) = broker.planned_for(broker.stream_of("t", "plc").unwrap()).unwrap();
        (planned.deadline, planned.loss, needs)
    }

    fn planned(&mut self, broker: usize) -> (Span, Loss) {
        let (deadline, loss, _) = self.row(broker);
        (deadline, loss)
    }

    fn told(&mut self, text: &str) -> usize {
        self.world.log(0).iter().filter(|line| line.contains(text)).count()
    }

    fn late_at_subscribers(&self) -> u64 {
        let mut snapshot = Snapshot::default();
        self.world.broker(0).fill(self.world.now, &Survey::default(), &mut snapshot);
        snapshot.node.counters.subscribers_late
    }
}

#[test]
fn the_strictest_governs_whoever_comes_first_and_for_as_long_as_it_is_there() {
    for (before, after) in [(&[CALM, URGENT][..], &[][..]), (&[], &[URGENT, CALM]), (&[URGENT], &[CALM])] {
        let mut plant = Plant::new(before, after);
        assert_eq!(plant.planned(0), STRICT, "{before:?} {after:?}");
        let urgent = before.iter().chain(after).position(|needs| *needs == URGENT).unwrap();
        assert_eq!(plant.row(0).2, format!("s{}: deadline 10ms, loss 0", urgent + 1));
        plant.world.unsubscribe(1 + urgent, 0);
        plant.world.run_for(Span::millis(50));
        assert_eq!(plant.planned(0), STATED);
    }
}

#[test]
fn whoever_is_further_away_is_served_sooner() {
    let far = Needs { link: Some(LinkClass::CLOUD), ..CALM };
    let mut plant = Plant::new(&[], &[far]);
    assert_eq!(plant.planned(0).0, Span::millis(21), "40 ms, of which the way takes 20 and not 1");
}

#[test]
fn what_cannot_be_kept_is_refused_with_numbers_and_nobody_else_is_touched() {
    let nowhere = Needs { link: Some("moon".parse().unwrap()), ..CALM };
    for (needs, says) in [
        (IMPOSSIBLE, "the way to a subscriber may take 2ms, and the deadline is 500us"),
        (nowhere, "`moon` is not configured"),
    ] {
        let mut plant = Plant::new(&[], &[CALM, needs]);
        let refused = plant.world.seen(2).subscribed.clone();
        assert!(matches!(&refused[..], [Err(text)] if text.contains(says)), "{refused:?}");
        assert_eq!(plant.planned(0), STATED);
        plant.publish(Span::ZERO);
        assert_eq!((plant.world.seen(1).messages.len(), plant.world.seen(2).messages.len()), (1, 0));
    }
}

#[test]
fn a_topic_that_comes_later_is_carried_by_its_contract_where_needs_cannot_be_kept() {
    let mut plant = Plant::new(&[CALM, IMPOSSIBLE], &[]);
    plant.publish(Span::ZERO);
    assert_eq!(plant.planned(0), STATED);
    assert_eq!((plant.world.seen(1).messages.len(), plant.world.seen(2).messages.len()), (1, 1));
    let heard = plant.world.seen(2).subscribed.clone();
    assert!(
        matches!(&heard[..], [Ok(_), Err(text)] if text.contains("is carried by its contract")),
        "{heard:?}"
    );
    assert_eq!(plant.told("is carried by its contract"), 1);
    for _ in 0..20 {
        plant.publish(Span::millis(5));
    }
    assert_eq!(plant.late_at_subscribers(), 0, "it needs nothing more from then on");
}

#[test]
fn messages_are_late_for_whom_they_are_late() {
    let mut plant = Plant::new(&[], &[CALM, URGENT]);
    for _ in 0..30 {
        plant.publish(Span::ZERO);
    }
    plant.publish(Span::millis(15));
    plant.world.run_for(Span::secs(1));
    assert_eq!(plant.late_at_subscribers(), 1);
    assert_eq!((plant.told("came to s2 after their deadline"), plant.told("came to s1 after")), (1, 0));
}

#[test]
fn a_backup_plans_as_its_primary_does() {
    let mut plant = Plant::new(&[URGENT], &[CALM]);
    plant.world.kill(0);
    plant.world.run_for(Span::secs(1));
    assert_eq!(plant.planned(1), STRICT);
    plant.world.start(0);
    plant.world.run_for(Span::secs(2));
    plant.world.kill(1);
    plant.world.run_for(Span::secs(1));
    assert_eq!(plant.planned(0), STRICT, "and one that comes back learns it");
}

#[test]
fn a_filter_has_one_set_of_needs() {
    let mut plant = Plant::new(&[], &[URGENT]);
    plant.world.subscribe_needing(1, "t", CALM);
    plant.world.run_for(Span::millis(50));
    let heard = plant.world.seen(1).subscribed.clone();
    assert!(matches!(&heard[..], [Ok(_), Err(text)] if text.contains("unsubscribe it first")), "{heard:?}");
    assert_eq!(plant.planned(0), STRICT);
}
