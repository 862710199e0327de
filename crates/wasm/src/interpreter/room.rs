//! How far an instance may grow: within its limits, and within the time that its run has left.
//!
//! One `memory.grow` clears what is added, and where the interpreter's buffer has no room it copies all that was there: that
//! takes milliseconds for a few megabytes, and nothing can stop it once it has begun. So it is asked before.

use contract::Span;
use wasmi::errors::{MemoryError, TableError};
use wasmi::{ResourceLimiter, StoreLimits};
use wasmi_core::LimiterError;

/// Bytes of new memory that are cleared or copied into in a microsecond at least: a page that nobody has touched before
/// takes the kernel most of that time.
const BYTES_PER_MICRO: u64 = 2_000;

/// What an instance may still grow by.
pub(super) struct Room {
    limits: StoreLimits,
    /// What the interpreter's buffer has room for. It doubles when it has none.
    capacity: usize,
    /// What may be cleared and copied in the time that is left.
    bytes: u64,
    /// Capacity and bytes before the growth that was last allowed, which may not come to pass.
    before: (usize, u64),
    /// Whether time was what refused a growth.
    out_of_time: bool,
}

impl Room {
    /// Within these limits, and for as long as setting up takes without asking for time.
    pub fn new(limits: StoreLimits) -> Room {
        Room { limits, capacity: 0, bytes: u64::MAX, before: (0, u64::MAX), out_of_time: false }
    }

    /// From now on there is so much time.
    pub fn allow(&mut self, left: Span) {
        self.bytes = (left.as_nanos_u64() / 1_000).saturating_mul(BYTES_PER_MICRO);
        self.out_of_time = false;
    }

    /// Whether the last refusal was for want of time.
    pub fn is_out_of_time(&self) -> bool {
        self.out_of_time
    }
}

impl ResourceLimiter for Room {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        if !self.limits.memory_growing(current, desired, maximum)? {
            return Ok(false);
        }
        let moves = desired > self.capacity;
        let touched = if moves { desired } else { desired - current } as u64;
        if touched > self.bytes {
            self.out_of_time = true;
            return Err(LimiterError::ResourceLimiterDeniedAllocation);
        }
        self.before = (self.capacity, self.bytes);
        self.bytes -= touched;
        if moves {
            // The first buffer is as long as was asked for.
            self.capacity = if current == 0 { desired } else { desired.max(2 * self.capacity) };
        }
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        self.limits.table_growing(current, desired, maximum)
    }

    fn memory_grow_failed(&mut self, error: &MemoryError) -> Result<(), LimiterError> {
        // For want of fuel, say; then it is asked again.
        (self.capacity, self.bytes) = self.before;
        self.limits.memory_grow_failed(error)
    }

    fn table_grow_failed(&mut self, error: &TableError) -> Result<(), LimiterError> {
        self.limits.table_grow_failed(error)
    }

    fn instances(&self) -> usize {
        self.limits.instances()
    }

    fn tables(&self) -> usize {
        self.limits.tables()
    }

    fn memories(&self) -> usize {
        self.limits.memories()
    }
}
