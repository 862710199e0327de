//! Modules in wasmtime: compiled to the host's own instructions, for those who need the speed. Behind the feature `wasmtime`.
//!
//! Fuel is counted by other costs than the interpreter's, so a broker and its backup must use the same engine. It has no limit
//! for the nesting of calls but the stack's, and handles no signals: it changes nothing of the process around it.
//!
//! A call runs on a stack of its own, kept from call to call, which it leaves whenever a slice of fuel is used up; then the meter
//! is asked whether it may come back. What its memory and its other instructions in bulk may touch cannot be asked meanwhile,
//! so that has a limit for the whole run.

use crate::abi;
use crate::engine::{Export, Import, PortKind, Ports, Refusal, Trap, WasmEngine};
use crate::limits::{Limits, TABLES_MAX};
use crate::meter::Meter;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasmtime::{
    Config, Engine, Error, ExternType, FuncType, Instance, Memory, Module, OperatorCost, Store, StoreLimits,
    StoreLimitsBuilder, TypedFunc, WasmParams, WasmResults,
};

/// The most that a module may have of a stack.
const STACK_BYTES_MOST: usize = 512 << 10;
/// What the engine itself needs of it.
const STACK_BYTES_SPARE: usize = 256 << 10;
/// Growing by a page costs what the engine can count at most; the addresses are there already.
const FUEL_PER_PAGE: u8 = 255;
/// Copying or clearing a byte.
const FUEL_PER_BYTE: u8 = 20;
/// All fuel of a run, in bulk or not, for each microsecond of its budget: 2 000 bytes, or more instructions than any processor
/// has.
const FUEL_PER_MICRO_MOST: u64 = 2_000 * FUEL_PER_BYTE as u64;

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
    tank: Tank,
}

/// The fuel of a run.
#[derive(Clone, Copy, Default)]
struct Tank {
    /// All that it may burn.
    most: u64,
    /// What it had burned when the slice that is being used began.
    before: u64,
    /// That slice.
    slice: u64,
    /// After so much the meter can be asked.
    interval: u64,
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
        // All of its fuel is one slice, so that it does not wait for anybody.
        let instance = Instance::new(&mut store, &self.module, &[]).map_err(refused)?;
        let memory = instance.get_memory(&mut store, abi::MEMORY).ok_or(Trap::Other)?;
        let input = instance.get_typed_func(&mut store, abi::INPUT).map_err(|_| Trap::Other)?;
        let run = instance.get_typed_func(&mut store, abi::RUN).map_err(|_| Trap::Other)?;
        self.live = Some(Live { store, instance, memory, input, run, tank: Tank::default() });
        Ok(())
    }

    fn set_fuel(&mut self, fuel: u64, meter: &Meter) {
        if let Some(live) = &mut self.live {
            let micros = meter.budget().as_nanos_u64().div_ceil(1_000);
            // The engine counts with a sign.
            let most = micros.saturating_mul(FUEL_PER_MICRO_MOST).clamp(1, i64::MAX as u64);
            let interval = fuel.clamp(1, most);
            live.tank = Tank { most, before: 0, slice: fuel, interval };
            // They fail only where fuel is not metered, and the configuration says that it is.
            let _ = live.store.set_fuel(most);
            let _ = live.store.fuel_async_yield_interval(Some(interval));
        }
    }

    fn fuel(&self) -> u64 {
        let Some(live) = &self.live else { return 0 };
        live.tank.slice.saturating_sub(live.burned().saturating_sub(live.tank.before))
    }

    fn memory(&mut self) -> &mut [u8] {
        self.live.as_mut().map_or(&mut [], |live| live.memory.data_mut(&mut live.store))
    }

    fn version(&mut self, meter: &mut Meter) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let version = live.instance.get_typed_func::<(), i32>(&mut live.store, abi::ABI_VERSION);
        live.call(&version.map_err(|error| trap(&error))?, (), meter)
    }

    fn set(&mut self, export: &str, value: f64, meter: &mut Meter) -> Result<(), Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let setter = live.instance.get_typed_func::<f64, ()>(&mut live.store, export);
        live.call(&setter.map_err(|error| trap(&error))?, value, meter)
    }

    fn input(&mut self, slot: i32, length: i32, created: i64, meter: &mut Meter) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let input = live.input.clone();
        live.call(&input, (slot, length, created), meter)
    }

    fn run(&mut self, present: i64, meter: &mut Meter) -> Result<i64, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let run = live.run.clone();
        live.call(&run, present, meter)
    }

    fn save(&mut self, meter: &mut Meter) -> Result<i64, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let save = live.instance.get_typed_func::<(), i64>(&mut live.store, abi::SAVE);
        live.call(&save.map_err(|error| trap(&error))?, (), meter)
    }

    fn restore(&mut self, length: i32, meter: &mut Meter) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let restore = live.instance.get_typed_func::<i32, i32>(&mut live.store, abi::RESTORE);
        live.call(&restore.map_err(|error| trap(&error))?, length, meter)
    }
}

impl Live {
    /// What the run has burned so far.
    fn burned(&self) -> u64 {
        self.tank.most.saturating_sub(self.store.get_fuel().unwrap_or(0))
    }

    /// Calls a function, and lets it go on slice by slice for as long as the meter has fuel.
    fn call<P, R>(&mut self, function: &TypedFunc<P, R>, parameters: P, meter: &mut Meter) -> Result<R, Trap>
    where
        P: WasmParams + Sync,
        R: WasmResults + Sync,
    {
        let mut burned = self.burned();
        let mut tank = self.tank;
        let called = {
            let mut call = pin!(function.call_async(&mut self.store, parameters));
            // Nobody wakes it: it waits for nothing but the next look.
            let mut context = Context::from_waker(Waker::noop());
            loop {
                if let Poll::Ready(called) = call.as_mut().poll(&mut context) {
                    break Some(called);
                }
                burned = burned.saturating_add(tank.interval);
                let used = burned.saturating_sub(tank.before);
                if used >= tank.slice {
                    let Some(slice) = meter.next(tank.slice.saturating_sub(used), 1) else { break None };
                    (tank.before, tank.slice) = (burned, slice);
                }
            }
        };
        self.tank = tank;
        match called {
            Some(called) => called.map_err(|error| trap(&error)),
            None => {
                self.tank.slice = 0;
                Err(Trap::OutOfTime)
            }
        }
    }
}

fn config(limits: &Limits) -> Config {
    // A stack of nothing is refused by a panic.
    const STACK_BYTES_MIN: usize = 4 << 10;
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = FUEL_PER_PAGE;
    cost.variable.memory_copy_per_byte = FUEL_PER_BYTE;
    cost.variable.memory_fill_per_byte = FUEL_PER_BYTE;
    cost.variable.memory_init_per_byte = FUEL_PER_BYTE;
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
        .max_wasm_stack(limits.stack_bytes_max.clamp(STACK_BYTES_MIN, STACK_BYTES_MOST))
        .async_stack_size(STACK_BYTES_MOST + STACK_BYTES_SPARE);
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
        Some(wasmtime::Trap::OutOfFuel) => Trap::OutOfTime,
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
