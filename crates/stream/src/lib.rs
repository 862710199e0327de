#![doc = include_str!("../README.md")]

mod graph;
mod order;
mod spec;
mod validity;

pub use graph::{Consumer, Feed, Graph, GraphError, Operator, Origin, RING_MAX, Source, Together};
pub use spec::{ConsumerSpec, GraphSpec, Join, Level, OperatorSpec, RelativeSet, SupplierSpec, Violation};
pub use validity::Validity;
