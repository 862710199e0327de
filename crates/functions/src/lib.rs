#![doc = include_str!("../README.md")]

mod doing;
mod outlets;
mod runner;
mod running;
mod spec;

pub use runner::{Connect, Hosting, Runner};
pub use spec::{
    Does, FunctionSpec, OperatorSpec, OutletSpec, Rule, SpecError, WASM, Written, WrittenRule, check_payload,
};
