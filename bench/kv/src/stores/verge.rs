//! A lane of `verge kv node`, by shared memory.

use super::{Found, Store};
use crate::Outcome;
use crate::workload::{Task, VALUE_BYTES_MAX, Value, Workload};
use contract::Time;
use std::time::{Duration, Instant};
use verge_kv::{Client, Error, Key, Options, State};

/// How long a node may take until its lane runs.
const START: Duration = Duration::from_secs(30);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

pub struct Lane {
    client: Client,
    keys: Vec<Key>,
}

impl Lane {
    pub fn attach(socket: &str, workload: &Workload, task: &Task, number: usize) -> Outcome<Lane> {
        let options = Options { tuples: task.writes.len(), name: format!("task-{number}"), wait: START };
        let until = Instant::now() + START;
        let client = loop {
            match Client::attach(socket, task.lane, &options) {
                // The lane has not begun yet.
                Err(Error::Refused(_)) if Instant::now() < until => std::thread::sleep(TRY_AGAIN_AFTER),
                other => break other?,
            }
        };
        while client.state() == State::Starting && Instant::now() < until {
            std::thread::sleep(TRY_AGAIN_AFTER);
        }
        let keys = workload.keys.iter().map(|key| client.key(&key.name)).collect::<Result<_, _>>()?;
        Ok(Lane { client, keys })
    }
}

impl Store for Lane {
    fn read(
        &mut self,
        wanted: &[(usize, Time)],
        _until: Time,
        found: &mut [Option<Found>],
    ) -> Result<(), String> {
        let mut failed = Ok(());
        let mut buffer = [0; VALUE_BYTES_MAX];
        for ((key, freshness), place) in wanted.iter().zip(found) {
            match self.client.read(&self.keys[*key], *freshness, &mut buffer) {
                Ok(value) => {
                    *place = Value::of(value.bytes).map(|bytes| Found { stamp: value.stamp, value: bytes });
                }
                Err(error) if failed.is_ok() => failed = Err(error.to_string()),
                Err(_) => {}
            }
        }
        failed
    }

    fn write(&mut self, values: &[(usize, Value)], publishing: Time) -> Result<(), String> {
        let mut failed = Ok(());
        for (key, value) in values {
            if let Err(error) = self.client.write(&self.keys[*key], value.as_bytes(), publishing)
                && failed.is_ok()
            {
                failed = Err(error.to_string());
            }
        }
        failed
    }
}
