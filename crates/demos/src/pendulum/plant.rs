//! The plant: a cart on a rail with a pole that stands on it.
//!
//! Nothing rubs. The equations are those of Barto, Sutton and Anderson (1983), whose pole is a thin rod; they follow from the energy
//! that `Motion::energy` says, which tests look at.

/// Of the cart, in kg.
const CART: f64 = 1.0;
/// Of the pole, in kg.
const POLE: f64 = 0.2;
/// From the joint to the middle of the pole, in m.
const HALF_LENGTH: f64 = 0.5;
/// In m/s².
const GRAVITY: f64 = 9.81;

/// Where cart and pole are, and how fast they move.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Motion {
    /// Of the cart, in m.
    pub position: f64,
    /// Of the cart, in m/s.
    pub speed: f64,
    /// Of the pole, from upright, in rad.
    pub angle: f64,
    /// Of the pole, in rad/s.
    pub rate: f64,
}

impl Motion {
    pub const fn of([position, speed, angle, rate]: [f64; 4]) -> Motion {
        Motion { position, speed, angle, rate }
    }

    pub const fn parts(self) -> [f64; 4] {
        [self.position, self.speed, self.angle, self.rate]
    }

    /// This motion, and so much of another.
    fn plus(self, share: f64, other: [f64; 4]) -> Motion {
        let parts = self.parts();
        Motion::of(std::array::from_fn(|place| parts[place] + share * other[place]))
    }

    /// What becomes of it in so many seconds, while this force (in N) acts on the cart: one step of Runge and Kutta's method of
    /// fourth order.
    pub fn after(self, seconds: f64, force: f64) -> Motion {
        let first = self.change(force);
        let second = self.plus(seconds / 2.0, first).change(force);
        let third = self.plus(seconds / 2.0, second).change(force);
        let fourth = self.plus(seconds, third).change(force);
        let mean = std::array::from_fn(|place| {
            (first[place] + 2.0 * second[place] + 2.0 * third[place] + fourth[place]) / 6.0
        });
        self.plus(seconds, mean)
    }

    /// How much each part changes in a second.
    fn change(self, force: f64) -> [f64; 4] {
        let (sine, cosine) = self.angle.sin_cos();
        let mass = CART + POLE;
        let pushed = (force + POLE * HALF_LENGTH * self.rate * self.rate * sine) / mass;
        let turning =
            (GRAVITY * sine - cosine * pushed) / (HALF_LENGTH * (4.0 / 3.0 - POLE * cosine * cosine / mass));
        [self.speed, pushed - POLE * HALF_LENGTH * turning * cosine / mass, self.rate, turning]
    }

    /// Of motion and height, in J; none while the pole is level and all rests.
    #[cfg(test)]
    fn energy(self) -> f64 {
        let cosine = self.angle.cos();
        0.5 * (CART + POLE) * self.speed.powi(2)
            + POLE * HALF_LENGTH * self.speed * self.rate * cosine
            + 2.0 / 3.0 * POLE * (HALF_LENGTH * self.rate).powi(2)
            + POLE * GRAVITY * HALF_LENGTH * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_kept_where_nothing_rubs_and_nobody_pushes() {
        let mut motion = Motion { speed: 0.3, angle: 0.4, rate: -0.2, ..Motion::default() };
        let before = motion.energy();
        for _ in 0..20_000 {
            motion = motion.after(0.001, 0.0);
            assert!((motion.energy() - before).abs() < 1e-6, "{} at {motion:?}", motion.energy());
        }
        assert!((motion.angle - 0.4).abs() > 0.1, "it has moved");
    }

    #[test]
    fn a_force_adds_the_energy_of_the_way_that_it_pushes_the_cart() {
        let mut motion = Motion { angle: 0.1, ..Motion::default() };
        let before = motion.energy();
        for _ in 0..500 {
            motion = motion.after(0.001, 2.0);
        }
        assert!((motion.energy() - before - 2.0 * motion.position).abs() < 1e-6);
    }

    #[test]
    fn a_pole_that_nobody_balances_falls() {
        let mut motion = Motion { angle: 0.01, ..Motion::default() };
        for _ in 0..2_000 {
            motion = motion.after(0.001, 0.0);
        }
        assert!(motion.angle > 1.0, "{motion:?}");
    }
}
