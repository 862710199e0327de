#![doc = include_str!("../README.md")]

mod analysis;
mod event;
mod graph;
pub mod kinds;
mod level;
mod memory;
mod numbers;
mod operator;
mod order;
mod pattern;
mod payload;
pub mod quality;
mod router;
pub mod rules;
mod slab;
mod spec;
mod station;
mod stats;
mod validity;

pub use analysis::{Analysis, Costed, LevelLoad, NoBound, Processors, Response, analyse};
pub use event::{Body, Draft, Event, Marks, Number, Store};
pub use graph::{
    BuiltIn, Consumer, Factory, Feed, GapCause, Gaps, Graph, GraphError, INPUTS_MAX, Origin, RING_MAX,
    Source, Step, Together, permits_for,
};
pub use level::{LevelQueue, Results};
pub use memory::{MEMORY_BYTES_MAX, Put, Recalled, Streams};
pub use numbers::PATH_PARTS_MAX;
pub use operator::{
    Answer, Answers, Built, Cause, Fault, Input, Kind, Memory, Operator, ParameterDoc, Parameters, Setup,
    SetupError, Value,
};
pub use pattern::{PatternError, captures, fill};
pub use payload::{Element, PayloadType, PayloadTypeError, path_parts};
pub use router::{
    Bound, Change, Crew, Kept, OperatorRow, Output, Overdue, Router, SharedFactory, Strain, Supply, Unkept,
};
pub use spec::{
    ConsumerSpec, GraphSpec, Join, Keep, Level, OperatorSpec, RelativeSet, SupplierSpec, Violation,
};
pub use station::{Maker, Outlet, Place, Product, Route, Run, Save, Station};
pub use stats::{Counts, Stats};
pub use validity::Validity;
