//! Modules in wasmi: an interpreter, small and quick to build.

use crate::abi;
use crate::engine::{Export, Import, PortKind, Ports, Refusal, Trap, WasmEngine};
use crate::limits::{Limits, TABLES_MAX};
use crate::meter::Meter;
use room::Room;
use wasmi::errors::ErrorKind;
use wasmi::{
    CompilationMode, Config, CustomFuelCosts, EnforcedLimits, Engine, Error, ExternType, FuncType, Instance,
    Memory, Module, OperatorCost, Store, StoreLimits, StoreLimitsBuilder, TrapCode, TypedFunc,
    TypedResumableCall, ValType, WasmParams, WasmResults,
};

mod room;

/// Bytes that are copied or cleared for a unit of fuel: what memory that is in no cache gives in the time that the slowest code
/// takes for one.
const BYTES_PER_FUEL: u32 = 128;
/// What reading memory burns: it may be in no cache, and the next instruction may wait for it.
const FUEL_PER_LOAD: u8 = 10;

/// A module in wasmi.
pub struct Wasmi {
    engine: Engine,
    module: Module,
    limits: StoreLimits,
    live: Option<Live>,
}

/// An instance, with what is called often.
struct Live {
    store: Store<Room>,
    instance: Instance,
    memory: Memory,
    input: TypedFunc<(i32, i32, i64), i32>,
    run: TypedFunc<i64, i64>,
}

impl WasmEngine for Wasmi {
    fn load(bytes: &[u8], limits: &Limits) -> Result<Wasmi, Refusal> {
        let engine = Engine::new(&config(limits));
        let refused = |error: Error| Refusal(error.to_string());
        // The whole module first: the translator validates as it goes, and asserts where operators follow the end of a
        // function, which only the validator's last word refuses.
        Module::validate(&engine, bytes).map_err(refused)?;
        let module = Module::new(&engine, bytes).map_err(refused)?;
        let limits = StoreLimitsBuilder::new()
            .instances(1)
            .memories(1)
            .tables(TABLES_MAX)
            .table_elements(limits.table_elements_max)
            .memory_size(limits.memory_bytes())
            .build();
        Ok(Wasmi { engine, module, limits, live: None })
    }

    fn ports(&self) -> Ports {
        let imports = self
            .module
            .imports()
            .map(|import| Import { module: import.module().to_owned(), name: import.name().to_owned() });
        let exports = self
            .module
            .exports()
            .map(|export| Export { name: export.name().to_owned(), kind: kind(export.ty()) });
        Ports { imports: imports.collect(), exports: exports.collect() }
    }

    fn instantiate(&mut self, fuel: u64) -> Result<(), Trap> {
        // First, so that there are never two memories.
        self.live = None;
        let mut store = Store::new(&self.engine, Room::new(self.limits.clone()));
        store.limiter(|room| room);
        store.set_fuel(fuel).map_err(|_| Trap::Other)?;
        let instance = Instance::new(&mut store, &self.module, &[]).map_err(|error| trap(&error))?;
        let memory = instance.get_memory(&store, abi::MEMORY).ok_or(Trap::Other)?;
        let input = instance.get_typed_func(&store, abi::INPUT).map_err(|_| Trap::Other)?;
        let run = instance.get_typed_func(&store, abi::RUN).map_err(|_| Trap::Other)?;
        self.live = Some(Live { store, instance, memory, input, run });
        Ok(())
    }

    fn set_fuel(&mut self, fuel: u64, meter: &Meter) {
        if let Some(live) = &mut self.live {
            grant(&mut live.store, fuel, meter);
        }
    }

    fn fuel(&self) -> u64 {
        self.live.as_ref().and_then(|live| live.store.get_fuel().ok()).unwrap_or(0)
    }

    fn memory(&mut self) -> &mut [u8] {
        self.live.as_mut().map_or(&mut [], |live| live.memory.data_mut(&mut live.store))
    }

    fn version(&mut self, meter: &mut Meter) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let version = live.instance.get_typed_func::<(), i32>(&live.store, abi::ABI_VERSION);
        call(&mut live.store, &version.map_err(|error| trap(&error))?, (), meter)
    }

    fn set(&mut self, export: &str, value: f64, meter: &mut Meter) -> Result<(), Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let setter = live.instance.get_typed_func::<f64, ()>(&live.store, export);
        call(&mut live.store, &setter.map_err(|error| trap(&error))?, value, meter)
    }

    fn input(&mut self, slot: i32, length: i32, created: i64, meter: &mut Meter) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        call(&mut live.store, &live.input, (slot, length, created), meter)
    }

    fn run(&mut self, present: i64, meter: &mut Meter) -> Result<i64, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        call(&mut live.store, &live.run, present, meter)
    }

    fn save(&mut self, meter: &mut Meter) -> Result<i64, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let save = live.instance.get_typed_func::<(), i64>(&live.store, abi::SAVE);
        call(&mut live.store, &save.map_err(|error| trap(&error))?, (), meter)
    }

    fn restore(&mut self, length: i32, meter: &mut Meter) -> Result<i32, Trap> {
        let live = self.live.as_mut().ok_or(Trap::Other)?;
        let restore = live.instance.get_typed_func::<i32, i32>(&live.store, abi::RESTORE);
        call(&mut live.store, &restore.map_err(|error| trap(&error))?, length, meter)
    }
}

/// Calls a function, and goes on with it slice by slice for as long as the meter has fuel.
fn call<P: WasmParams, R: WasmResults>(
    store: &mut Store<Room>,
    function: &TypedFunc<P, R>,
    parameters: P,
    meter: &mut Meter,
) -> Result<R, Trap> {
    let stopped = |store: &Store<Room>, error: Error| {
        if store.data().is_out_of_time() { Trap::OutOfTime } else { trap(&error) }
    };
    let mut call = function.call_resumable(&mut *store, parameters);
    loop {
        match call {
            Ok(TypedResumableCall::Finished(results)) => return Ok(results),
            Ok(TypedResumableCall::OutOfFuel(paused)) => {
                let unburned = store.get_fuel().unwrap_or(0);
                let Some(fuel) = meter.next(unburned, paused.required_fuel()) else {
                    grant(store, 0, meter);
                    return Err(Trap::OutOfTime);
                };
                grant(store, fuel, meter);
                call = paused.resume(&mut *store);
            }
            // Modules call nothing of the host's.
            Ok(TypedResumableCall::HostTrap(_)) => return Err(Trap::Other),
            Err(error) => return Err(stopped(store, error)),
        }
    }
}

/// Gives an instance the fuel of a slice, and as much growth as there is time for after it.
fn grant(store: &mut Store<Room>, fuel: u64, meter: &Meter) {
    // It fails only where fuel is not metered, and the configuration says that it is.
    let _ = store.set_fuel(fuel);
    store.data_mut().allow(meter.left_after());
}

fn config(limits: &Limits) -> Config {
    // What the interpreter takes for a stack at once; a maximum below it is refused by a panic.
    const STACK_BYTES_MIN: usize = 4 << 10;
    let mut config = Config::default();
    config
        .consume_fuel(true)
        // Runs neither compile nor allocate.
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .ignore_custom_sections(true)
        .wasm_multi_memory(false)
        .set_max_recursion_depth(limits.recursion_max)
        .set_min_stack_height(STACK_BYTES_MIN)
        .set_max_stack_height(limits.stack_bytes_max.max(STACK_BYTES_MIN))
        .set_max_cached_stacks(1)
        .operator_cost(costs())
        .fuel_cost(CustomFuelCosts {
            bytes_copied_per_fuel: BYTES_PER_FUEL,
            fuel_per_bytes_translated: 0,
            fuel_per_bytes_validated: 0,
        });
    config
}

/// What instructions burn: one, but for those that may have to wait for memory that is in no cache.
fn costs() -> OperatorCost {
    OperatorCost {
        i32_load: FUEL_PER_LOAD,
        i64_load: FUEL_PER_LOAD,
        f32_load: FUEL_PER_LOAD,
        f64_load: FUEL_PER_LOAD,
        i32_load8_s: FUEL_PER_LOAD,
        i32_load8_u: FUEL_PER_LOAD,
        i32_load16_s: FUEL_PER_LOAD,
        i32_load16_u: FUEL_PER_LOAD,
        i64_load8_s: FUEL_PER_LOAD,
        i64_load8_u: FUEL_PER_LOAD,
        i64_load16_s: FUEL_PER_LOAD,
        i64_load16_u: FUEL_PER_LOAD,
        i64_load32_s: FUEL_PER_LOAD,
        i64_load32_u: FUEL_PER_LOAD,
        ..OperatorCost::default()
    }
}

fn kind(port: &ExternType) -> PortKind {
    const PAGE: u64 = 1 << 16;
    match port {
        ExternType::Func(function) => PortKind::Function(signature(function)),
        ExternType::Memory(memory) => PortKind::Memory(memory.minimum().saturating_mul(PAGE)),
        ExternType::Table(_) => PortKind::Table,
        ExternType::Global(_) => PortKind::Global,
    }
}

fn signature(function: &FuncType) -> String {
    let listed = |types: &[ValType]| types.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    let parameters = listed(function.params());
    match function.results() {
        [] => format!("({parameters})"),
        [one] => format!("({parameters}) -> {}", name(*one)),
        more => format!("({parameters}) -> ({})", listed(more)),
    }
}

fn name(value: ValType) -> &'static str {
    match value {
        ValType::I32 => "i32",
        ValType::I64 => "i64",
        ValType::F32 => "f32",
        ValType::F64 => "f64",
        ValType::V128 => "v128",
        ValType::FuncRef => "funcref",
        ValType::ExternRef => "externref",
    }
}

fn trap(error: &Error) -> Trap {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Trap::OutOfTime,
        Some(TrapCode::UnreachableCodeReached) => Trap::Unreachable,
        Some(TrapCode::MemoryOutOfBounds) => Trap::Memory,
        Some(TrapCode::TableOutOfBounds) => Trap::Table,
        Some(TrapCode::IndirectCallToNull) => Trap::NullCall,
        Some(TrapCode::BadSignature) => Trap::WrongCall,
        Some(TrapCode::IntegerDivisionByZero) => Trap::Division,
        Some(TrapCode::IntegerOverflow) => Trap::Overflow,
        Some(TrapCode::BadConversionToInteger) => Trap::Conversion,
        Some(TrapCode::StackOverflow) => Trap::StackOverflow,
        Some(TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory) => Trap::Refused,
        None => match error.kind() {
            ErrorKind::Memory(_) | ErrorKind::Table(_) | ErrorKind::Instantiation(_) => Trap::Refused,
            _ => Trap::Other,
        },
    }
}
