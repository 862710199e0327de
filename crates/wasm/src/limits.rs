//! What a module may use.

use contract::Span;

/// Fuel that the slowest code burns in a microsecond: loads from all over the memory, each of which needs the one before.
/// `bench/results/modules.md` has what was measured.
pub const FUEL_PER_MICRO: u64 = 20;
/// How long a run may take, unless the operator says.
pub const BUDGET: Span = Span::millis(1);
/// How long the start function, the version and the parameters of a new instance may take.
pub const START_BUDGET: Span = Span::millis(100);
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
    /// What a microsecond burns at least, in fuel: how often the clock is asked. A host that is slower than
    /// [`FUEL_PER_MICRO`] puts less here.
    pub fuel_per_micro: u64,
    /// How long setting an instance up may take, once and after each trap.
    pub start_budget: Span,
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
            budget: BUDGET,
            fuel_per_micro: FUEL_PER_MICRO,
            start_budget: START_BUDGET,
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
    /// The largest memory, whatever the settings say.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes_max.min(MEMORY_BYTES_MOST)
    }
}
