//! Anything that another site, or the other keeper of this one, may say. Nothing panics, and nothing is handed on that was not asked for.
#![no_main]

use backlog::{
    Answering, Ask, Asking, AskingSettings, Beat, Handed, HandedOn, Hands, Item, Kept, Logs, Looked, Part,
    Place, Progress, Want,
};
use contract::{Span, Time};
use libfuzzer_sys::fuzz_target;

/// What is asked for.
#[derive(Default)]
struct Doing {
    asked: Option<Ask>,
}

impl Hands for Doing {
    fn ask(&mut self, _origin: &str, ask: &Ask) {
        assert_eq!(Ask::decode(&ask.encode()).expect("what was encoded"), *ask);
        self.asked = Some(ask.clone());
    }

    fn hand_on(&mut self, message: &HandedOn<'_>) -> Handed {
        let Some(Ask { want: Want::Give { missing, .. }, .. }) = &self.asked else {
            panic!("nothing was asked for")
        };
        let item = &message.item;
        let is_of = |(first, last): &(u64, u64)| (*first..=*last).contains(&item.seq);
        assert!(missing.iter().any(|(name, ranges)| *name.topic == *item.topic && ranges.iter().any(is_of)));
        assert!(item.topic.starts_with("a/"));
        Handed::On
    }

    fn remember(&mut self, _place: &Place<'_>) {}

    fn tell(&mut self, progress: &Progress) -> bool {
        Progress::decode(&progress.encode()).is_ok()
    }
}

/// A log of a few messages.
struct Few;

impl Logs for Few {
    fn younger(&mut self, _log: &str, _span: Span) -> u64 {
        0
    }

    fn read(
        &mut self,
        _log: &str,
        after: u64,
        items: usize,
        each: &mut dyn FnMut(&Kept<'_>) -> bool,
    ) -> Looked {
        for position in (1..=20).filter(|position| *position > after).take(items) {
            let created = Time(position);
            let item = Item {
                topic: "a/b",
                publisher: "p",
                life: 1,
                seq: position,
                created,
                flags: 0,
                payload: b"x",
            };
            if !each(&Kept { position, item }) {
                return Looked { to: position, is_end: false };
            }
        }
        Looked { to: after.max(20), is_end: true }
    }
}

fuzz_target!(|steps: Vec<(u8, Vec<u8>)>| {
    let mut now = Time(1_000_000_000);
    let mut asking = Asking::new(AskingSettings { history: Span::ZERO, began: now, takes: 0 }, now);
    let mut answering = Answering::new(1 << 20);
    let mut doing = Doing::default();
    asking.want(now, vec!["a/#".parse().expect("a filter")], true);
    asking.act(now, true, &mut doing);
    for (kind, bytes) in steps {
        now = now + Span::millis(100);
        match kind % 5 {
            0 => _ = Beat::decode(&bytes).map(|beat| asking.hear_beat(now, "north", beat)),
            1 => {
                if let Ok(part) = Part::decode(&bytes) {
                    asking.hear_part(now, "north", &part, now, &mut doing);
                }
            }
            2 => {
                if let Ok(progress) = Progress::decode(&bytes) {
                    asking.hear_progress(now, progress, &mut doing);
                }
            }
            3 => _ = Ask::decode(&bytes).map(|ask| answering.hear("south", ask)),
            _ => now = now + Span::millis(i64::from(kind) * 20),
        }
        answering.work(now, &mut Few, &mut |_, bytes| Part::decode(bytes).is_ok());
        asking.tick(now, &mut doing);
    }
});
