#![doc = include_str!("../README.md")]

pub mod abi;
#[cfg(feature = "wasmtime")]
mod compiler;
mod engine;
mod error;
mod interpreter;
mod limits;
mod parameters;
mod sandbox;

#[cfg(feature = "wasmtime")]
pub use compiler::Wasmtime;
pub use engine::{Export, Import, PortKind, Ports, Refusal, Trap, WasmEngine};
pub use error::{Problem, WasmError};
pub use interpreter::Wasmi;
pub use limits::{
    FUEL_PER_MICRO, FUEL_PER_START, INPUTS_MAX, Limits, MEMORY_BYTES_MAX, MEMORY_BYTES_MOST,
    MODULE_BYTES_MAX, RECURSION_MAX, RESULT_BYTES_MAX, STACK_BYTES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX,
};
pub use parameters::OWN_PARAMETERS;
pub use sandbox::Sandbox;

use stream::{Built, Setup};

/// The engine that runs modules: wasmi, or wasmtime with the feature of that name.
#[cfg(not(feature = "wasmtime"))]
pub type DefaultEngine = Wasmi;
/// The engine that runs modules: wasmi, or wasmtime with the feature of that name.
#[cfg(feature = "wasmtime")]
pub type DefaultEngine = Wasmtime;

/// Sets an operator up: the bytes of a module, the name by which errors call it, what it is configured with, and what it
/// may use.
pub fn operator(bytes: &[u8], name: &str, setup: &Setup<'_>, limits: &Limits) -> Result<Built, WasmError> {
    let sandbox = Sandbox::<DefaultEngine>::new(bytes, name, setup, limits)?;
    let (output, answers) = (sandbox.output().clone(), sandbox.answers());
    Ok(Built { operator: Box::new(sandbox), output, answers })
}
