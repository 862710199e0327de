//! The kinds of operators that a configuration may name: those that come with the program, and `wasm`, whose parameter
//! `module` is the file of a module of the user's own.

use contract::Span;
use processing::{Built, BuiltIn, Factory, GraphSpec, Parameters, Setup, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use wasm::Limits;

/// The kind that runs a module.
pub const WASM: &str = "wasm";
/// A parameter that only the program sets: a module that has changed makes another operator.
const SUM: &str = "module_sum";

/// Sets up operators. Modules are read once, so that an instance that is made later runs what was checked.
#[derive(Debug, Default)]
pub struct Kinds {
    /// Where relative paths begin if there is no such file in the working directory.
    beside: PathBuf,
    modules: Mutex<BTreeMap<PathBuf, Arc<[u8]>>>,
}

impl Kinds {
    /// For a configuration in this file.
    pub fn beside(file: Option<&Path>) -> Kinds {
        let beside = file.and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
        Kinds { beside, modules: Mutex::default() }
    }

    /// Marks operators with the contents of their modules.
    pub fn stamp(&self, graphs: &mut [GraphSpec]) {
        for operator in graphs.iter_mut().flat_map(|graph| &mut graph.operators) {
            let module = (operator.kind == WASM).then(|| module_of(&operator.parameters)).flatten();
            if let Some(Ok(bytes)) =
                module.map(|module| self.module(module, Limits::default().module_bytes_max))
            {
                let mut sum = 0xcbf2_9ce4_8422_2325_u64;
                bytes.iter().for_each(|byte| sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
                operator.parameters.insert(SUM.to_owned(), Value::Text(format!("{sum:016x}")));
            }
        }
    }

    fn wasm(&self, setup: &Setup<'_>) -> Result<Built, String> {
        let Some(module) = module_of(setup.parameters) else {
            return Err(
                "`module` is missing: the file of the WebAssembly module, such as \"filter.wasm\"".to_owned()
            );
        };
        let mut limits = Limits::default();
        let mut parameters = setup.parameters.clone();
        parameters.remove(SUM);
        match parameters.remove("budget") {
            None => {}
            Some(Value::Span(budget)) if budget > Span::ZERO => limits.budget = budget,
            Some(_) => return Err("`budget` is a time longer than zero, such as \"500us\"".to_owned()),
        }
        let bytes = self.module(module, limits.module_bytes_max)?;
        let setup = Setup { inputs: setup.inputs, parameters: &parameters };
        wasm::operator(&bytes, module, &setup, &limits, &working_time()).map_err(|error| error.to_string())
    }

    /// The bytes of a module of this length at most.
    pub fn module(&self, module: &str, bytes_max: usize) -> Result<Arc<[u8]>, String> {
        let there = Path::new(module).is_file();
        let path = if there { PathBuf::from(module) } else { self.beside.join(module) };
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = modules.get(&path) {
            return Ok(Arc::clone(bytes));
        }
        let mut bytes = Vec::new();
        // One byte more than is allowed, so that the refusal can say so.
        let read = File::open(&path).and_then(|file| file.take(bytes_max as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| format!("cannot read the module {}: {error}; check the path", path.display()))?;
        let bytes: Arc<[u8]> = bytes.into();
        modules.insert(path, Arc::clone(&bytes));
        Ok(bytes)
    }
}

/// What runs of modules are held to.
pub fn working_time() -> wasm::Clock {
    wasm::Clock { wall: Arc::new(host::monotonic), worked: Arc::new(host::worked) }
}

fn module_of(parameters: &Parameters) -> Option<&str> {
    match parameters.get("module") {
        Some(Value::Text(module)) => Some(module),
        _ => None,
    }
}

impl Factory for Kinds {
    fn build(&self, kind: &str, setup: &Setup<'_>) -> Result<Built, String> {
        if kind == WASM { self.wasm(setup) } else { BuiltIn.build(kind, setup) }
    }
}
