//! What a module may use. Fuel stands for time: a pure crate has no clock, and fuel stops a run at the same instruction
//! wherever it is repeated.

use contract::Span;

/// Fuel that a microsecond is worth unless somebody has measured. Of the loops that were measured (2026, x86-64), indirect
/// calls burned least, 376 in a microsecond, and whole numbers in registers most, 1955: what computes is stopped before its
/// time is up, and what only calls little after it.
pub const FUEL_PER_MICRO: u64 = 400;
/// Fuel for the start function, the version and the parameters of a new instance.
pub const FUEL_PER_START: u64 = 10_000_000;
/// The longest module, in bytes.
pub const MODULE_BYTES_MAX: usize = 2 << 20;
/// The largest memory of a module, in bytes.
pub const MEMORY_BYTES_MAX: usize = 16 << 20;
/// What [`Limits::memory_bytes_max`] may be at most: pointers must stay positive in 32 bits.
pub const MEMORY_BYTES_MOST: usize = 1 << 30;
/// The longest result, in bytes.
pub const RESULT_BYTES_MAX: usize = 1 << 20;
/// The elements of one table.
pub const TABLE_ELEMENTS_MAX: usize = 10_000;
/// The tables of a module.
pub const TABLES_MAX: usize = 8;
/// How deep calls may be nested.
pub const RECURSION_MAX: usize = 1_000;
/// The stack of values of an instance, in bytes; it is not in the module's memory.
pub const STACK_BYTES_MAX: usize = 1 << 20;
/// The inputs of an operator: `verge_run` has a bit for each, and its sign stays free.
pub const INPUTS_MAX: usize = 63;

/// What one module may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How long a run may take.
    pub budget: Span,
    /// What a microsecond of it is worth in fuel. A host that has measured its own value puts it here.
    pub fuel_per_micro: u64,
    /// Fuel for setting an instance up, once and after each trap.
    pub fuel_per_start: u64,
    /// The longest module.
    pub module_bytes_max: usize,
    /// The largest memory, at most [`MEMORY_BYTES_MOST`].
    pub memory_bytes_max: usize,
    /// The longest result.
    pub result_bytes_max: usize,
    /// The elements of one table.
    pub table_elements_max: usize,
    /// How deep calls may be nested.
    pub recursion_max: usize,
    /// The stack of values.
    pub stack_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            budget: Span::millis(1),
            fuel_per_micro: FUEL_PER_MICRO,
            fuel_per_start: FUEL_PER_START,
            module_bytes_max: MODULE_BYTES_MAX,
            memory_bytes_max: MEMORY_BYTES_MAX,
            result_bytes_max: RESULT_BYTES_MAX,
            table_elements_max: TABLE_ELEMENTS_MAX,
            recursion_max: RECURSION_MAX,
            stack_bytes_max: STACK_BYTES_MAX,
        }
    }
}

impl Limits {
    /// The fuel of one run: its budget in microseconds, begun ones counted in full.
    pub fn run_fuel(&self) -> u64 {
        self.budget.as_nanos_u64().div_ceil(1_000).saturating_mul(self.fuel_per_micro)
    }

    /// The largest memory, whatever the settings say.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes_max.min(MEMORY_BYTES_MOST)
    }
}
