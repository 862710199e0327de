//! What is asked of an engine: one compiled module and its one instance. All judgement is made above it, so that every
//! engine refuses the same modules in the same words.

use crate::limits::Limits;
use crate::meter::Meter;
use contract::Span;
use processing::Fault;

/// An engine with a module in it.
pub trait WasmEngine: Sized + Send {
    /// Compiles a module. It is not run, and nothing of it is.
    fn load(bytes: &[u8], limits: &Limits) -> Result<Self, Refusal>;

    /// What the module imports and exports.
    fn ports(&self) -> Ports;

    /// Puts a new instance in the place of the old one, with as much fuel as `fuel` for its start function. The exports must
    /// have been checked.
    fn instantiate(&mut self, fuel: u64) -> Result<(), Trap>;

    /// What the instance may burn until it has to ask the meter.
    fn set_fuel(&mut self, fuel: u64, meter: &Meter);

    /// What is left of it.
    fn fuel(&self) -> u64;

    /// The instance's memory.
    fn memory(&mut self) -> &mut [u8];

    /// Calls `verge_abi_version`. This and the others below ask the meter for more whenever their fuel is used up, and stop
    /// with [`Trap::OutOfTime`] when it has none.
    fn version(&mut self, meter: &mut Meter) -> Result<i32, Trap>;

    /// Calls the export of this name, which takes a number.
    fn set(&mut self, export: &str, value: f64, meter: &mut Meter) -> Result<(), Trap>;

    /// Calls `verge_input`.
    fn input(&mut self, slot: i32, length: i32, created: i64, meter: &mut Meter) -> Result<i32, Trap>;

    /// Calls `verge_run`.
    fn run(&mut self, present: i64, meter: &mut Meter) -> Result<i64, Trap>;

    /// Calls `verge_save`.
    fn save(&mut self, meter: &mut Meter) -> Result<i64, Trap>;

    /// Calls `verge_restore`.
    fn restore(&mut self, length: i32, meter: &mut Meter) -> Result<i32, Trap>;
}

/// Why an engine does not take a module: in its own words, with the place in the module where it knows one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// What a module and its surroundings see of each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ports {
    /// What it wants from outside.
    pub imports: Vec<Import>,
    /// What it offers.
    pub exports: Vec<Export>,
}

/// Something that a module wants from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// From which module.
    pub module: String,
    /// Its name there.
    pub name: String,
}

/// Something that a module offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: PortKind,
}

/// What an export is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortKind {
    /// A function with this signature, as in `(i32, i64) -> i32`.
    Function(String),
    /// A memory that begins with so many bytes.
    Memory(u64),
    /// A table.
    Table,
    /// A global variable.
    Global,
}

/// Why an instance was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trap {
    /// It used up its time, or what came next might not have ended within it.
    #[error("it did not end in time")]
    OutOfTime,
    /// It executed `unreachable`.
    #[error("it gave up (`unreachable`: a panic or an assertion in its code)")]
    Unreachable,
    /// It read or wrote outside of its memory.
    #[error("it read or wrote outside of its memory")]
    Memory,
    /// It used a table element that does not exist.
    #[error("it used a table element that does not exist")]
    Table,
    /// It called a function pointer that is null.
    #[error("it called a function pointer that is null")]
    NullCall,
    /// It called a function pointer of another type.
    #[error("it called a function pointer of another type")]
    WrongCall,
    /// It divided by zero.
    #[error("it divided a whole number by zero")]
    Division,
    /// It divided the least whole number by -1.
    #[error("it divided, and the result does not fit its type")]
    Overflow,
    /// It made a whole number of what is none.
    #[error("it made a whole number of one that is too large, or none")]
    Conversion,
    /// It called too deep.
    #[error("its calls are nested too deep")]
    StackOverflow,
    /// A limit or the system refused it something.
    #[error("its memory or tables are above their limits, or the system has none left")]
    Refused,
    /// Anything else.
    #[error("it was stopped by the engine")]
    Other,
}

impl Trap {
    /// The same as a fault of an operator that had this budget.
    pub fn fault(self, budget: Span) -> Fault {
        let reason = match self {
            Trap::OutOfTime => return Fault::Runaway { budget },
            Trap::Unreachable => "the module gave up (`unreachable`: a panic or an assertion in its code)",
            Trap::Memory => "the module read or wrote outside of its memory",
            Trap::Table => "the module used a table element that does not exist",
            Trap::NullCall => "the module called a function pointer that is null",
            Trap::WrongCall => "the module called a function pointer of another type",
            Trap::Division => "the module divided a whole number by zero",
            Trap::Overflow => "the module divided, and the result does not fit its type",
            Trap::Conversion => "the module made a whole number of one that is too large, or none",
            Trap::StackOverflow => "the module's calls are nested too deep",
            Trap::Refused => "the module's memory or tables are above their limits",
            Trap::Other => "the module was stopped by the engine",
        };
        Fault::Stopped(reason)
    }
}
