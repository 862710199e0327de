//! Any bytes into the decoder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Decoded, decode};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
        assert!(used <= rest.len());
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(decode(&again), Ok(Decoded::Frame(frame, again.len())));
        rest = &rest[used..];
    }
});
