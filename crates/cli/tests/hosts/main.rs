//! What only hosts of their own can show: clocks that step or run apart, hosts that die without a word, cables that are pulled,
//! links that lose and delay. Each host is a guest with its own kernel, clock and network, up in two seconds (`lab`).
//! Where guests cannot run, every test is SKIPPED, and says why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod lab;
#[path = "../support/mod.rs"]
mod support;

mod clocks;
mod deaths;
mod guests;
mod links;
mod plant;
