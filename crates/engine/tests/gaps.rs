//! The longest time between two messages, where it is configured: what is longer is told, whoever publishes, and in time.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use broker::{Settings, Snapshot, Survey, TopicRule};
use contract::{Contract, Span};
use world::World;

const GAP: Span = Span::millis(700);
/// Between two looks at a stream; what is noticed may have begun one before, and another goes by until it is seen.
const LOOK: Span = Span::millis(100);

/// A gap for `t/#`, and none elsewhere. The contract promises nothing, so that nothing else would be told of silence.
fn rules(gap: Span) -> Vec<TopicRule> {
    let contract = Contract::every(Span::millis(100)).best_effort();
    let rule = |filter: &str, gap| TopicRule { gap, ..TopicRule::new(filter.parse().unwrap(), contract) };
    vec![rule("t/#", gap), rule("#", Span::FOREVER)]
}

fn with_gap(settings: &mut Settings) {
    settings.topics = rules(GAP);
}

struct Plant {
    world: World,
    publisher: usize,
    publications: [u32; 2],
}

impl Plant {
    fn new() -> Plant {
        let mut world = World::protected(with_gap);
        let publisher = world.add_client("plc");
        world.run_for(Span::millis(50));
        let publications = ["t/0", "other"].map(|topic| world.advertise_as(publisher, topic, None));
        world.run_for(Span::millis(50));
        Plant { world, publisher, publications }
    }

    fn publish_for(&mut self, span: Span, every: Span) {
        let end = self.world.now + span;
        while self.world.now < end {
            for publication in self.publications {
                self.world.publish(self.publisher, publication, b"x").unwrap();
            }
            self.world.run_for(every);
        }
    }

    fn silent(&self) -> u32 {
        let mut snapshot = Snapshot::default();
        self.world.broker(0).fill(self.world.now, &Survey::default(), &mut snapshot);
        snapshot.node.silent
    }

    fn told(&mut self, text: &str) -> usize {
        self.world.log(0).iter().filter(|line| line.contains(text)).count()
    }
}

#[test]
fn what_is_longer_than_the_gap_is_told_in_time_and_what_is_shorter_is_not() {
    let mut plant = Plant::new();
    plant.publish_for(Span::secs(2), Span::millis(100));
    plant.publish_for(Span::secs(10), GAP - Span::millis(1));
    assert_eq!(plant.told("silent"), 0, "{:?}", plant.world.log(0));
    for times in 1..=3 {
        // Nothing is learnt of pauses: each is told.
        plant.publish_for(Span::secs(1), Span::millis(100));
        plant.world.run_for(GAP - Span::millis(100));
        assert_eq!(plant.told("`t/0` of plc is silent"), times - 1);
        plant.world.run_for(LOOK * 2 + Span::millis(100));
        assert_eq!(plant.told("`t/0` of plc is silent: nothing has come for"), times);
        assert_eq!(plant.told("and something was to come within 700ms (gap)"), times);
        plant.publish_for(Span::millis(300), Span::millis(100));
        assert_eq!(plant.told("`t/0` of plc goes on"), times);
    }
    assert_eq!(plant.told("`other`"), 0, "it has no gap");
}

#[test]
fn a_stream_that_never_says_anything_is_told_and_one_that_ends_is_not() {
    let mut plant = Plant::new();
    plant.world.run_for(GAP + LOOK * 2);
    assert_eq!(plant.told("`t/0` of plc is silent"), 1);
    plant.publish_for(Span::secs(1), Span::millis(100));
    plant.world.withdraw(plant.publisher, plant.publications[0]);
    plant.world.run_for(Span::secs(5));
    assert_eq!(plant.told("`t/0` of plc is silent"), 1, "{:?}", plant.world.log(0));
}

#[test]
fn a_gap_that_changes_holds_from_then_on() {
    let mut plant = Plant::new();
    plant.publish_for(Span::secs(3), Span::secs(1));
    let silent = plant.told("`t/0` of plc is silent");
    assert!(silent >= 2);
    plant.world.change_topics(0, rules(Span::secs(2))).unwrap();
    plant.publish_for(Span::secs(5), Span::millis(1_500));
    assert!(plant.told("`t/0` of plc is silent") <= silent + 1, "what was silent may have been told before");
    plant.world.run_for(Span::secs(3));
    assert!(plant.told("was to come within 2s (gap)") == 1, "{:?}", plant.world.log(0));
    assert_eq!(plant.silent(), 1);
    plant.world.change_topics(0, rules(Span::FOREVER)).unwrap();
    plant.world.run_for(LOOK * 2);
    assert_eq!(plant.silent(), 0, "nothing is said of its gaps any more");
}
