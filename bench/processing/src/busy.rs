//! `busy`: an operator that takes a stated time of a processor, for measurements beside systems whose operators are written
//! otherwise. Its result is the bytes of its inputs, one after another.

use processing::{
    Answer, Answers, Built, Element, Fault, Input, Memory, Operator, PayloadType, Setup, Value,
};
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Its parameter, in microseconds.
pub const COST: &str = "cost_us";

const WARM_UP: Duration = Duration::from_millis(300);
const TRIES: usize = 200;
const STEPS_OF_A_TRY: u64 = 100_000;

struct Busy(Burn);

/// Takes a stated time of a processor.
pub struct Burn {
    steps: u64,
    state: u64,
}

pub fn build(setup: &Setup<'_>) -> Result<Built, String> {
    let Some(Value::Number(cost_us)) = setup.parameters.get(COST) else {
        return Err(format!("`busy` needs the number `{COST}`"));
    };
    let operator = Box::new(Busy(Burn::new(*cost_us)));
    Ok(Built {
        operator,
        output: PayloadType::Array(Element::F32),
        answers: Answers::Always,
        memory: Memory::Nothing,
    })
}

/// Runs by what they took, in percent of their stated cost; the last: so much or more.
static TOOK: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// What runs took so far at the median, by their stated cost. Those that were interrupted are among the longer ones.
pub fn took() -> Option<f64> {
    let counts: Vec<u64> = TOOK.iter().map(|count| count.load(Relaxed)).collect();
    let half = counts.iter().sum::<u64>() / 2;
    let mut passed = 0;
    let median = counts.iter().position(|count| {
        passed += count;
        passed > half
    });
    // The middle of what counts as this percentage.
    median.map(|percent| (percent as f64 + 0.5) / 100.0)
}

impl Operator for Busy {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        self.0.run();
        for input in inputs {
            output.extend_from_slice(input.payload);
        }
        Ok(Answer::Result)
    }
}

impl Burn {
    pub fn new(cost_us: f64) -> Burn {
        Burn { steps: (cost_us * 1e3 / step_ns()) as u64, state: 1 }
    }

    pub fn run(&mut self) {
        let begin = Instant::now();
        self.state = after(self.state, self.steps);
        let percent = begin.elapsed().as_nanos() as f64 * 100.0 / (self.steps as f64 * step_ns());
        TOOK[(percent as usize).min(TOOK.len() - 1)].fetch_add(1, Relaxed);
    }
}

/// Steps each of which needs the one before, so that no processor and no compiler does them faster than one by one.
#[inline(never)]
fn after(mut state: u64, steps: u64) -> u64 {
    for _ in 0..black_box(steps) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

/// Nanoseconds of a step: the least of many tries, since other programs only ever add to it.
pub fn step_ns() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        // Until the processor has its highest clock.
        let begin = Instant::now();
        while begin.elapsed() < WARM_UP {
            after(1, STEPS_OF_A_TRY / 100);
        }
        let tries = (0..TRIES).map(|_| {
            let begin = Instant::now();
            after(1, STEPS_OF_A_TRY);
            begin.elapsed()
        });
        tries.min().map_or(0.0, |least| least.as_nanos() as f64) / STEPS_OF_A_TRY as f64
    })
}
