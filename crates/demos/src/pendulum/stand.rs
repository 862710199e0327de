//! What stands around a plant: sensors with noise, one for each replica, the actuator, pushes from outside, and the recorder.

use super::REPLICAS;
use super::actuator::{Actuator, Rule};
use super::plant::Motion;
use contract::{Span, Time};
use std::f64::consts::{FRAC_PI_2, TAU};

/// The plant is computed in steps of at most this.
const STEP: Span = Span::millis(1);
/// The time between two samples of the recorder.
pub const SAMPLE: Span = Span::millis(10);
/// The pole is let go with this angle, in rad.
const TILT: f64 = 0.03;
/// How far each sensor is off at most, and how much it trembles (standard deviation): m, m/s, rad, rad/s.
const OFF: [f64; 4] = [0.01, 0.0, 0.004, 0.0];
const NOISE: [f64; 4] = [0.004, 0.02, 0.004, 0.02];

/// A push on the cart from outside, which controllers do not know.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Push {
    /// After the beginning.
    pub at: Span,
    /// In N, for [`PUSH_LASTS`].
    pub force: f64,
}

pub const PUSH_LASTS: Span = Span::millis(200);

/// One sensor of a replica.
struct Sensor {
    chance: fastrand::Rng,
    off: [f64; 4],
}

/// A plant and what is around it.
pub struct Stand {
    motion: Motion,
    pub actuator: Actuator,
    sensors: [Sensor; REPLICAS],
    pushes: Vec<Push>,
    /// Until when all has been computed, once the pole has been let go, and when that was.
    moved: Option<(Time, Time)>,
    /// The angle every [`SAMPLE`] since then, in rad.
    pub angles: Vec<f64>,
}

impl Stand {
    /// A pole that is held upright. The same seed makes the same sensors.
    pub fn new(rule: Rule, period: Span, pushes: Vec<Push>, seed: u64) -> Stand {
        let sensor = |replica: usize| {
            let mut chance = fastrand::Rng::with_seed(seed.wrapping_mul(31).wrapping_add(replica as u64));
            let off = OFF.map(|most| most * (2.0 * chance.f64() - 1.0));
            Sensor { chance, off }
        };
        let sensors = std::array::from_fn(sensor);
        let actuator = Actuator::new(rule, period);
        Stand { motion: Motion::default(), actuator, sensors, pushes, moved: None, angles: Vec::new() }
    }

    /// Lets the pole go, a little tilted.
    pub fn let_go(&mut self, at: Time) {
        self.motion = Motion { angle: TILT, ..Motion::default() };
        self.moved = Some((at, at));
    }

    /// Computes what has happened until now.
    pub fn advance(&mut self, now: Time) {
        let Some((mut moved, begun)) = self.moved else { return };
        while moved + STEP <= now {
            let since = moved.since(begun);
            if since.0 % SAMPLE.0 == 0 {
                self.angles.push(self.motion.angle);
            }
            let pushing = |push: &&Push| since >= push.at && since < push.at + PUSH_LASTS;
            let pushed: f64 = self.pushes.iter().filter(pushing).map(|push| push.force).sum();
            self.motion = self.motion.after(STEP.0 as f64 / 1e9, self.actuator.force + pushed);
            if self.has_fallen() {
                // It lies on the rail, and stays there.
                self.motion = Motion { angle: FRAC_PI_2.copysign(self.motion.angle), ..Motion::default() };
            }
            moved = moved + STEP;
        }
        self.moved = Some((moved, begun));
    }

    /// What a replica's sensor says now.
    pub fn measure(&mut self, replica: usize, now: Time) -> Motion {
        self.advance(now);
        let (true_parts, sensor) = (self.motion.parts(), &mut self.sensors[replica]);
        let part =
            |place: usize| true_parts[place] + sensor.off[place] + NOISE[place] * normal(&mut sensor.chance);
        Motion::of(std::array::from_fn(part))
    }

    /// Takes a replica's force.
    pub fn command(&mut self, replica: usize, release: Time, force: f64, now: Time) {
        self.advance(now);
        self.actuator.take(replica, release, force);
    }

    /// In rad.
    pub fn angle(&self) -> f64 {
        self.motion.angle
    }

    pub fn has_fallen(&self) -> bool {
        self.motion.angle.abs() >= FRAC_PI_2
    }
}

/// Normally distributed, by Box and Muller.
fn normal(chance: &mut fastrand::Rng) -> f64 {
    let (radius, turn) = (1.0 - chance.f64(), chance.f64());
    (-2.0 * radius.ln()).sqrt() * (TAU * turn).cos()
}

#[cfg(test)]
mod tests;
