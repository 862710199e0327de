#![doc = include_str!("../README.md")]

pub mod abi;
#[cfg(feature = "wasmtime")]
mod compiler;
mod engine;
mod error;
mod interpreter;
mod limits;
mod meter;
mod parameters;
mod sandbox;

#[cfg(feature = "wasmtime")]
pub use compiler::Wasmtime;
pub use engine::{Export, Import, PortKind, Ports, Refusal, Trap, WasmEngine};
pub use error::{Problem, WasmError};
pub use interpreter::Wasmi;
pub use limits::{
    BUDGET, FUEL_PER_MICRO, INPUTS_MAX, Limits, MEMORY_BYTES_MAX, MEMORY_BYTES_MOST, MODULE_BYTES_MAX,
    RECURSION_MAX, RESULT_BYTES_MAX, STACK_BYTES_MAX, START_BUDGET, TABLE_ELEMENTS_MAX, TABLES_MAX,
};
pub use meter::{Clock, Meter};
pub use parameters::OWN_PARAMETERS;
pub use sandbox::Sandbox;

use processing::{Built, Setup};

/// The engine that runs modules: wasmi, or wasmtime with the feature of that name.
#[cfg(not(feature = "wasmtime"))]
pub type DefaultEngine = Wasmi;
/// The engine that runs modules: wasmi, or wasmtime with the feature of that name.
#[cfg(feature = "wasmtime")]
pub type DefaultEngine = Wasmtime;

/// Sets an operator up: the bytes of a module, the name by which errors call it, what it is configured with, what it may
/// use, and what tells how long it takes.
pub fn operator(
    bytes: &[u8],
    name: &str,
    setup: &Setup<'_>,
    limits: &Limits,
    clock: &Clock,
) -> Result<Built, WasmError> {
    let sandbox = Sandbox::<DefaultEngine>::new(bytes, name, setup, limits, clock)?;
    let (output, answers, memory) = (sandbox.output().clone(), sandbox.answers(), sandbox.memory());
    Ok(Built { operator: Box::new(sandbox), output, answers, memory })
}
