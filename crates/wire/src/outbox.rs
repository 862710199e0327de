//! The output buffer of one connection. Cores encode straight into it; the host hands it to the socket with one write
//! per turn. Messages of one kind that follow each other share a frame.

use crate::limits::{BATCH_BYTES_TARGET, FRAME_HEAD_BYTES};
use crate::message::MARK_BYTES;
use crate::{Frame, Mark, MarkKind, Message, MessageKind, Messages};
use std::collections::VecDeque;

/// Bytes that wait to be sent, and the frame at their end that may still grow. A long queue lies in several pieces, so that what still
/// waits need not be moved when a part has left: megabytes take a millisecond.
#[derive(Clone, Default)]
pub struct Outbox {
    /// Pieces that have become long, the oldest first. The newest, which grows, is in `bytes`.
    pieces: VecDeque<Vec<u8>>,
    /// How long those are together.
    piled: usize,
    bytes: Vec<u8>,
    /// How much of the oldest piece has been sent.
    sent: usize,
    open: Option<OpenBatch>,
    /// The room of the last piece that was sent.
    spare: Vec<u8>,
    /// The most that has been in `bytes` since it was last looked at.
    peak: usize,
}

#[derive(Clone)]
struct OpenBatch {
    kind: u8,
    /// Where its frame begins in `bytes`.
    at: usize,
}

/// Room that is not worth giving back.
const SMALL_BYTES: usize = 4 << 10;
/// Where the newest piece is longer than this, the next frame begins another.
const PIECE_BYTES: usize = 512 << 10;

impl Outbox {
    /// Appends a frame.
    pub fn push(&mut self, frame: &Frame<'_>) {
        self.begin_frame();
        frame.encode(&mut self.bytes);
    }

    /// Appends what `write` does, which is no frame.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.begin_frame();
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

    /// What waits to be sent, or the first piece of it. It will not change any more: the next message begins a new frame.
    pub fn unsent(&mut self) -> &[u8] {
        self.close();
        self.pieces.front().unwrap_or(&self.bytes).get(self.sent..).unwrap_or(&[])
    }

    /// Copies the first `count` bytes of what waits, of as many pieces as that takes.
    pub fn copy_to(&mut self, to: &mut Vec<u8>, count: usize) {
        self.close();
        let (mut from, mut left) = (self.sent, count.min(self.len()));
        for piece in self.pieces.iter().chain([&self.bytes]) {
            let part = piece.get(from..).unwrap_or(&[]);
            let part = part.get(..left).unwrap_or(part);
            to.extend_from_slice(part);
            (from, left) = (0, left - part.len());
        }
    }

    /// The first `count` bytes of what waits have left.
    pub fn consume(&mut self, count: usize) {
        self.sent += count.min(self.len());
        while let Some(piece) = self.pieces.front_mut()
            && piece.len() <= self.sent
        {
            (self.sent, self.piled) = (self.sent - piece.len(), self.piled - piece.len());
            self.spare = std::mem::take(piece);
            self.spare.clear();
            self.pieces.pop_front();
        }
        if self.is_empty() {
            self.peak = self.peak.max(self.bytes.len());
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// How many bytes wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.piled + self.bytes.len() - self.sent
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops messages for a subscriber that have not begun to leave, the oldest first, until no more than so many bytes wait or there
    /// are none. Other frames stay. Returns how many messages were dropped.
    pub fn shed(&mut self, keep: usize) -> u64 {
        self.close();
        let (mut dropped, mut excess) = (0, self.len().saturating_sub(keep));
        let mut sent = self.sent;
        for piece in self.pieces.iter_mut().chain([&mut self.bytes]) {
            if excess == 0 {
                break;
            }
            let (before, begins) = (piece.len(), first_whole_frame(piece, std::mem::take(&mut sent)));
            dropped += shed_frames(piece, begins, excess);
            excess = excess.saturating_sub(before - piece.len());
        }
        // The oldest keeps its place, even with nothing in it, since what has been sent of it is known by that.
        self.piled = self.pieces.iter().map(Vec::len).sum();
        self.spare = Vec::new();
        self.consume(0);
        dropped
    }

    /// Gives back room that was not used since the last call.
    pub fn trim(&mut self) {
        let used = std::mem::take(&mut self.peak).max(self.len());
        if self.pieces.is_empty() && self.spare.capacity() > used {
            self.spare = Vec::new();
        }
        if self.bytes.capacity() > 2 * used.max(SMALL_BYTES) {
            self.bytes.shrink_to(used.max(SMALL_BYTES));
        }
    }

    /// Goes on with the open batch if it is of this kind and has room for so many bytes, or begins another.
    #[inline]
    fn begin(&mut self, kind: u8, bytes: usize) {
        let grown = |open: &OpenBatch| self.bytes.len() - open.at + bytes;
        let fits = |open: &OpenBatch| open.kind == kind && grown(open) <= BATCH_BYTES_TARGET;
        if !self.open.as_ref().is_some_and(fits) {
            self.begin_frame();
            self.open = Some(OpenBatch { kind, at: self.bytes.len() });
            self.bytes.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
        }
    }

    /// What comes next belongs to no frame that is there, and to another piece where the newest is long.
    #[inline]
    fn begin_frame(&mut self) {
        self.close();
        if self.bytes.len() > PIECE_BYTES {
            self.pile();
        }
    }

    /// Begins another piece. No frame is open.
    #[cold]
    fn pile(&mut self) {
        self.piled += self.bytes.len();
        let mut next = std::mem::take(&mut self.spare);
        next.reserve(PIECE_BYTES + BATCH_BYTES_TARGET);
        self.pieces.push_back(std::mem::replace(&mut self.bytes, next));
    }

    /// Ends the open batch: now its length is known and stands in its head.
    #[inline]
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let length = (self.bytes.len() - open.at - FRAME_HEAD_BYTES) as u32;
        if let Some(field) = self.bytes.get_mut(open.at + 4..open.at + FRAME_HEAD_BYTES) {
            field.copy_from_slice(&length.to_le_bytes());
        }
    }
}

/// Where the first frame begins of which nothing has been sent.
fn first_whole_frame(piece: &[u8], sent: usize) -> usize {
    let mut at = 0;
    while at < sent
        && let Some(length) = frame_bytes(piece, at)
    {
        at += length;
    }
    at.max(sent)
}

/// The length of the frame that begins here, with its head.
fn frame_bytes(piece: &[u8], at: usize) -> Option<usize> {
    let &[_, _, _, _, l0, l1, l2, l3] = piece.get(at..at + FRAME_HEAD_BYTES)? else { return None };
    Some(FRAME_HEAD_BYTES + u32::from_le_bytes([l0, l1, l2, l3]) as usize)
}

/// Takes frames with messages for a subscriber out of a piece, from this place on, until it is shorter by so much. Returns how many
/// messages they had.
fn shed_frames(piece: &mut Vec<u8>, begins: usize, excess: usize) -> u64 {
    let (mut from, mut to, mut dropped) = (begins, begins, 0);
    while from - to < excess
        && let Some(length) = frame_bytes(piece, from)
    {
        let body = piece.get(from + FRAME_HEAD_BYTES..from + length).unwrap_or(&[]);
        match piece.get(from).is_some_and(|kind| *kind == MessageKind::Deliver as u8) {
            true => dropped += Messages::check(body).map_or(0, |messages| messages.count() as u64),
            false => {
                piece.copy_within(from..from + length, to);
                to += length;
            }
        }
        from += length;
    }
    piece.drain(to..from.min(piece.len()));
    piece.shrink_to_fit();
    dropped
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
        let mut all = Vec::new();
        outbox.copy_to(&mut all, usize::MAX);
        assert_eq!(frames(&all), ["deliver 1", "deliver 1", "deliver 1"]);
    }

    #[test]
    fn a_long_queue_leaves_in_order_and_nothing_of_it_is_moved() {
        const COUNT: u64 = 400;
        let mut outbox = Outbox::default();
        let payload = vec![7; 10 << 10];
        let (mut queued, mut left, mut places) = (0, Vec::new(), 0);
        for seq in 0..COUNT {
            outbox.push_message(MessageKind::Deliver, &message(seq, &payload));
            if seq % 3 == 0 {
                outbox.push(&Frame::Poll { number: seq });
            }
            queued = queued.max(outbox.len());
            // Two messages come for each that leaves, in parts that end anywhere.
            let before = outbox.unsent().as_ptr() as usize;
            let part = outbox.unsent().len().min(5_003);
            left.extend_from_slice(&outbox.unsent()[..part]);
            outbox.consume(part);
            let after = outbox.unsent().as_ptr() as usize;
            places += usize::from(after != before + part);
        }
        assert!(
            queued > 3 * PIECE_BYTES && places <= COUNT as usize * 5_003 / PIECE_BYTES + 1,
            "{queued} {places}"
        );
        while !outbox.is_empty() {
            let length = outbox.len();
            let piece = outbox.unsent().to_vec();
            left.extend_from_slice(&piece);
            outbox.consume(piece.len());
            assert_eq!(outbox.len(), length - piece.len());
        }
        let (mut bytes, mut next) = (&left[..], 0);
        while let Ok(Decoded::Frame(frame, used)) = decode(bytes) {
            if let Frame::Deliver(messages) = frame {
                for one in messages {
                    assert_eq!((one.seq, one.payload), (next, &payload[..]));
                    next += 1;
                }
            }
            bytes = &bytes[used..];
        }
        assert!(bytes.is_empty() && next == COUNT, "{next}");
        outbox.consume(1);
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_leaves_may_end_in_any_piece() {
        let mut outbox = Outbox::default();
        (0..4).for_each(|_| outbox.append(|out| out.resize(out.len() + PIECE_BYTES + 1, 0)));
        outbox.consume(2 * PIECE_BYTES);
        assert_eq!((outbox.len(), outbox.unsent().len()), (2 * PIECE_BYTES + 4, 2));
        let mut copy = Vec::new();
        outbox.copy_to(&mut copy, PIECE_BYTES);
        assert_eq!((copy.len(), outbox.len()), (PIECE_BYTES, 2 * PIECE_BYTES + 4));
        outbox.consume(usize::MAX);
        assert_eq!((outbox.len(), outbox.unsent()), (0, &[][..]));
    }

    /// A record of TLS 1.3 has five bytes in front, and a kind and a tag behind.
    const RECORD_BYTES: usize = 5 + 1 + 16;

    #[test]
    fn a_message_alone_takes_no_more_than_thin_links_reckon_with() {
        let mut outbox = Outbox::default();
        outbox.push_message(MessageKind::Publish, &message(0, &[7; 100]));
        let around = outbox.len() - 100 + RECORD_BYTES;
        assert!(
            around as u64 <= contract::MESSAGE_BYTES && around * 2 > contract::MESSAGE_BYTES as usize,
            "{around}"
        );
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

    #[test]
    fn what_is_shed_is_the_oldest_that_has_not_begun_to_leave() {
        let mut outbox = Outbox::default();
        let payload = vec![7; 10 << 10];
        for seq in 0..300 {
            outbox.push_message(MessageKind::Deliver, &message(seq, &payload));
            if seq % 10 == 0 {
                outbox.push(&Frame::Poll { number: seq });
            }
        }
        // The first frame has begun to leave.
        outbox.consume(100);
        let (before, keep) = (outbox.len(), 1 << 20);
        let dropped = outbox.shed(keep);
        assert!((180..=200).contains(&dropped), "{dropped}");
        assert!(outbox.len() <= keep && outbox.len() + (64 << 10) > keep, "{} of {before}", outbox.len());
        outbox.push_message(MessageKind::Deliver, &message(300, &payload));
        let mut all = Vec::new();
        outbox.copy_to(&mut all, usize::MAX);
        assert_eq!(all.len(), outbox.len());
        // What comes first is the rest of the first frame, of one message.
        let rest = FRAME_HEAD_BYTES + message(0, &payload).encoded_bytes() - 100;
        let (mut polls, mut numbers, mut bytes) = (0, Vec::new(), &all[rest..]);
        while let Ok(Decoded::Frame(frame, used)) = decode(bytes) {
            match frame {
                Frame::Deliver(messages) => numbers.extend(messages.map(|message| message.seq)),
                Frame::Poll { .. } => polls += 1,
                other => panic!("{other:?}"),
            }
            bytes = &bytes[used..];
        }
        assert!(bytes.is_empty());
        assert_eq!(polls, 30, "only messages are dropped");
        let kept: Vec<u64> = (dropped + 1..=300).collect();
        assert_eq!(numbers, kept);
        outbox.consume(usize::MAX);
        assert!(outbox.is_empty());
        assert_eq!(outbox.shed(0), 0);
    }

    #[test]
    fn room_that_is_not_used_is_given_back() {
        let mut outbox = Outbox::default();
        let room = |outbox: &Outbox| outbox.bytes.capacity() + outbox.spare.capacity();
        for _ in 0..200 {
            outbox.push_message(MessageKind::Deliver, &message(0, &[7; 10 << 10]));
        }
        let waiting = outbox.len();
        outbox.copy_to(&mut Vec::new(), waiting);
        outbox.consume(waiting);
        let before = room(&outbox);
        outbox.trim();
        outbox.push(&Frame::Poll { number: 1 });
        outbox.consume(usize::MAX);
        outbox.trim();
        assert!(before > 512 << 10 && room(&outbox) <= 2 * SMALL_BYTES, "{} of {before}", room(&outbox));
    }
}
