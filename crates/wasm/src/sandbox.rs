//! A module as an operator. What it is handed is copied into its memory, what it answers is copied out, and nothing that it
//! says is believed before it has been checked.

use crate::DefaultEngine;
use crate::abi::{self, Reply};
use crate::engine::{Trap, WasmEngine};
use crate::error::{Problem, WasmError};
use crate::limits::{INPUTS_MAX, Limits};
use crate::meter::{Clock, Meter};
use crate::parameters::{Chosen, choose};
use contract::{Span, Time};
use processing::{Answer, Answers, Fault, Input, MEMORY_BYTES_MAX, Memory, Operator, PayloadType, Setup};

/// A module in its sandbox.
///
/// An instance that was stopped may have been anywhere in its code, so it is never used again: the next one begins as the
/// first did. A module that says itself that it failed keeps its instance and what it remembers.
pub struct Sandbox<E: WasmEngine = DefaultEngine> {
    engine: E,
    chosen: Chosen,
    inputs: usize,
    budget: Span,
    start_budget: Span,
    result_bytes_max: usize,
    meter: Meter,
    used: u64,
    /// Whether there is an instance that may be used.
    is_whole: bool,
}

impl<E: WasmEngine> Sandbox<E> {
    /// Compiles, checks and starts a module. The clock says how long its runs take.
    pub fn new(
        bytes: &[u8],
        name: &str,
        setup: &Setup<'_>,
        limits: &Limits,
        clock: &Clock,
    ) -> Result<Sandbox<E>, WasmError> {
        Self::build(bytes, setup, limits, Meter::new(clock.clone(), limits.fuel_per_micro))
            .map_err(|problem| WasmError { module: abi::shown(name), problem })
    }

    /// The same for a module of which the same must come on every host: what a run may take is counted in fuel at
    /// [`Limits::fuel_per_micro`], which is the pace of the slowest code, and no clock is asked. Most code is stopped long before the budget
    /// is over in real time.
    pub fn counted(
        bytes: &[u8],
        name: &str,
        setup: &Setup<'_>,
        limits: &Limits,
    ) -> Result<Sandbox<E>, WasmError> {
        Self::build(bytes, setup, limits, Meter::counting(limits.fuel_per_micro))
            .map_err(|problem| WasmError { module: abi::shown(name), problem })
    }

    /// Runs it in a new instance, which remembers nothing of the runs before.
    pub fn run_anew(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        self.is_whole = false;
        self.run(inputs, output)
    }

    /// What its results are.
    pub fn output(&self) -> &PayloadType {
        &self.chosen.output
    }

    /// How often it has one.
    pub fn answers(&self) -> Answers {
        self.chosen.answers
    }

    /// What it remembers.
    pub fn memory(&self) -> Memory {
        self.chosen.memory
    }

    /// The fuel that the last run burned.
    pub fn fuel_used(&self) -> u64 {
        self.used
    }

    fn build(bytes: &[u8], setup: &Setup<'_>, limits: &Limits, meter: Meter) -> Result<Sandbox<E>, Problem> {
        if setup.inputs.len() > INPUTS_MAX {
            return Err(Problem::Inputs(setup.inputs.len()));
        }
        recognise(bytes, limits)?;
        let engine = E::load(bytes, limits).map_err(Problem::Invalid)?;
        let ports = engine.ports();
        abi::check(&ports, limits)?;
        let mut sandbox = Sandbox {
            engine,
            chosen: choose(setup.parameters, &ports)?,
            inputs: setup.inputs.len(),
            budget: limits.budget,
            start_budget: limits.start_budget,
            result_bytes_max: limits.result_bytes_max,
            meter,
            used: 0,
            is_whole: false,
        };
        sandbox.start()?;
        Ok(sandbox)
    }

    /// Makes an instance: its start function, its version, its parameters.
    fn start(&mut self) -> Result<(), Problem> {
        let at = |place: &str| {
            let place = place.to_owned();
            move |trap| Problem::Start { place, trap }
        };
        self.is_whole = false;
        self.engine.instantiate(self.meter.worth(self.start_budget)).map_err(at("its start"))?;
        let fuel = self.meter.begin(self.start_budget);
        self.engine.set_fuel(fuel, &self.meter);
        let version = self.engine.version(&mut self.meter).map_err(at(abi::ABI_VERSION))?;
        if version != abi::VERSION {
            return Err(Problem::Version(version));
        }
        for (setter, value) in &self.chosen.numbers {
            self.engine.set(setter, *value, &mut self.meter).map_err(at(setter))?;
        }
        self.is_whole = true;
        Ok(())
    }

    /// A call that is none of `verge_run` begins, with the budget of a run.
    fn begin(&mut self) -> Result<(), Fault> {
        if !self.is_whole && self.start().is_err() {
            return Err(Fault::Stopped("the module was stopped before, and cannot be started again"));
        }
        let fuel = self.meter.begin(self.budget);
        self.engine.set_fuel(fuel, &self.meter);
        Ok(())
    }

    /// An instance that was stopped is never used again.
    fn begin_anew_after(&mut self, trap: Trap) -> Fault {
        // Should it fail, the next run tries again.
        let _ = self.start();
        trap.fault(self.budget)
    }

    fn hand_over(&mut self, input: &Input<'_>) -> Result<(), Stop> {
        if input.slot >= self.inputs {
            return Err(Stop::Declined(Fault::Failed("there is no such input")));
        }
        let Ok(length) = i32::try_from(input.payload.len()) else {
            return Err(Stop::Declined(Fault::Failed("an input has 2 GiB or more")));
        };
        let created = i64::try_from(input.created.0).unwrap_or(i64::MAX);
        let called = self.engine.input(input.slot as i32, length, created, &mut self.meter);
        let address = called.map_err(|trap| self.stopped(trap))?;
        if address == 0 && length > 0 {
            return Err(Stop::Declined(Fault::Failed(
                "the module has no room for an input of this length (`verge_input` returned 0)",
            )));
        }
        let place = range(address as u32 as usize, input.payload.len());
        let Some(place) = self.engine.memory().get_mut(place) else {
            return Err(Stop::Broken(Fault::Stopped("`verge_input` returned a place outside of the memory")));
        };
        place.copy_from_slice(input.payload);
        Ok(())
    }

    fn answer(&mut self, present: i64, output: &mut Vec<u8>) -> Result<Answer, Stop> {
        let broken = |reason| Err(Stop::Broken(Fault::Stopped(reason)));
        let called = self.engine.run(present, &mut self.meter);
        let (address, length) = match Reply::unpack(called.map_err(|trap| self.stopped(trap))?) {
            Reply::Nothing if self.chosen.answers == Answers::Always => {
                return Err(Stop::Declined(Fault::Failed("it had no result, and `answers` says always")));
            }
            Reply::Nothing => return Ok(Answer::Nothing),
            Reply::Failed => return Err(Stop::Declined(Fault::Failed("the module says that it failed"))),
            Reply::Result { address, length } => (address, length),
        };
        if length > self.result_bytes_max {
            return broken("the result is longer than its limit");
        }
        if let PayloadType::Array(element) = self.chosen.output
            && !length.is_multiple_of(element.bytes())
        {
            return broken("the length of the result is no multiple of its `output` type's");
        }
        match self.engine.memory().get(range(address, length)) {
            Some(result) => output.extend_from_slice(result),
            None => return broken("`verge_run` returned a place outside of the memory"),
        }
        Ok(Answer::Result)
    }

    fn stopped(&self, trap: Trap) -> Stop {
        Stop::Broken(trap.fault(self.budget))
    }

    fn attempt(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Stop> {
        let mut present = 0;
        for input in inputs {
            self.hand_over(input)?;
            present |= 1_i64 << input.slot;
        }
        self.answer(present, output)
    }
}

impl<E: WasmEngine> Operator for Sandbox<E> {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        self.used = 0;
        self.begin()?;
        let tried = self.attempt(inputs, output);
        self.used = self.meter.burned(self.engine.fuel());
        match tried {
            Ok(answer) => Ok(answer),
            Err(Stop::Declined(fault)) => Err(fault),
            Err(Stop::Broken(fault)) => {
                // Here and not at the next run, which has a budget of its own. What it takes, a run that was stopped takes
                // longer than its budget. Should it fail, the next run tries again.
                let _ = self.start();
                Err(fault)
            }
        }
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        if self.chosen.memory != Memory::Saved {
            return Ok(());
        }
        self.begin()?;
        let called = self.engine.save(&mut self.meter);
        let called = called.map_err(|trap| self.begin_anew_after(trap))?;
        let Reply::Result { address, length } = Reply::unpack(called) else {
            return Err(Fault::Failed("`verge_save` returned no place"));
        };
        if length > MEMORY_BYTES_MAX {
            return Err(Fault::Failed("it remembers more than its limit"));
        }
        let saved = self.engine.memory().get(range(address, length));
        memory.extend_from_slice(
            saved.ok_or(Fault::Failed("`verge_save` returned a place outside of the memory"))?,
        );
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        if self.chosen.memory != Memory::Saved {
            return if memory.is_empty() { Ok(()) } else { Err(Fault::Failed("it remembers nothing")) };
        }
        self.begin()?;
        let given = self.hand_over(&Input { slot: 0, payload: memory, created: Time::ZERO });
        given.map_err(|stop| match stop {
            Stop::Declined(fault) | Stop::Broken(fault) => fault,
        })?;
        let length = i32::try_from(memory.len()).unwrap_or(i32::MAX);
        let called = self.engine.restore(length, &mut self.meter);
        match called.map_err(|trap| self.begin_anew_after(trap))? {
            0 => Ok(()),
            _ => Err(Fault::Failed("`verge_restore` did not take what it is to remember")),
        }
    }
}

/// Why a run gave no answer.
enum Stop {
    /// It ended as runs should: its instance lives on.
    Declined(Fault),
    /// It was stopped, or does not keep to the interface: its instance does not live on.
    Broken(Fault),
}

/// A range that lies outside of every memory if it has no end.
fn range(address: usize, length: usize) -> std::ops::Range<usize> {
    address..address.saturating_add(length)
}

/// Says early, and in plain words, what is no module at all.
fn recognise(bytes: &[u8], limits: &Limits) -> Result<(), Problem> {
    const MAGIC: &[u8] = b"\0asm";
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
    if bytes.len() > limits.module_bytes_max {
        return Err(Problem::TooLong { bytes: bytes.len(), max: limits.module_bytes_max });
    }
    let what = match bytes {
        [] => "empty",
        _ if bytes.starts_with(COMPONENT) => "a component, and not a core module",
        _ if bytes.starts_with(MAGIC) => return Ok(()),
        _ if bytes.trim_ascii_start().starts_with(b"(") => "WebAssembly in its text form",
        _ if bytes.starts_with(b"\x7fELF") => "a program or library of this host",
        _ => "no WebAssembly",
    };
    Err(Problem::Foreign { what })
}
