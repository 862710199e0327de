//! Who may write how much for one job: shares of the lane's batch, so that no application takes another one's room.

/// Most applications of one lane at once. The node looks at each of their rings in every job.
pub const SLOTS_MAX: usize = 256;

/// Why an application was not taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// It asks for nothing.
    #[error("`tuples = 0`: ask for as many tuples as are written for one job, at least 1")]
    None,
    /// More than is left.
    #[error(
        "`tuples = {asked}`: {left} of the lane's {max} tuples for each job are left (`batch_tuples_max`); ask for fewer, end \
         other clients, or raise `batch_tuples_max` on all nodes"
    )]
    TooMany {
        /// What was asked for.
        asked: usize,
        /// What is left.
        left: usize,
        /// `NT`.
        max: usize,
    },
    /// Too many applications.
    #[error(
        "{SLOTS_MAX} clients write to this lane, as many as it takes: end one, or write from fewer processes"
    )]
    Slots,
}

/// The shares of one lane.
#[derive(Clone, Debug)]
pub struct Quotas {
    /// By slot; 0 for one that is free.
    taken: Vec<usize>,
    left: usize,
    max: usize,
}

impl Quotas {
    /// Nobody has anything yet of `batch_tuples_max`.
    pub fn new(batch_tuples_max: usize) -> Quotas {
        Quotas { taken: Vec::new(), left: batch_tuples_max, max: batch_tuples_max }
    }

    /// How many tuples are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Gives a share, and the lowest slot that is free.
    pub fn take(&mut self, tuples: usize) -> Result<u32, QuotaError> {
        if tuples == 0 {
            return Err(QuotaError::None);
        }
        if tuples > self.left {
            return Err(QuotaError::TooMany { asked: tuples, left: self.left, max: self.max });
        }
        let free = self.taken.iter().position(|&tuples| tuples == 0).unwrap_or(self.taken.len());
        if free == SLOTS_MAX {
            return Err(QuotaError::Slots);
        }
        if free == self.taken.len() {
            self.taken.push(0);
        }
        self.taken[free] = tuples;
        self.left -= tuples;
        Ok(free as u32)
    }

    /// Takes a share back; nothing happens if the slot is free.
    pub fn give_back(&mut self, slot: u32) {
        if let Some(tuples) = self.taken.get_mut(slot as usize) {
            self.left += std::mem::take(tuples);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_batch_and_come_back() {
        let mut quotas = Quotas::new(10);
        assert_eq!(quotas.take(0), Err(QuotaError::None));
        assert_eq!((quotas.take(6), quotas.take(4)), (Ok(0), Ok(1)));
        assert_eq!(quotas.take(1), Err(QuotaError::TooMany { asked: 1, left: 0, max: 10 }));
        quotas.give_back(0);
        quotas.give_back(0);
        quotas.give_back(99);
        assert_eq!(
            (quotas.left(), quotas.take(7)),
            (6, Err(QuotaError::TooMany { asked: 7, left: 6, max: 10 }))
        );
        assert_eq!((quotas.take(6), quotas.left()), (Ok(0), 0));
    }

    #[test]
    fn slots_are_limited() {
        let mut quotas = Quotas::new(1_000);
        assert!((0..SLOTS_MAX).all(|slot| quotas.take(1) == Ok(slot as u32)));
        assert_eq!(quotas.take(1), Err(QuotaError::Slots));
        quotas.give_back(17);
        assert_eq!(quotas.take(1), Ok(17));
    }
}
