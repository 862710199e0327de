//! What a broker's operators and their levels have done, as rows of a snapshot.

use crate::WireError;
use crate::limits::OPERATOR_BYTES_MAX;
use crate::reader::{Reader, put, put_text};
use contract::{OperatorCounters, Span};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One operator of a broker. Counts begin when it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatorStatus<'a> {
    /// Its name, with what stands in the places of `+`: `rms[7]`. A longer one is cut.
    pub name: &'a str,
    /// Its level.
    pub level: u8,
    /// What was counted.
    pub counters: OperatorCounters,
    /// The time of all runs.
    pub busy: Span,
    /// The longest run.
    pub worst: Span,
}

/// One level of a broker's operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelStatus {
    /// Which.
    pub level: u8,
    /// Operators that are at work there now.
    pub operators: u32,
    /// The time of all their runs.
    pub busy: Span,
    /// The longest of those.
    pub worst: Span,
    /// Events that were dropped since the process started because too many waited for the level.
    pub refused: u64,
    /// Runs that have been under way for so long that they count as not returning.
    pub overdue: u32,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct OperatorHead {
    level: u8,
    reserved: [u8; 3],
    counters: [U64; OperatorCounters::NAMES.len()],
    busy_nanos: U64,
    worst_nanos: U64,
}

impl<'a> OperatorStatus<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        let head = OperatorHead {
            level: self.level,
            reserved: [0; 3],
            counters: self.counters.to_array().map(U64::new),
            busy_nanos: nanos(self.busy),
            worst_nanos: nanos(self.worst),
        };
        put(out, &head);
        put_text(out, self.name, OPERATOR_BYTES_MAX);
    }

    fn read(reader: &mut Reader<'a>) -> Result<OperatorStatus<'a>, WireError> {
        let head = reader.head::<OperatorHead>()?;
        Ok(OperatorStatus {
            name: reader.text(OPERATOR_BYTES_MAX)?,
            level: head.level,
            counters: OperatorCounters::from_array(head.counters.map(U64::get)),
            busy: span(head.busy_nanos),
            worst: span(head.worst_nanos),
        })
    }
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct LevelHead {
    level: u8,
    reserved: [u8; 3],
    operators: U32,
    overdue: U32,
    refused: U64,
    busy_nanos: U64,
    worst_nanos: U64,
}

impl LevelStatus {
    fn write(&self, out: &mut Vec<u8>) {
        let head = LevelHead {
            level: self.level,
            reserved: [0; 3],
            operators: self.operators.into(),
            overdue: self.overdue.into(),
            refused: self.refused.into(),
            busy_nanos: nanos(self.busy),
            worst_nanos: nanos(self.worst),
        };
        put(out, &head);
    }

    fn read(reader: &mut Reader<'_>) -> Result<LevelStatus, WireError> {
        let head = reader.head::<LevelHead>()?;
        Ok(LevelStatus {
            level: head.level,
            operators: head.operators.get(),
            busy: span(head.busy_nanos),
            worst: span(head.worst_nanos),
            refused: head.refused.get(),
            overdue: head.overdue.get(),
        })
    }
}

/// Durations have no sign.
fn nanos(span: Span) -> U64 {
    U64::new(span.0.max(0).unsigned_abs())
}

fn span(nanos: U64) -> Span {
    Span(i64::try_from(nanos.get()).unwrap_or(i64::MAX))
}

/// A run of operator rows that have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatorStatuses<'a>(pub(crate) &'a [u8]);

impl<'a> OperatorStatuses<'a> {
    pub(crate) fn check(body: &'a [u8]) -> Result<OperatorStatuses<'a>, WireError> {
        let mut reader = Reader(body);
        while !reader.0.is_empty() {
            OperatorStatus::read(&mut reader)?;
        }
        Ok(OperatorStatuses(body))
    }

    /// Appends a row to a run of rows that is being made.
    pub fn append(rows: &mut Vec<u8>, row: &OperatorStatus<'_>) {
        row.write(rows);
    }

    /// A run of rows made with [`OperatorStatuses::append`].
    pub fn of(rows: &'a [u8]) -> OperatorStatuses<'a> {
        OperatorStatuses(rows)
    }
}

impl<'a> Iterator for OperatorStatuses<'a> {
    type Item = OperatorStatus<'a>;

    fn next(&mut self) -> Option<OperatorStatus<'a>> {
        let mut reader = Reader(self.0);
        let row = OperatorStatus::read(&mut reader).ok()?;
        self.0 = reader.0;
        Some(row)
    }
}

/// A run of level rows that have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelStatuses<'a>(pub(crate) &'a [u8]);

impl<'a> LevelStatuses<'a> {
    pub(crate) fn check(body: &'a [u8]) -> Result<LevelStatuses<'a>, WireError> {
        let mut reader = Reader(body);
        while !reader.0.is_empty() {
            LevelStatus::read(&mut reader)?;
        }
        Ok(LevelStatuses(body))
    }

    /// Appends a row to a run of rows that is being made.
    pub fn append(rows: &mut Vec<u8>, row: &LevelStatus) {
        row.write(rows);
    }

    /// A run of rows made with [`LevelStatuses::append`].
    pub fn of(rows: &'a [u8]) -> LevelStatuses<'a> {
        LevelStatuses(rows)
    }
}

impl Iterator for LevelStatuses<'_> {
    type Item = LevelStatus;

    fn next(&mut self) -> Option<LevelStatus> {
        let mut reader = Reader(self.0);
        let row = LevelStatus::read(&mut reader).ok()?;
        self.0 = reader.0;
        Some(row)
    }
}
