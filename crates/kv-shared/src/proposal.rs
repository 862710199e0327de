//! Whether a value could be written: what the lane would say of it, said before it is on its way.

use crate::ring::Full;
use crate::store::{Gone, Store};
use contract::{Span, Time};
use kv::KeyId;

/// Why a write was refused. Nothing has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// As a lane would say.
    #[error(transparent)]
    Lane(#[from] kv::WriteError),
    /// No job carries it in time: all nodes would drop it.
    #[error(
        "the next job begins {0} after the publishing time, so none carries the value in time: write earlier in the period, before \
         the job's release (`offset`), or publish one period later"
    )]
    NoJobBefore(Span),
    /// As many tuples as this client may write for a job wait already.
    #[error(transparent)]
    Full(#[from] Full),
    /// There is nobody to write to.
    #[error(transparent)]
    NodeGone(#[from] Gone),
}

impl Store {
    /// I1, and what else a lane demands of a value. The lane looks again when it takes the value; its own votes (`custom`) are
    /// asked there alone.
    pub fn check_write(
        &self,
        key: KeyId,
        value: &[u8],
        publishing: Time,
        now: Time,
    ) -> Result<(), WriteError> {
        let facts = self.facts();
        let terms = self.terms(key).ok_or(kv::WriteError::UnknownKey(key))?;
        self.node_alive(now)?;
        if !terms.may_write {
            return Err(kv::WriteError::NotAWriter.into());
        }
        if publishing <= now {
            return Err(kv::WriteError::PublishingTimePast(now.since(publishing)).into());
        }
        let next = self.next_release(now);
        let (ahead, horizon) = (publishing.since(next), facts.horizon);
        if ahead > horizon {
            return Err(kv::WriteError::PublishingTimeTooFar { ahead, horizon }.into());
        }
        if ahead <= Span::ZERO {
            return Err(WriteError::NoJobBefore(-ahead));
        }
        let (bytes, max) = (value.len(), facts.value_bytes_max);
        if bytes > max {
            return Err(kv::WriteError::ValueTooLong { bytes, max }.into());
        }
        if terms.format.is_some_and(|format| !format.accepts(value)) {
            return Err(kv::WriteError::NotANumber.into());
        }
        if now < self.cautious_until() && !terms.alone && self.is_empty(key) {
            return Err(kv::WriteError::Rejoining.into());
        }
        Ok(())
    }

    /// The release of the job that carries what is written now, as the lane has it.
    fn next_release(&self, now: Time) -> Time {
        let facts = self.facts();
        let job = self.begun().max(self.finished()).saturating_add(1);
        let next = Time(job.saturating_mul(facts.period.as_nanos_u64())) + facts.offset;
        // A job that is so late will not begin any more.
        if now < next + facts.period { next } else { now }
    }
}
