#![doc = include_str!("../README.md")]

mod graph;
pub mod kinds;
mod numbers;
mod operator;
mod order;
mod payload;
mod spec;
mod validity;

pub use graph::{Consumer, Feed, Graph, GraphError, Origin, RING_MAX, Source, Step, Together};
pub use numbers::PATH_PARTS_MAX;
pub use operator::{
    Answer, Answers, Built, Fault, Input, Kind, Operator, ParameterDoc, Parameters, Setup, SetupError, Value,
};
pub use payload::{Element, PayloadType, PayloadTypeError};
pub use spec::{ConsumerSpec, GraphSpec, Join, Level, OperatorSpec, RelativeSet, SupplierSpec, Violation};
pub use validity::Validity;
