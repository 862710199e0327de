#![doc = include_str!("../README.md")]

mod doing;
mod outlets;
mod runner;
mod running;
mod spec;

pub use runner::{Connect, Hosting, Runner};
pub use spec::{
    CheaperSpec, Does, FunctionSpec, OperatorSpec, OperatorText, Operators, OutletSpec, Rule, SpecError,
    WASM, Written, WrittenRule, check_payload,
};
