//! Bytes to frames to messages, and nothing done with them.

use crate::{Scenario, native};
use std::hint::black_box;
use wire::{Decoded, Frame};

/// Batches of messages as a broker reads them.
pub(crate) struct Frames {
    batches: Vec<Vec<u8>>,
    carried: usize,
    messages: u64,
}

impl Frames {
    pub(crate) fn new(batches: u64) -> Frames {
        Frames { batches: native::publications(batches), carried: 0, messages: 0 }
    }
}

impl Scenario for Frames {
    fn carry(&mut self) {
        let mut rest = self.batches[self.carried].as_slice();
        self.carried += 1;
        while let Ok(Decoded::Frame(frame, length)) = wire::decode(black_box(rest)) {
            if let Frame::Publish(messages) = frame {
                self.messages += messages.map(black_box).count() as u64;
            }
            rest = &rest[length..];
        }
    }

    fn check(&mut self, messages: u64) {
        assert_eq!(self.messages, messages, "messages decoded");
    }
}
