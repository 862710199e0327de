//! A scenario in lines that a person can read.

use crate::scenario::Scenario;
use std::fmt;

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weather = if self.assumed { "assumed" } else { "beyond" };
        let (n, tolerated, mode, resolve) = (self.nodes, self.tolerated, self.mode, self.resolve);
        writeln!(
            f,
            "{n} nodes, {tolerated} tolerated, {mode:?}, {resolve:?}, {} jobs, {weather} weather",
            self.jobs
        )?;
        let round = self.round.map_or("the longest".to_owned(), |round| round.to_string());
        writeln!(f, "{} lanes, period {}, offset {}, round {round}", self.lanes, self.period, self.offset)?;
        let link = self.link;
        writeln!(
            f,
            "delay {} (and {} more), clocks {}, send {}, receive {}, publish {}",
            link.delay_max, self.excess, link.clock_error, link.send, link.receive, self.cpu
        )?;
        let clocks: Vec<String> = self.clocks.iter().map(ToString::to_string).collect();
        writeln!(f, "clocks ahead by {}", clocks.join(", "))?;
        let (history, tuples) = (self.history, self.batch_tuples_max);
        let rings = if self.rings { "rings" } else { "calls" };
        writeln!(f, "history {history}, {tuples} tuples a batch, writes by {rings}")?;
        for task in &self.tasks {
            writeln!(f, "task every {} periods, cost {}", task.periods, task.cost)?;
        }
        for (number, key) in self.keys.iter().enumerate() {
            let twice = if key.twice { ", each instant twice" } else { "" };
            let writers = key.writers.map_or("all".to_owned(), |writers| format!("{writers:?}"));
            writeln!(f, "key {number}: {:?}, task {}, writers {writers}{twice}", key.kind, key.task)?;
        }
        for fault in &self.faults {
            writeln!(f, "node {} in jobs {} to {}: {:?}", fault.node, fault.from, fault.until, fault.act)?;
        }
        Ok(())
    }
}
