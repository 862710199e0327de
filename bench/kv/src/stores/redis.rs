//! Redis: an instance for each node and lane, a sorted set for each key, with publishing times as scores. A task writes to the instance
//! of its node and asks all of them; it takes the newest value on which all but the tolerated faulty ones agree. Commands of one
//! iteration are sent together, or one at a time, each when the one before it has been answered.

use super::{Found, Store, trouble};
use crate::Outcome;
use crate::workload::{Task, Value, Workload};
use contract::{Span, Time};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;
use verge_kv::now;

/// How many values of a key are kept, as in the store (I5), and after how many writes what is older is deleted.
const HISTORY: i64 = 20;
const DELETE_EVERY: u64 = 10;
/// An instance answers within this, or is taken for dead until the next iteration.
const ANSWER_MIN: Duration = Duration::from_millis(1);

pub struct Instances {
    addresses: Vec<String>,
    /// `None` while there is no connection.
    connections: Vec<Option<BufReader<TcpStream>>>,
    keys: Vec<String>,
    command: Vec<u8>,
    writes: u64,
    /// So many commands are sent together.
    at_once: usize,
    /// For each key that was asked for, what each instance has said.
    heard: Vec<BTreeMap<(Time, Vec<u8>), usize>>,
}

impl Instances {
    /// The addresses of all instances of a lane, with commas, that of the own node first.
    pub fn open(addresses: &str, workload: &Workload, task: &Task, at_once: usize) -> Outcome<Instances> {
        let addresses: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        let connect = |address: &String| connect(address).map(Some);
        let connections = addresses.iter().map(connect).collect::<io::Result<_>>()?;
        let keys = workload.keys.iter().map(|key| format!("{}:{}", task.lane, key.name)).collect();
        Ok(Instances {
            addresses,
            connections,
            keys,
            command: Vec::new(),
            writes: 0,
            at_once,
            heard: Vec::new(),
        })
    }

    /// Sends the commands to one instance; a lost connection is made again once in an iteration.
    fn send(&mut self, at: usize, until: Time) -> io::Result<()> {
        if self.connections[at].is_none() {
            self.connections[at] = Some(connect(&self.addresses[at])?);
        }
        let Some(connection) = &mut self.connections[at] else { return Ok(()) };
        let left = Duration::from_nanos(until.since(now()).as_nanos_u64()).max(ANSWER_MIN);
        connection.get_ref().set_read_timeout(Some(left))?;
        connection.get_ref().set_write_timeout(Some(left))?;
        connection.get_mut().write_all(&self.command)
    }

    /// What an instance knows of these of the keys that were asked for.
    fn hear(&mut self, at: usize, keys: Range<usize>) -> io::Result<()> {
        let Some(connection) = &mut self.connections[at] else { return Ok(()) };
        for heard in &mut self.heard[keys] {
            for _ in 0..number(connection, b'*')? {
                let member = text(connection)?;
                if let Some(tuple) = split(&member) {
                    *heard.entry(tuple).or_default() += 1;
                }
            }
        }
        Ok(())
    }
}

impl Store for Instances {
    fn read(
        &mut self,
        wanted: &[(usize, Time)],
        until: Time,
        found: &mut [Option<Found>],
    ) -> Result<(), String> {
        let newest = micros(now());
        self.heard.iter_mut().for_each(BTreeMap::clear);
        self.heard.resize_with(wanted.len(), BTreeMap::new);
        let mut failed = Ok(());
        let mut fail = |instances: &mut Instances, at: usize, error: &io::Error| {
            // Answers that come later would be taken for others.
            instances.connections[at] = None;
            failed = Err(trouble(error));
        };
        let at_once = self.at_once.min(wanted.len().max(1));
        for (chunk, wanted) in wanted.chunks(at_once).enumerate() {
            self.command.clear();
            for (key, freshness) in wanted {
                let (newest, oldest) = (newest.to_string(), micros(*freshness).to_string());
                let words = ["ZREVRANGEBYSCORE", &self.keys[*key], &newest, &oldest, "LIMIT", "0", "2"];
                put(&mut self.command, &words.map(str::as_bytes));
            }
            for at in 0..self.addresses.len() {
                if let Err(error) = self.send(at, until) {
                    fail(self, at, &error);
                }
            }
            let begin = chunk * at_once;
            for at in 0..self.addresses.len() {
                if let Err(error) = self.hear(at, begin..begin + wanted.len()) {
                    fail(self, at, &error);
                }
            }
        }
        let needed = self.addresses.len() - (self.addresses.len() - 1) / 3;
        let vote = |heard: &BTreeMap<(Time, Vec<u8>), usize>| {
            let ((stamp, bytes), _) = heard.iter().rev().find(|(_, count)| **count >= needed)?;
            Some(Found { stamp: *stamp, value: Value::of(bytes)? })
        };
        for (heard, place) in self.heard.iter().zip(found.iter_mut()) {
            *place = vote(heard);
        }
        if found.iter().all(Option::is_some) {
            return Ok(());
        }
        failed.and(Err("too few instances agree".to_owned()))
    }

    fn write(&mut self, values: &[(usize, Value)], publishing: Time) -> Result<(), String> {
        let score = micros(publishing).to_string();
        let before = (-HISTORY - 1).to_string();
        self.writes += 1;
        let deletes = self.writes.is_multiple_of(DELETE_EVERY);
        let mut answer = || {
            for values in values.chunks(self.at_once.min(values.len().max(1))) {
                self.command.clear();
                for (key, value) in values {
                    // Values may be equal at two instants, members may not.
                    let member = [publishing.0.to_string().as_bytes(), b":", value.as_bytes()].concat();
                    let key = self.keys[*key].as_bytes();
                    put(&mut self.command, &[b"ZADD", key, score.as_bytes(), &member]);
                    if deletes {
                        put(&mut self.command, &[b"ZREMRANGEBYRANK", key, b"0", before.as_bytes()]);
                    }
                }
                self.send(0, publishing)?;
                let Some(connection) = &mut self.connections[0] else { return Ok(()) };
                (0..values.len() * (1 + usize::from(deletes)))
                    .try_for_each(|_| number(connection, b':').map(drop))?;
            }
            Ok(())
        };
        let answered: io::Result<()> = answer();
        answered.map_err(|error| {
            self.connections[0] = None;
            trouble(&error)
        })?;
        if now() < publishing { Ok(()) } else { Err("written after its publishing time".to_owned()) }
    }
}

fn connect(address: &str) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::with_capacity(1 << 16, stream))
}

/// Scores are floating-point numbers: nanoseconds since the epoch have too many digits for them.
fn micros(time: Time) -> u64 {
    time.0 / Span::micros(1).as_nanos_u64()
}

fn put(command: &mut Vec<u8>, words: &[&[u8]]) {
    command.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        command.extend_from_slice(word);
        command.extend_from_slice(b"\r\n");
    }
}

/// The number of an answer that begins with this sign.
fn number(connection: &mut impl BufRead, sign: u8) -> io::Result<usize> {
    let mut line = Vec::new();
    connection.read_until(b'\n', &mut line)?;
    let text = String::from_utf8_lossy(&line);
    let bad = || io::Error::other(format!("answers {:?}", text.trim_end()));
    text.trim_end().strip_prefix(char::from(sign)).and_then(|digits| digits.parse().ok()).ok_or_else(bad)
}

fn text(connection: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let length = number(connection, b'$')?;
    let mut bytes = vec![0; length + 2];
    connection.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// The stamp and the value of a member.
fn split(member: &[u8]) -> Option<(Time, Vec<u8>)> {
    let colon = member.iter().position(|byte| *byte == b':')?;
    let stamp = std::str::from_utf8(&member[..colon]).ok()?.parse().ok()?;
    Some((Time(stamp), member[colon + 1..].to_vec()))
}
