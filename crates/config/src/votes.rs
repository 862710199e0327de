//! Votes that users write: a WebAssembly module that makes one value of what several nodes propose.
//!
//! **The problem.** All correct nodes must come to the same value, or all to none. A module could remember what it was asked before, which
//! is something else on a node that was away; and where a clock says when it has gone on for too long, one node stops it and another does
//! not.
//!
//! **The idea.** Each vote begins with a new instance, so there is nothing to remember. And what a vote may take is counted in instructions
//! ([`Sandbox::counted`]), which are as many on every node. The name has a hash of the module and its budget, so nodes with different ones
//! do not talk to each other.

use contract::{Span, Time};
use kv::{Ballots, VoteFunction};
use processing::{Answer, Input, Parameters, PayloadType, Setup};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use wasm::{INPUTS_MAX, Limits, Sandbox};

/// What a vote may take, unless the configuration says.
pub const BUDGET: Span = Span::micros(200);

/// A module as a vote. It belongs to one lane, whose thread waits for nobody who asks how it does.
pub struct ModuleVote {
    name: String,
    /// Only the lane's thread locks it.
    machine: Mutex<Machine>,
    failed: AtomicU64,
    last: Mutex<String>,
}

struct Machine {
    sandbox: Sandbox,
    result: Vec<u8>,
}

impl ModuleVote {
    /// A vote of so many nodes; `module` is what errors call it. An error says what is wrong with the module.
    pub fn new(bytes: &[u8], module: &str, nodes: usize, budget: Span) -> Result<ModuleVote, String> {
        if nodes > INPUTS_MAX {
            return Err(format!("a module votes for at most {INPUTS_MAX} nodes, and there are {nodes}"));
        }
        let limits = Limits { budget, start_budget: budget, ..Limits::default() };
        let (inputs, parameters) = (vec![PayloadType::default(); nodes], Parameters::default());
        let setup = Setup { inputs: &inputs, parameters: &parameters };
        let sandbox = Sandbox::counted(bytes, module, &setup, &limits).map_err(|error| error.to_string())?;
        let file = Path::new(module).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("module {file} {} within {budget}", &blake3::hash(bytes).to_hex()[..16]);
        let machine = Mutex::new(Machine { sandbox, result: Vec::new() });
        Ok(ModuleVote { name, machine, failed: AtomicU64::new(0), last: Mutex::default() })
    }
}

impl fmt::Debug for ModuleVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Machine {
    fn vote(&mut self, ballots: &Ballots<'_>, out: &mut [u8]) -> Result<Option<usize>, String> {
        let inputs =
            ballots.iter().map(|(node, payload)| Input { slot: node.index(), payload, created: Time::ZERO });
        let inputs: Vec<Input<'_>> = inputs.collect();
        self.result.clear();
        match self.sandbox.run_anew(&inputs, &mut self.result).map_err(|fault| fault.to_string())? {
            Answer::Result if self.result.len() > out.len() => Err(format!(
                "its result has {} bytes, and `value_bytes_max` is {}",
                self.result.len(),
                out.len()
            )),
            Answer::Result => {
                out[..self.result.len()].copy_from_slice(&self.result);
                Ok(Some(self.result.len()))
            }
            _ => Ok(None),
        }
    }
}

impl VoteFunction for ModuleVote {
    fn name(&self) -> &str {
        &self.name
    }

    fn vote(&self, ballots: &Ballots<'_>, out: &mut [u8]) -> Option<usize> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        machine.vote(ballots, out).unwrap_or_else(|reason| {
            self.failed.fetch_add(1, Relaxed);
            // Where somebody reads it just now, the one before stays.
            if let Ok(mut last) = self.last.try_lock() {
                *last = reason;
            }
            None
        })
    }

    fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    fn last_failure(&self) -> String {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv::{Config, Key, KeyId, Lane, LinkKey, Mode, Node, Start, Step, Vote};
    use std::sync::Arc;

    /// A module whose `verge_run` has this body. The proposal of node n is at 1028 + 64 n, its length before it.
    fn module(body: &str) -> Vec<u8> {
        let text = format!(
            r#"(module
              (memory (export "memory") 1)
              (global $runs (mut i64) (i64.const 0))
              (func (export "verge_abi_version") (result i32) (i32.const 1))
              (func (export "verge_input") (param $slot i32) (param $len i32) (param i64) (result i32)
                (local $at i32)
                (local.set $at (i32.add (i32.const 1024) (i32.mul (local.get $slot) (i32.const 64))))
                (i32.store (local.get $at) (local.get $len))
                (i32.add (local.get $at) (i32.const 4)))
              (func (export "verge_run") (param $present i64) (result i64) {body}))"#
        );
        wat::parse_str(text).unwrap()
    }

    fn packed(address: i64, length: i64) -> String {
        format!("(i64.const {})", address << 32 | length)
    }

    /// What comes of proposals in three jobs, one after the other, and how the vote is afterwards.
    fn jobs(body: &str, budget: Span) -> ([Option<Vec<u8>>; 3], u64, String) {
        let vote = Arc::new(ModuleVote::new(&module(body), "a/b.wasm", 1, budget).unwrap());
        let config = Config {
            nodes: vec!["only".to_owned()],
            faults: 0,
            mode: Mode::Crash,
            keys: vec![Key::named("k").vote(Vote::Custom(vote.clone()))],
            ..Config::default()
        };
        let setup = kv::Setup::new(config).unwrap();
        let first = setup.release_after(Time(1_000_000_000));
        let mut lane = Lane::new(setup.clone(), Node(0), &[LinkKey([0; 32])], Start::Founded, first);
        let results = [0, 1, 2].map(|job| {
            let release = first + setup.period() * job;
            let stamp = release + setup.period() * 2;
            lane.write(KeyId(0), b"proposal", stamp, release - Span(1)).unwrap();
            lane.begin(release, release).unwrap();
            while lane.step(release + setup.round()) != Step::Over {}
            lane.fuse();
            lane.publish(release, &mut ());
            lane.read(KeyId(0), stamp, stamp).ok().map(|value| value.bytes.to_vec())
        });
        (results, vote.failed(), vote.last_failure())
    }

    #[test]
    fn a_module_makes_a_value_of_proposals_or_none() {
        let (results, failed, _) = jobs(&packed(1028, 8), BUDGET);
        assert_eq!((results, failed), ([(); 3].map(|()| Some(b"proposal".to_vec())), 0));
        let (results, failed, _) = jobs("(i64.const -1)", BUDGET);
        assert_eq!((results, failed), ([None, None, None], 0), "to have none is no fault");
    }

    #[test]
    fn a_vote_remembers_nothing_of_those_before() {
        let count = format!(
            "(global.set $runs (i64.add (global.get $runs) (i64.const 1)))
             (i64.store (i32.const 0) (global.get $runs)) {}",
            packed(0, 8)
        );
        let (results, ..) = jobs(&count, BUDGET);
        assert_eq!(results, [(); 3].map(|()| Some(1_u64.to_le_bytes().to_vec())));
    }

    #[test]
    fn faults_come_to_no_value_and_are_counted_with_the_reason() {
        for (body, reason) in [
            ("unreachable".to_owned(), "gave up"),
            ("(loop $again (br $again)) (i64.const 0)".to_owned(), "budget"),
            ("(i64.const -7)".to_owned(), "failed"),
            (packed(70_000, 8), "outside"),
            (packed(0, 17), "value_bytes_max"),
        ] {
            let (results, failed, last) = jobs(&body, BUDGET);
            assert_eq!((results, failed), ([None, None, None], 3), "{body}: {last}");
            assert!(last.contains(reason), "{body}: {last}");
        }
    }

    #[test]
    fn what_a_vote_may_take_is_counted_in_instructions_and_not_in_time() {
        let runs = |turns: u32| {
            let body = format!(
                "(local $i i32) (loop $again
                   (local.set $i (i32.add (local.get $i) (i32.const 1)))
                   (br_if $again (i32.lt_u (local.get $i) (i32.const {turns})))) {}",
                packed(1028, 8)
            );
            jobs(&body, BUDGET).1
        };
        // On any host there is one number of turns up to which it ends.
        let mut ends = 0_u32;
        for bit in (0..20).rev() {
            if runs(ends | 1 << bit) == 0 {
                ends |= 1 << bit;
            }
        }
        assert!(ends > 100, "{ends} turns end");
        for _ in 0..3 {
            assert_eq!((runs(ends), runs(ends + 1)), (0, 3), "{ends} turns");
        }
    }

    #[test]
    fn nodes_with_other_modules_or_budgets_do_not_agree_about_the_name() {
        let name = |body: &str, budget| ModuleVote::new(&module(body), "x/m.wasm", 4, budget).unwrap().name;
        let one = name("(i64.const -1)", BUDGET);
        assert!(one.starts_with("module m.wasm ") && one.ends_with("within 200us"), "{one}");
        assert_eq!(one, name("(i64.const -1)", BUDGET));
        assert_ne!(one, name("(i64.const -2)", BUDGET));
        assert_ne!(one, name("(i64.const -1)", BUDGET * 2));
    }

    #[test]
    fn what_is_no_vote_is_refused() {
        let refused = |bytes: &[u8], nodes| ModuleVote::new(bytes, "m.wasm", nodes, BUDGET).unwrap_err();
        assert!(refused(b"(module)", 4).contains("text form"));
        assert!(refused(&wat::parse_str("(module)").unwrap(), 4).contains("memory"));
        assert!(refused(&module("(i64.const -1)"), 64).contains("at most 63"));
    }
}
