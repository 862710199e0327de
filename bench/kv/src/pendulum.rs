//! An inverted pendulum on a cart and its controller. All 19 numbers of its state live in the store, so whoever has read them can go
//! on with it.

use contract::{Span, Time};

/// What a controller reads and writes in each period.
pub const NUMBERS: usize = 19;
/// The number that says for which instant the state is, as a count of periods.
const JOB: usize = NUMBERS - 1;
/// How often the plant is computed in a period.
const STEPS: u32 = 20;
const GRAVITY: f64 = 9.81;
const LENGTH: f64 = 0.5;

/// Angle, its speed, place and speed of the cart, integral, error before, force, where the angle should be, three gains, and the last
/// seven angles.
pub type State = [f64; NUMBERS];

/// Where a controller begins that has nothing to go on from: the same on all nodes.
pub fn upright() -> State {
    let mut state = [0.0; NUMBERS];
    state[0] = 0.1;
    state[8..11].copy_from_slice(&[60.0, 4.0, 10.0]);
    state
}

/// The state one period later, for the instant `stamp`.
pub fn next(state: &State, period: Span, stamp: Time) -> State {
    let [mut angle, mut speed, mut place, mut cart, mut integral, before, ..] = *state;
    let seconds = period.0 as f64 / 1e9;
    // A long period would let any pendulum fall: its time goes as fast as a controller of 50 ms can follow.
    let step = seconds.min(0.05) / f64::from(STEPS);
    let (mut error, mut force) = (before, 0.0);
    for _ in 0..STEPS {
        error = state[7] - angle;
        integral += error * step;
        force = -(state[8] * error + state[9] * integral - state[10] * speed);
        speed += step * (GRAVITY * angle.sin() - force * angle.cos()) / LENGTH;
        angle += step * speed;
        cart += step * force;
        place += step * cart;
    }
    let mut next = *state;
    next[..7].copy_from_slice(&[angle, speed, place, cart, integral, error, force]);
    next.copy_within(11..JOB - 1, 12);
    next[11] = angle;
    if !next.iter().all(|number| number.is_finite()) {
        next = upright();
    }
    next[JOB] = job(stamp, period);
    next
}

/// Whether a state is one that a correct node has written for this instant.
pub fn is_of(state: &State, period: Span, stamp: Time) -> bool {
    state[JOB] == job(stamp, period)
}

fn job(stamp: Time, period: Span) -> f64 {
    (stamp.0 / period.as_nanos_u64().max(1)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pendulum_is_kept_upright_and_states_say_when_they_are() {
        for millis in [50, 100, 200, 400, 800] {
            let period = Span::millis(millis);
            let mut state = upright();
            for count in 1..=400 {
                let stamp = Time::ZERO + period * count;
                state = next(&state, period, stamp);
                assert!(is_of(&state, period, stamp) && !is_of(&state, period, stamp + period));
                assert!(state[0].abs() < 0.5, "{millis} ms, period {count}: {state:?}");
            }
            assert!(state[0].abs() < 0.01, "{millis} ms: {state:?}");
        }
    }
}
