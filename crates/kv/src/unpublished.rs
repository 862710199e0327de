//! What this node's tasks have written since the last job began.

use crate::{Setup, Tuple};

/// Two batches: tasks write to one while the other is being exchanged.
#[derive(Debug)]
pub struct Unpublished {
    batches: [Batch; 2],
    active: usize,
    tuples_max: usize,
}

#[derive(Debug)]
struct Batch {
    bytes: Box<[u8]>,
    used: usize,
    tuples: usize,
}

impl Unpublished {
    /// Room for what one job may carry.
    pub fn new(setup: &Setup) -> Unpublished {
        let batch = || Batch { bytes: vec![0; setup.batch_bytes_max()].into(), used: 0, tuples: 0 };
        Unpublished { batches: [batch(), batch()], active: 0, tuples_max: setup.batch_tuples_max() }
    }

    /// Appends a tuple; `false` if there are as many as a job may carry.
    #[must_use]
    pub fn push(&mut self, tuple: &Tuple<'_>) -> bool {
        let batch = &mut self.batches[self.active];
        if batch.tuples == self.tuples_max {
            return false;
        }
        let Some(length) = tuple.write(&mut batch.bytes[batch.used..]) else { return false };
        batch.used += length;
        batch.tuples += 1;
        true
    }

    /// How many tuples wait for the next job.
    pub fn len(&self) -> usize {
        self.batches[self.active].tuples
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        self.batches[self.active].used = 0;
        self.batches[self.active].tuples = 0;
    }

    /// The batch for the job that begins now. What is written from now on goes to the other one.
    pub fn drain(&mut self) -> &[u8] {
        let drained = self.active;
        self.active = 1 - drained;
        self.clear();
        let batch = &self.batches[drained];
        &batch.bytes[..batch.used]
    }
}
