//! Modules in wasmtime: compiled to the host's own instructions, for those who need the speed. Behind the feature `wasmtime`.
//!
//! Fuel is counted by other costs than the interpreter's, so a broker and its backup must use the same engine. It has no limit
//! for the nesting of calls but the stack's, and handles no signals: it changes nothing of the process around it.

use crate::abi;
use crate::engine::{Export, Import, PortKind, Ports, Refusal, Trap, WasmEngine};
use crate::limits::{Limits, TABLES_MAX};
use wasmtime::{
    Config, Engine, Error, ExternType, FuncType, Instance, Memory, Module, OperatorCost, Store, StoreLimits,
    StoreLimitsBuilder, TypedFunc,
};

/// Calls run on the caller's stack, of which a thread must have this much left.
const STACK_BYTES_MOST: usize = 512 << 10;
/// Growing by a page costs what the engine can count at most; filling it costs a unit per byte.
const FUEL_PER_PAGE: u8 = 255;

/// A module in wasmtime.
pub struct Wasmtime {
    module: Module,
    limits: StoreLimits,
    live: Option<Live>,
}

/// An instance, with what is called often.
struct Live {
    store: Store<StoreLimits>,
    instance: Instance,
    memory: Memory,
    input: TypedFunc<(i32, i32, i64), i32>,
    run: TypedFunc<i64, i64>,
}

impl WasmEngine for Wasmtime {
    fn load(bytes: &[u8], limits: &Limits) -> Result<Wasmtime, Refusal> {
        let refused = |error: Error| Refusal(format!("{error:#}").replace('\n', " "));
        let engine = Engine::new(&config(limits)).map_err(refused)?;
        let module = Module::from_binary(&engine, bytes).map_err(refused)?;
        let limits = StoreLimitsBuilder::new()
            .instances(1)
            .memories(1)
            .tables(TABLES_MAX)
            .table_elements(limits.table_elements_max)
            .memory_size(limits.memory_bytes())
            .build();
        Ok(Wasmtime { module, limits, live: None })
    }

    fn ports(&self) -> Ports {
        let imports = self
            .module
            .imports()
            .map(|import| Import { module: import.module().to_owned(), name: import.name().to_owned() });
        let exports = self
            .module
            .exports()
            .map(|export| Export { name: export.name().to_owned(), kind: kind(&export.ty()) });
        Ports { imports: imports.collect(), exports: exports.collect() }
    }

    fn instantiate(&mut self, fuel: u64) -> Result<(), Trap> {
        // First, so that there are never two memories.
        self.live = None;
        let mut store = Store::new(self.module.engine(), self.limits.clone());
        store.limiter(|limits| limits);
        store.set_fuel(fuel).map_err(|_| Trap::Other)?;
        // Without a trap, it is a limit that refused.
        let refused = |error: Error| if error.is::<wasmtime::Trap>() { trap(&error) } else { Trap::Refused };
        let instance = Instance::new(&mut store, &self.module, &[]).map_err(refused)?;
        let memory = instance.get_memory(&mut store, abi::MEMORY).ok_or(Trap::Other)?;
        let input = instance.get_typed_func(&mut store, abi::INPUT).map_err(|_| Trap::Other)?;
        let run = instance.get_typed_func(&mut store, abi::RUN).map_err(|_| Trap::Other)?;
        self.live = Some(Live { store, instance, memory, input, run });
        Ok(())
    }

    fn set_fuel(&mut self, fuel: u64) {
        if let Some(live) = &mut self.live {
            // It fails only where fuel is not metered, and the configuration says that it is.
            let _ = live.store.set_fuel(fuel);
        }
    }

    fn fuel(&self) -> u64 {
        self.live.as_ref().and_then(|live| live.store.get_fuel().ok()).unwrap_or(0)
    }

    fn memory(&mut self) -> &mut [u8] {
        self.live.as_mut().map_or(&mut [], |live| live.memory.data_mut(&mut live.store))
    }

    fn version(&mut self) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let version = live.instance.get_typed_func::<(), i32>(&mut live.store, abi::ABI_VERSION);
        version.and_then(|version| version.call(&mut live.store, ())).map_err(|error| trap(&error))
    }

    fn set(&mut self, export: &str, value: f64) -> Result<(), Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let setter = live.instance.get_typed_func::<f64, ()>(&mut live.store, export);
        setter.and_then(|setter| setter.call(&mut live.store, value)).map_err(|error| trap(&error))
    }

    fn input(&mut self, slot: i32, length: i32, created: i64) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        live.input.call(&mut live.store, (slot, length, created)).map_err(|error| trap(&error))
    }

    fn run(&mut self, present: i64) -> Result<i64, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        live.run.call(&mut live.store, present).map_err(|error| trap(&error))
    }
}

fn config(limits: &Limits) -> Config {
    // A stack of nothing is refused by a panic.
    const STACK_BYTES_MIN: usize = 4 << 10;
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = FUEL_PER_PAGE;
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(cost)
        .wasm_backtrace_max_frames(None)
        .signals_based_traps(false)
        .wasm_relaxed_simd(false)
        .wasm_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .max_wasm_stack(limits.stack_bytes_max.clamp(STACK_BYTES_MIN, STACK_BYTES_MOST));
    config
}

fn kind(port: &ExternType) -> PortKind {
    const PAGE: u64 = 1 << 16;
    match port {
        ExternType::Func(function) => PortKind::Function(signature(function)),
        ExternType::Memory(memory) => PortKind::Memory(memory.minimum().saturating_mul(PAGE)),
        ExternType::Table(_) => PortKind::Table,
        ExternType::Global(_) | ExternType::Tag(_) => PortKind::Global,
    }
}

fn signature(function: &FuncType) -> String {
    let parameters: Vec<String> = function.params().map(|one| one.to_string()).collect();
    let results: Vec<String> = function.results().map(|one| one.to_string()).collect();
    let parameters = parameters.join(", ");
    match results.as_slice() {
        [] => format!("({parameters})"),
        [one] => format!("({parameters}) -> {one}"),
        more => format!("({parameters}) -> ({})", more.join(", ")),
    }
}

fn trap(error: &Error) -> Trap {
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::OutOfFuel) => Trap::OutOfFuel,
        Some(wasmtime::Trap::UnreachableCodeReached) => Trap::Unreachable,
        Some(wasmtime::Trap::MemoryOutOfBounds) => Trap::Memory,
        Some(wasmtime::Trap::TableOutOfBounds) => Trap::Table,
        Some(wasmtime::Trap::IndirectCallToNull) => Trap::NullCall,
        Some(wasmtime::Trap::BadSignature) => Trap::WrongCall,
        Some(wasmtime::Trap::IntegerDivisionByZero) => Trap::Division,
        Some(wasmtime::Trap::IntegerOverflow) => Trap::Overflow,
        Some(wasmtime::Trap::BadConversionToInteger) => Trap::Conversion,
        Some(wasmtime::Trap::StackOverflow) => Trap::StackOverflow,
        _ => Trap::Other,
    }
}
