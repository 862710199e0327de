//! The controller of the pendulum, without a word about who runs it: what it remembers and what has been measured come in, what it
//! remembers next and the force come out, bit by bit the same wherever the same comes in.
//!
//! A measurement is a period old when it is used, since it becomes visible at the release after the one at which it was taken. So
//! the controller remembers what it expected then and which force has acted since, corrects the one by the measurement, and
//! computes from both where the pendulum is now.

use super::plant::Motion;

/// No force is greater, in N.
pub const FORCE_MAX: f64 = 10.0;

/// Force for each unit of position, speed, angle, rate and integral: the linear-quadratic regulator for a period of 50 ms, with the
/// weights 2, 0.5, 20, 1 and 0.3, and 0.05 for the force. It also balances at half and at twice that period, as tests show.
const GAINS: [f64; 5] = [6.678, 7.600, 54.417, 13.710, 1.672];

/// How much of what was not expected is believed.
const CORRECTION: f64 = 0.5;
/// How fast the memory of earlier surprises fades, in each period.
const FADING: f64 = 0.05;
/// In m·s. The integral does not go beyond it.
const INTEGRAL_MAX: f64 = 2.0;

/// What a replica remembers from one period to the next.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Memory {
    /// What was expected at the release at which this was computed.
    pub expected: Motion,
    /// The mean of what measurements had more than was expected: sensors that are off show here.
    pub surprise: [f64; 4],
    /// The mean of its square: sensors that are noisy show here.
    pub spread: [f64; 4],
    /// The force since that release, in N.
    pub force: f64,
    /// Of the cart's distance from its target, in m·s.
    pub integral: f64,
    /// Where the cart should be, in m.
    pub target: f64,
}

impl Memory {
    /// How many numbers it is.
    pub const FLOATS: usize = 15;

    /// The beginning, from nothing but a measurement.
    pub fn beginning(measured: Motion) -> Memory {
        Memory { expected: measured, ..Memory::default() }
    }

    /// What is remembered a period later; its force is to act from then on. Without a measurement it trusts what it expected.
    pub fn next(self, measured: Option<Motion>, period: f64) -> Memory {
        let Memory { mut surprise, mut spread, target, .. } = self;
        let mut then = self.expected.parts();
        for (place, measured) in measured.iter().flat_map(|motion| motion.parts()).enumerate() {
            let more = measured - then[place];
            then[place] += CORRECTION * more;
            surprise[place] += FADING * (more - surprise[place]);
            spread[place] += FADING * (more * more - spread[place]);
        }
        let expected = Motion::of(then).after(period, self.force);
        let away = expected.position - target;
        let integral = (self.integral + period * away).clamp(-INTEGRAL_MAX, INTEGRAL_MAX);
        let counted = [away, expected.speed, expected.angle, expected.rate, integral];
        let force: f64 = GAINS.iter().zip(counted).map(|(gain, part)| gain * part).sum();
        Memory { expected, surprise, spread, force: force.clamp(-FORCE_MAX, FORCE_MAX), integral, target }
    }

    /// As it is written under [`keys`](super::keys), number by number.
    pub fn floats(&self) -> [f64; Memory::FLOATS] {
        let mut floats = [0.0; Memory::FLOATS];
        floats[..4].copy_from_slice(&self.expected.parts());
        floats[4..8].copy_from_slice(&self.surprise);
        floats[8..12].copy_from_slice(&self.spread);
        floats[12..].copy_from_slice(&[self.force, self.integral, self.target]);
        floats
    }

    /// The same backwards.
    pub fn of(floats: &[f64; Memory::FLOATS]) -> Memory {
        let [position, speed, angle, rate, a, b, c, d, e, f, g, h, force, integral, target] = *floats;
        let expected = Motion { position, speed, angle, rate };
        Memory { expected, surprise: [a, b, c, d], spread: [e, f, g, h], force, integral, target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_from_its_numbers() {
        let floats: [f64; Memory::FLOATS] = std::array::from_fn(|place| place as f64 + 0.5);
        assert_eq!(Memory::of(&floats).floats(), floats);
    }

    #[test]
    fn it_balances_at_half_and_at_twice_its_period() {
        for period in [0.02_f64, 0.025, 0.05, 0.1] {
            let mut motion = Motion { angle: 0.15, ..Motion::default() };
            let mut memory = Memory::beginning(motion);
            for _ in 0..(20.0 / period) as u32 {
                let (then, force) = (motion, memory.force);
                for _ in 0..(period * 1e3).round() as u32 {
                    motion = motion.after(0.001, force);
                }
                memory = memory.next(Some(then), period);
            }
            let left = motion.parts().map(f64::abs).into_iter().fold(0.0, f64::max);
            assert!(left < 0.01, "{period}: {motion:?}");
        }
    }

    #[test]
    fn a_measurement_that_is_missing_is_bridged() {
        let period = 0.05;
        let mut motion = Motion { angle: 0.05, ..Motion::default() };
        let mut memory = Memory::beginning(motion);
        for number in 0..200 {
            let (then, force) = (motion, memory.force);
            motion = motion.after(period, force);
            memory = memory.next((number % 3 != 0).then_some(then), period);
        }
        assert!(motion.angle.abs() < 0.01, "{motion:?}");
    }
}
