//! What went wrong, for C: a number to decide by, and a sentence to show. Neither allocates.

use crate::{Error, ReadError, WriteError};
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::fmt::{Arguments, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a function returns instead; the same as in `include/verge_kv.h`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Code {
    /// `VERGE_KV_NOTHING`
    Nothing = -1,
    /// `VERGE_KV_STALE`
    Stale = -2,
    /// `VERGE_KV_FULL`
    Full = -3,
    /// `VERGE_KV_LATE`
    Late = -4,
    /// `VERGE_KV_INVALID`
    Invalid = -5,
    /// `VERGE_KV_GONE`
    Gone = -6,
    /// `VERGE_KV_INTERRUPTED`
    Interrupted = -7,
    /// `VERGE_KV_SYSTEM`
    System = -8,
    /// `VERGE_KV_UNKNOWN`
    Unknown = -9,
    /// `VERGE_KV_ALARM`
    Alarm = -10,
}

/// The longest sentence, with its zero.
const SENTENCE_BYTES_MAX: usize = 512;

#[repr(C)]
struct Sentence {
    // First, so that a pointer to the sentence is one to its text.
    bytes: [u8; SENTENCE_BYTES_MAX],
    len: usize,
}

thread_local! {
    static LAST: RefCell<Sentence> = const { RefCell::new(Sentence { bytes: [0; SENTENCE_BYTES_MAX], len: 0 }) };
}

impl Write for Sentence {
    fn write_str(&mut self, piece: &str) -> std::fmt::Result {
        // What does not fit is cut, and there is always a zero at the end.
        let room = SENTENCE_BYTES_MAX - 1 - self.len;
        let fits = piece.floor_char_boundary(room.min(piece.len()));
        self.bytes[self.len..self.len + fits].copy_from_slice(&piece.as_bytes()[..fits]);
        self.len += fits;
        self.bytes[self.len] = 0;
        if fits < piece.len() { Err(std::fmt::Error) } else { Ok(()) }
    }
}

/// Keeps the sentence for this thread.
pub(super) fn say(code: Code, sentence: Arguments<'_>) -> c_int {
    LAST.with_borrow_mut(|last| {
        last.len = 0;
        last.bytes[0] = 0;
        // Too long a sentence is better cut than none.
        let _ = last.write_fmt(sentence);
    });
    code as c_int
}

pub(super) fn refuse(error: &Error) -> c_int {
    say(code(error), format_args!("{error}"))
}

pub(super) fn last() -> *const c_char {
    LAST.with(|last| last.as_ptr().cast_const().cast())
}

/// Runs what a C function does. A panic must not leave it.
pub(super) fn guarded(act: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        say(Code::System, format_args!("a fault of verge_kv: please report what was on stderr"))
    })
}

fn code(error: &Error) -> Code {
    match error {
        Error::Read { error: ReadError::Lane(error), .. } => match error {
            kv::ReadError::Nothing => Code::Nothing,
            kv::ReadError::Stale(_) => Code::Stale,
            kv::ReadError::Unknown => Code::Unknown,
            _ => Code::Invalid,
        },
        Error::Read { error: ReadError::Restless | ReadError::NoVector, .. } => Code::Nothing,
        Error::Read { error: ReadError::Alarm, .. } => Code::Alarm,
        Error::Write { error, .. } => match error {
            WriteError::Full(_) => Code::Full,
            WriteError::NodeGone(_) => Code::Gone,
            WriteError::NoJobBefore(_) | WriteError::Lane(kv::WriteError::PublishingTimePast(_)) => {
                Code::Late
            }
            WriteError::Lane(kv::WriteError::Rejoining) => Code::Unknown,
            _ => Code::Invalid,
        },
        Error::NoNode { .. } | Error::Passing(_) | Error::Memory(_) | Error::Refused(_) => Code::System,
        _ => Code::Invalid,
    }
}
