#![doc = include_str!("../README.md")]

mod outlets;
mod runner;
mod running;
mod spec;

pub use runner::{Connect, Hosting, Runner};
pub use spec::{FunctionSpec, Rule, SpecError, Written, WrittenRule};
