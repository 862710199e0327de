//! etcd: one cluster of all nodes, a key for each key and publishing time, with leases. A task asks the member of its node; reads are
//! linearizable, as is the default. What one iteration reads is one transaction, and so is what it writes, unless there is to be one command
//! at a time.

use super::{Found, Store, trouble};
use crate::Outcome;
use crate::http::Connection;
use crate::workload::{Task, Value, Workload};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::{Span, Time};
use serde_json::{Value as Json, json};
use verge_kv::now;

/// How long a key lives.
const LEASE_SECONDS: u64 = 20;
/// How long a lease is given to new keys.
const LEASE_USE: Span = Span::secs(5);

pub struct Member {
    connection: Connection,
    keys: Vec<String>,
    lease: String,
    lease_until: Time,
    /// So many commands are one transaction.
    at_once: usize,
}

impl Member {
    pub fn open(address: &str, workload: &Workload, task: &Task, at_once: usize) -> Outcome<Member> {
        let keys = workload.keys.iter().map(|key| format!("{}:{}", task.lane, key.name)).collect();
        let connection = Connection::to(address);
        let mut member = Member { connection, keys, lease: String::new(), lease_until: Time::ZERO, at_once };
        member.lease(now() + Span::secs(10))?;
        Ok(member)
    }

    fn ask(&mut self, path: &str, request: &Json, until: Time) -> Result<Json, String> {
        let left = std::time::Duration::from_nanos(until.since(now()).as_nanos_u64());
        let answer = self.connection.post(path, request.to_string().as_bytes(), left);
        let answer = answer.map_err(|error| trouble(&error))?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }

    fn lease(&mut self, until: Time) -> Result<(), String> {
        if now() < self.lease_until {
            return Ok(());
        }
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": LEASE_SECONDS }), until)?;
        self.lease = answer["ID"].as_str().ok_or_else(|| format!("no lease: {answer}"))?.to_owned();
        self.lease_until = now() + LEASE_USE;
        Ok(())
    }

    fn name(&self, key: usize, stamp: Time) -> String {
        STANDARD.encode(format!("{}/{:020}", self.keys[key], stamp.0))
    }

    fn transact(&mut self, steps: &[Json], until: Time) -> Result<Json, String> {
        let answer = self.ask("/v3/kv/txn", &json!({ "success": steps }), until)?;
        if answer["succeeded"] == true { Ok(answer) } else { Err(format!("not done: {answer}")) }
    }
}

impl Store for Member {
    fn read(
        &mut self,
        wanted: &[(usize, Time)],
        until: Time,
        found: &mut [Option<Found>],
    ) -> Result<(), String> {
        let newest = now() + Span(1);
        let range = |(key, freshness): &(usize, Time)| {
            json!({ "request_range": { "key": self.name(*key, *freshness), "range_end": self.name(*key, newest), "limit": 1,
                "sort_order": "DESCEND", "sort_target": "KEY" } })
        };
        let steps: Vec<Json> = wanted.iter().map(range).collect();
        let at_once = self.at_once.min(steps.len().max(1));
        for (steps, found) in steps.chunks(at_once).zip(found.chunks_mut(at_once)) {
            let answer = self.transact(steps, until)?;
            for (place, answer) in found.iter_mut().zip(answer["responses"].as_array().into_iter().flatten())
            {
                *place = tuple(&answer["response_range"]["kvs"][0]);
            }
        }
        let all = found.iter().all(Option::is_some);
        all.then_some(()).ok_or_else(|| "no value that is new enough".to_owned())
    }

    fn write(&mut self, values: &[(usize, Value)], publishing: Time) -> Result<(), String> {
        self.lease(publishing)?;
        let put = |(key, value): &(usize, Value)| {
            json!({ "request_put": { "key": self.name(*key, publishing), "value": STANDARD.encode(value.as_bytes()),
                "lease": self.lease } })
        };
        let steps: Vec<Json> = values.iter().map(put).collect();
        for steps in steps.chunks(self.at_once.min(steps.len().max(1))) {
            self.transact(steps, publishing)?;
        }
        if now() < publishing { Ok(()) } else { Err("written after its publishing time".to_owned()) }
    }
}

/// The stamp, which is the end of the key, and the value.
fn tuple(pair: &Json) -> Option<Found> {
    let key = STANDARD.decode(pair["key"].as_str()?).ok()?;
    let stamp = std::str::from_utf8(key.rsplit(|byte| *byte == b'/').next()?).ok()?.parse().ok()?;
    let value = STANDARD.decode(pair["value"].as_str()?).ok()?;
    Some(Found { stamp: Time(stamp), value: Value::of(&value)? })
}
