use super::*;
use contract::NodeId;
use std::collections::BinaryHeap;

const HEARING: Hearing =
    Hearing { every: Span::millis(5), patience: Span::millis(20), patience_max: Span::millis(500) };
const START: Time = Time(1_000_000_000);

type Beat = [u8; HEARTBEAT_BYTES];

/// Two brokers, and datagrams between them that are lost and delayed.
struct Two {
    now: Time,
    ends: [Liveness; 2],
    /// Of each, whether it runs, and for how long its data thread has been in one turn.
    runs: [bool; 2],
    still: [Span; 2],
    /// Arrivals: when, to whom, what. What comes while the receiver stands still waits.
    under_way: BinaryHeap<std::cmp::Reverse<(Time, usize, Beat)>>,
    waiting: [Vec<Beat>; 2],
    random: fastrand::Rng,
    loss_percent: f64,
    delay: [Span; 2],
    /// What each sends is lost altogether.
    cut: [bool; 2],
    /// The longest silence that each has seen of the other, as a share of its patience.
    worst: [f64; 2],
}

impl Two {
    fn new(seed: u64, loss_percent: f64, delay: [Span; 2]) -> Two {
        let (a, b) = ((NodeId(1), &[1; 16]), (NodeId(2), &[2; 16]));
        let end = |own, other| {
            let mut end = Liveness::new(HEARING, START);
            end.listen_for(START, Some(Companion::new(own, other, "secret")));
            end
        };
        Two {
            now: START,
            ends: [end(a, b), end(b, a)],
            runs: [true; 2],
            still: [Span::ZERO; 2],
            under_way: BinaryHeap::new(),
            waiting: Default::default(),
            random: fastrand::Rng::with_seed(seed),
            loss_percent,
            delay,
            cut: [false; 2],
            worst: [0.0; 2],
        }
    }

    fn step(&mut self) {
        self.now = self.now + Span::micros(250);
        while let Some(next) = self.under_way.peek().filter(|next| next.0.0 <= self.now) {
            let (_, to, beat) = next.0;
            self.under_way.pop();
            self.waiting[to].push(beat);
        }
        for end in 0..2 {
            if !self.runs[end] {
                continue;
            }
            for beat in std::mem::take(&mut self.waiting[end]) {
                self.ends[end].handle_datagram(self.now, &beat);
            }
            let mut sent = None;
            self.ends[end].handle_timeout(self.now, self.still[end], |beat| sent = Some(*beat));
            let lost = self.random.f64() * 100.0 < self.loss_percent || self.cut[end];
            if let Some(beat) = sent.filter(|_| !lost) {
                let delay = Span(self.random.i64(self.delay[0].0..=self.delay[1].0));
                self.under_way.push(std::cmp::Reverse((self.now + delay, 1 - end, beat)));
            }
            if let Some(evidence) = self.ends[end].evidence() {
                let share = evidence.silence.0 as f64 / evidence.patience.0 as f64;
                self.worst[end] = self.worst[end].max(share);
            }
        }
    }

    fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            self.step();
        }
    }

    fn evidence(&self, end: usize) -> Evidence {
        self.ends[end].evidence().expect("heartbeats have come")
    }

    fn is_silent(&self, end: usize) -> bool {
        let evidence = self.evidence(end);
        evidence.silence >= evidence.patience
    }

    /// How long it takes from now until one is found silent.
    fn until_silent(&mut self, end: usize) -> Span {
        let from = self.now;
        while !self.is_silent(end) {
            self.step();
            assert!(self.now < from + Span::secs(5), "nobody is found silent");
        }
        self.now.since(from)
    }
}

/// The weathers of the page of false takeovers: percent lost, shortest and longest delay in milliseconds.
const WEATHERS: [(f64, i64, i64); 8] = [
    (0.0, 0, 0),
    (0.1, 0, 0),
    (1.0, 0, 0),
    (0.0, 1, 5),
    (1.0, 1, 5),
    (0.0, 5, 15),
    (0.1, 5, 15),
    (1.0, 5, 15),
];

fn delays((_, least, most): (f64, i64, i64)) -> [Span; 2] {
    [Span(least * 1_000_000 + 20_000), Span(most * 1_000_000 + 50_000)]
}

#[test]
fn who_lives_is_not_found_silent_whatever_a_link_loses_up_to_one_percent() {
    for weather in WEATHERS {
        let mut two = Two::new(7, weather.0, delays(weather));
        // Half an hour on either side in all; more than 300 000 heartbeats each.
        two.run(Span::secs(30));
        two.worst = [0.0; 2];
        two.run(Span::secs(240));
        assert!(two.worst.iter().all(|share| *share < 1.0), "{weather:?}: {:?}", two.worst);
    }
}

#[test]
fn who_is_gone_is_found_silent_within_what_the_link_makes_necessary() {
    for weather in WEATHERS {
        let mut two = Two::new(3, weather.0, delays(weather));
        two.run(Span::secs(20));
        two.runs[0] = false;
        let took = two.until_silent(1);
        // Twenty milliseconds of patience, what is under way, and for each loss in a row that is to be expected one heartbeat more.
        let most = Span::millis(26 + 3 * weather.2 + if weather.0 >= 1.0 { 25 } else { 0 });
        assert!(took <= most, "{weather:?}: {took}");
        assert!(took >= Span::millis(15), "{weather:?}: {took}");
    }
}

#[test]
fn what_is_lost_once_lengthens_no_patience_and_what_is_lost_again_does() {
    let mut two = Two::new(5, 0.0, delays((0.0, 0, 0)));
    two.run(Span::secs(1));
    let mut lose = |times: usize| {
        two.cut[0] = true;
        two.run(Span::millis(5 * times as i64));
        two.cut[0] = false;
        two.run(Span::millis(100));
        two.evidence(1).patience
    };
    let once = lose(3);
    assert!(once < Span::millis(22), "{once}");
    let again = lose(1);
    assert!(again >= Span::millis(25), "{again}");
}

#[test]
fn who_is_heard_and_hears_nothing_is_found_silent_by_both() {
    for weather in WEATHERS {
        let mut two = Two::new(4, weather.0, delays(weather));
        two.run(Span::secs(20));
        two.cut[1] = true;
        let took = two.until_silent(0);
        assert!(took <= Span::millis(60 + 4 * weather.2), "{weather:?}: {took}");
        let took = two.until_silent(1);
        assert!(
            took <= Span::millis(60 + 6 * weather.2),
            "{weather:?}: {took}, by the one that is not heard"
        );
    }
}

#[test]
fn nobody_is_found_silent_by_a_process_that_stood_still_itself() {
    let mut two = Two::new(5, 0.0, [Span::micros(20); 2]);
    two.run(Span::secs(2));
    two.worst = [0.0; 2];
    two.runs[1] = false;
    two.run(Span::secs(20));
    two.runs[1] = true;
    two.run(Span::secs(1));
    assert!(two.worst[1] < 1.0, "{:?}", two.worst);
    assert!(two.worst[0] >= 1.0, "the other one saw it: {:?}", two.worst);
    assert!(!two.is_silent(0), "and sees that it is back");
}

#[test]
fn the_round_trip_and_the_loss_are_measured() {
    let mut two = Two::new(9, 3.0, [Span::millis(4), Span::millis(6)]);
    two.run(Span::secs(30));
    for end in 0..2 {
        let evidence = two.evidence(end);
        let round_trip = evidence.round_trip.expect("seen by now");
        assert!((9..=11).contains(&(round_trip.0 / 1_000_000)), "{round_trip}");
        assert!((20_000..40_000).contains(&evidence.loss_ppm), "{}", evidence.loss_ppm);
    }
}

#[test]
fn heartbeats_that_overtake_each_other_are_not_taken_for_lost() {
    let mut two = Two::new(11, 0.0, [Span::millis(0), Span::millis(40)]);
    two.run(Span::secs(20));
    assert!(two.evidence(0).loss_ppm < 5_000, "{}", two.evidence(0).loss_ppm);
}

#[test]
fn a_data_thread_that_stands_still_is_told() {
    let mut two = Two::new(13, 0.0, [Span::micros(50); 2]);
    two.run(Span::secs(1));
    two.still[0] = Span::millis(320);
    two.run(Span::millis(20));
    assert_eq!(two.evidence(1).still, Span::millis(320));
    assert!(!two.is_silent(1));
}

#[test]
fn an_old_heartbeat_shows_no_life() {
    let mut two = Two::new(17, 0.0, [Span::micros(50); 2]);
    two.run(Span::secs(1));
    let mut kept = None;
    let now = two.now + Span::millis(5);
    two.ends[0].handle_timeout(now, Span::ZERO, |beat| kept = Some(*beat));
    let kept = kept.expect("one was due");
    two.now = now;
    assert!(two.ends[1].handle_datagram(now, &kept), "it counts once");
    two.runs[0] = false;
    let from = two.now;
    while !two.is_silent(1) {
        assert!(!two.ends[1].handle_datagram(two.now, &kept), "and not again");
        two.step();
        assert!(two.now < from + Span::secs(1), "somebody who sends old heartbeats keeps the dead alive");
    }
}

#[test]
fn another_companion_begins_anew_and_the_same_one_goes_on() {
    let mut two = Two::new(19, 0.0, [Span::micros(50); 2]);
    two.run(Span::secs(1));
    let same = two.ends[0].companion;
    two.ends[0].listen_for(two.now, same);
    assert!(two.ends[0].evidence().is_some());
    two.ends[0].listen_for(two.now, None);
    assert_eq!(two.ends[0].evidence(), None);
}
