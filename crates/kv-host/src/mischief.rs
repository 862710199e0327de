//! A node that lies, for demonstrations and measurements: it tells every peer something else, with a valid code.

use kv::frame::{Batches, BodyHash};
use kv::{Frame, HEAD_BYTES, Head, LinkKey, Node, STATE_ROUND, TUPLE_HEAD_BYTES, Tuples};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What makes frames of a lane lie, while its switch is on.
pub(crate) struct Mischief {
    switch: Arc<AtomicBool>,
    links: Box<[LinkKey]>,
    body: Box<[u8]>,
}

impl Mischief {
    pub(crate) fn new(switch: Arc<AtomicBool>, links: &[LinkKey], frame_bytes_max: usize) -> Mischief {
        Mischief { switch, links: links.into(), body: vec![0; frame_bytes_max].into() }
    }

    /// The frame, or what is said to this peer instead.
    pub(crate) fn twist<'a>(&'a mut self, frame: Frame<'a>, to: Node) -> Frame<'a> {
        let Ok(head) = Head::parse(&frame.head) else { return frame };
        if !self.switch.load(Ordering::Relaxed) {
            return frame;
        }
        let body = &mut self.body[..frame.body.len()];
        body.copy_from_slice(frame.body);
        if head.round == STATE_ROUND {
            twist_tuples(frame.body, body, 0, to);
        } else {
            for (_, at, length) in Batches::of(frame.body) {
                twist_tuples(&frame.body[at..at + length], body, at, to);
            }
        }
        let head = head.seal(&BodyHash::of(body), &self.links[to.index()]);
        debug_assert_eq!(head.len(), HEAD_BYTES);
        Frame { head, body }
    }
}

/// Tells a peer other values than these tuples have, which begin there in the body.
fn twist_tuples(tuples: &[u8], body: &mut [u8], mut place: usize, to: Node) {
    for tuple in Tuples::of(tuples) {
        place += TUPLE_HEAD_BYTES;
        lie(&mut body[place..place + tuple.value.len()], to);
        place += tuple.value.len();
    }
}

/// Another value for each peer: far away where it is a number, and never the true one.
fn lie(value: &mut [u8], to: Node) {
    if let Ok(number) = <&mut [u8; 8]>::try_from(&mut *value) {
        let sign = if to.0.is_multiple_of(2) { 1.0 } else { -1.0 };
        *number = (sign * (1_000.0 + f64::from(to.0))).to_le_bytes();
    } else {
        value.iter_mut().for_each(|byte| *byte ^= 0x5a_u8.wrapping_add(to.0));
    }
}
