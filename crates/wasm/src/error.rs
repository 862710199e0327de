//! Why a module is not taken.

use crate::abi::{ABI_VERSION, VERSION};
use crate::engine::{Refusal, Trap};
use crate::limits::INPUTS_MAX;
use processing::PayloadTypeError;

/// Why a module is not taken: which one, what is wrong, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the module `{module}` {problem}")]
pub struct WasmError {
    /// Its name.
    pub module: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a module, or with what it is configured with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It is too long.
    #[error(
        "has {bytes} bytes, and at most {max} are allowed: build it optimised and without debug information, or raise the \
         limit"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What is allowed.
        max: usize,
    },
    /// It is not WebAssembly in its binary form.
    #[error("is {what}: give the `.wasm` file that the compiler or `wat2wasm` writes")]
    Foreign {
        /// What it looks like.
        what: &'static str,
    },
    /// The engine does not take it.
    #[error(
        "is no valid WebAssembly: {0}; it may use version 1 with bulk memory, reference types and multiple values, and \
         neither SIMD, threads nor memories of 64 bits"
    )]
    Invalid(Refusal),
    /// It imports something.
    #[error("imports `{module}.{name}`{}, and a module may import nothing: {}", and_more(*.more), import_remedy(.module))]
    Import {
        /// From where.
        module: String,
        /// What.
        name: String,
        /// How many others there are.
        more: usize,
    },
    /// It does not export what it must.
    #[error("does not export `{name}`, which must be {wanted}: see docs/webassembly.md for an example")]
    Missing {
        /// The name.
        name: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// It exports something else under that name.
    #[error("exports `{name}` as {given}, and it must be {wanted}")]
    WrongExport {
        /// The name.
        name: String,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        given: String,
    },
    /// It wants more memory than it may have.
    #[error(
        "begins with a memory of {bytes} bytes, and at most {max} are allowed: lower its stack or raise the limit"
    )]
    Memory {
        /// What it wants.
        bytes: u64,
        /// What is allowed.
        max: usize,
    },
    /// It was made for another version of the interface.
    #[error(
        "was made for version {0} of the interface (`{ABI_VERSION}`), and this program has version {VERSION}"
    )]
    Version(i32),
    /// It was stopped while it was set up.
    #[error("could not be started: in {place}, {trap}")]
    Start {
        /// Where.
        place: String,
        /// Why.
        trap: Trap,
    },
    /// There are too many inputs.
    #[error("is given {0} inputs, and at most {INPUTS_MAX} are possible: join some of them before")]
    Inputs(usize),
    /// A parameter that it has no function for.
    #[error("has no parameter `{name}` (no export `verge_set_{name}`): {}", known_parameters(.known))]
    UnknownParameter {
        /// The parameter.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A parameter of a type that cannot be passed.
    #[error("cannot be given `{name}`: {doc}")]
    Parameter {
        /// The parameter.
        name: String,
        /// What may be written.
        doc: &'static str,
    },
    /// The type of its results is none.
    #[error("is given an `output` that is none: {0}")]
    Output(PayloadTypeError),
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
}

fn import_remedy(module: &str) -> &'static str {
    match module {
        "wasi_snapshot_preview1" | "wasi_unstable" => {
            "build it for `wasm32-unknown-unknown` instead of WASI, without files, clock or standard output"
        }
        "env" => {
            "define that function in the module; linkers import what they do not find (`--allow-undefined`), and the memory \
             must be exported instead of imported"
        }
        _ => "leave it out; all that a module may use are its inputs, its parameters and its own memory",
    }
}

fn known_parameters(known: &[String]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) }
}
