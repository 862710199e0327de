//! The output buffer of one connection. Cores encode straight into it; the host hands it to the socket with one write
//! per turn. Messages of one kind that follow each other share a frame.

use crate::limits::{BATCH_BYTES_TARGET, FRAME_HEAD_BYTES};
use crate::message::MARK_BYTES;
use crate::{Frame, Mark, MarkKind, Message, MessageKind};

/// Bytes that wait to be sent, and the frame at their end that may still grow.
#[derive(Clone, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    open: Option<OpenBatch>,
}

#[derive(Clone)]
struct OpenBatch {
    kind: u8,
    /// Where its frame begins in `bytes`.
    at: usize,
}

/// The part of the buffer that has been sent is cut off when it is larger than this and the rest.
const CUT_BYTES: usize = 64 << 10;

impl Outbox {
    /// Appends a frame.
    pub fn push(&mut self, frame: &Frame<'_>) {
        self.close();
        frame.encode(&mut self.bytes);
    }

    /// Appends what `write` does, which is no frame.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.close();
        write(&mut self.bytes);
    }

    /// Appends a message, to the last frame where that is a growing batch of the same kind.
    #[inline]
    pub fn push_message(&mut self, kind: MessageKind, message: &Message<'_>) {
        self.begin(kind as u8, message.encoded_bytes());
        message.write(&mut self.bytes);
    }

    /// Appends a mark, to the last frame where that is a growing batch of the same kind.
    pub fn push_mark(&mut self, kind: MarkKind, mark: Mark) {
        self.begin(kind as u8, MARK_BYTES);
        mark.write(&mut self.bytes);
    }

    /// What waits to be sent. It will not change any more: the next message begins a new frame.
    pub fn unsent(&mut self) -> &[u8] {
        self.close();
        self.bytes.get(self.sent..).unwrap_or(&[])
    }

    /// The first `count` bytes of [`Outbox::unsent`] have left.
    pub fn consume(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.bytes.len());
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > CUT_BYTES.max(self.bytes.len() / 2) {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Goes on with the open batch if it is of this kind and has room for so many bytes, or begins another.
    #[inline]
    fn begin(&mut self, kind: u8, bytes: usize) {
        let grown = |open: &OpenBatch| self.bytes.len() - open.at + bytes;
        let fits = |open: &OpenBatch| open.kind == kind && grown(open) <= BATCH_BYTES_TARGET;
        if !self.open.as_ref().is_some_and(fits) {
            self.close();
            self.open = Some(OpenBatch { kind, at: self.bytes.len() });
            self.bytes.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
        }
    }

    /// Ends the open batch: now its length is known and stands in its head.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let length = (self.bytes.len() - open.at - FRAME_HEAD_BYTES) as u32;
        if let Some(field) = self.bytes.get_mut(open.at + 4..open.at + FRAME_HEAD_BYTES) {
            field.copy_from_slice(&length.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoded, MessageFlags, decode};
    use contract::Time;

    fn message(seq: u64, payload: &[u8]) -> Message<'_> {
        Message { stream: 3, flags: MessageFlags::NONE, seq, created: Time(9), payload }
    }

    fn frames(mut bytes: &[u8]) -> Vec<String> {
        let mut seen = Vec::new();
        while let Ok(Decoded::Frame(frame, used)) = decode(bytes) {
            seen.push(match frame {
                Frame::Deliver(messages) => format!("deliver {}", messages.count()),
                Frame::Prune(marks) => format!("prune {}", marks.count()),
                other => format!("{other:?}"),
            });
            bytes = &bytes[used..];
        }
        assert!(bytes.is_empty());
        seen
    }

    #[test]
    fn neighbours_of_one_kind_share_a_frame() {
        let mut outbox = Outbox::default();
        outbox.push_message(MessageKind::Deliver, &message(0, b"a"));
        outbox.push_message(MessageKind::Deliver, &message(1, b"bc"));
        outbox.push_mark(MarkKind::Prune, Mark { stream: 1, seq: 2 });
        outbox.push_mark(MarkKind::Prune, Mark { stream: 1, seq: 3 });
        outbox.push(&Frame::Poll { number: 7 });
        outbox.push_message(MessageKind::Deliver, &message(2, b""));
        assert_eq!(frames(outbox.unsent()), ["deliver 2", "prune 2", "Poll { number: 7 }", "deliver 1"]);
    }

    #[test]
    fn a_frame_that_may_have_left_no_longer_grows() {
        let mut outbox = Outbox::default();
        outbox.push_message(MessageKind::Deliver, &message(0, b"a"));
        let half = outbox.unsent().len() / 2;
        outbox.consume(half);
        let rest = outbox.len();
        outbox.push_message(MessageKind::Deliver, &message(1, b"b"));
        assert_eq!(frames(&outbox.unsent()[rest..]), ["deliver 1"]);
    }

    #[test]
    fn a_batch_is_closed_when_it_has_grown_enough() {
        let mut outbox = Outbox::default();
        let payload = vec![7; 30 << 10];
        (0..3).for_each(|seq| outbox.push_message(MessageKind::Deliver, &message(seq, &payload)));
        assert_eq!(frames(outbox.unsent()), ["deliver 2", "deliver 1"]);
    }

    #[test]
    fn the_largest_payload_after_a_small_one_has_a_frame_of_its_own() {
        let mut outbox = Outbox::default();
        let largest = vec![7; crate::limits::PAYLOAD_BYTES_MAX];
        outbox.push_message(MessageKind::Deliver, &message(0, &[1; 2_000]));
        outbox.push_message(MessageKind::Deliver, &message(1, &largest));
        outbox.push_message(MessageKind::Deliver, &message(2, b"x"));
        assert_eq!(frames(outbox.unsent()), ["deliver 1", "deliver 1", "deliver 1"]);
    }

    #[test]
    fn consuming_everything_empties_the_buffer() {
        let mut outbox = Outbox::default();
        outbox.push(&Frame::Poll { number: 1 });
        outbox.consume(outbox.len());
        assert!(outbox.is_empty());
        outbox.consume(10);
        assert!(outbox.is_empty());
    }
}
