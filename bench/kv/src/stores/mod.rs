//! Stores, each behind the same four words.

mod etcd;
mod redis;
mod verge;

use crate::Outcome;
use crate::arguments::{Kind, Tasks};
use crate::workload::{Task, Value, Workload};
use contract::Time;
use std::io;

/// What was read: a value and the instant from which on it is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub stamp: Time,
    pub value: Value,
}

/// One task's way to its lane.
pub trait Store: Send {
    /// For each key with the oldest stamp that will do, the newest value that is visible; what failed stays `None`. Nothing that comes
    /// after `until` is of use.
    fn read(
        &mut self,
        wanted: &[(usize, Time)],
        until: Time,
        found: &mut [Option<Found>],
    ) -> Result<(), String>;

    /// Values that are to be visible from `publishing` on. Whatever is not confirmed by then has failed.
    fn write(&mut self, values: &[(usize, Value)], publishing: Time) -> Result<(), String>;
}

/// A way for one task; waits until its store is there.
pub fn open(plan: &Tasks, workload: &Workload, task: &Task, number: usize) -> Outcome<Box<dyn Store>> {
    let server = |at: usize| {
        plan.server.get(at).map(String::as_str).ok_or_else(|| format!("lane {at} has no --server"))
    };
    let lane = usize::from(task.lane);
    let at_once = if plan.single { 1 } else { usize::MAX };
    Ok(match plan.store {
        Kind::Verge => Box::new(verge::Lane::attach(server(0)?, workload, task, number)?),
        Kind::Redis => Box::new(redis::Instances::open(server(lane)?, workload, task, at_once)?),
        Kind::Etcd => Box::new(etcd::Member::open(server(0)?, workload, task, at_once)?),
    })
}

/// Why a server was of no use, in words that are the same for all.
fn trouble(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}
