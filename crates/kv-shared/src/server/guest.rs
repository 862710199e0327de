//! One connection. What its application was given is taken back when it ends, however it ends.

use super::{ANSWER_TIMEOUT, CONNECTIONS_MAX, Seat, Shared, lock};
use crate::passing::{Lines, PassingError};
use crate::protocol::{Answer, CLIENT_NAME_BYTES_MAX, Content, Plain, Request, decode};
use crate::store::Store;
use crate::vector::Said;
use contract::Time;
use kv::KeyId;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

pub(super) struct Guest {
    shared: Arc<Shared>,
    number: u64,
    lines: Lines,
    /// Lane and slot.
    seat: Option<(u16, u32)>,
}

impl Guest {
    /// Serves a connection in a thread of its own, or says why not.
    pub(super) fn take_in(shared: &Arc<Shared>, stream: UnixStream, number: u64) {
        if stream.set_write_timeout(Some(ANSWER_TIMEOUT)).is_err() {
            return;
        }
        let Ok(ours) = stream.try_clone() else { return };
        let mut lines = Lines::new(stream);
        {
            let mut guests = lock(&shared.guests);
            if guests.len() == CONNECTIONS_MAX {
                drop(guests);
                shared.let_leave();
                guests = lock(&shared.guests);
            }
            if guests.len() == CONNECTIONS_MAX {
                drop(guests);
                let full = format!(
                    "{CONNECTIONS_MAX} clients are connected to this node, as many as it takes: end one"
                );
                let _ = lines.send(&Answer::Error(full), &[]);
                return;
            }
            guests.insert(number, ours);
        }
        let guest = Guest { shared: shared.clone(), number, lines, seat: None };
        // Where there is no thread to be had, the guest is dropped, and with it the connection.
        let _ = thread::Builder::new().name("kv-client".into()).spawn(move || guest.serve());
    }

    fn serve(mut self) {
        // Answers that the application does not take, and the end of the connection, end it.
        while self.serve_one().is_ok_and(|goes_on| goes_on) {}
    }

    fn serve_one(&mut self) -> Result<bool, PassingError> {
        let line = match self.lines.line() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(false),
            Err(error @ PassingError::Line(_)) => {
                // Where its end is, nobody knows: nothing can follow.
                self.lines.send(&Answer::Error(error.to_string()), &[])?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let answer = match decode(&line) {
            Ok(Request::Attach { lane, tuples, name }) => match self.attach(lane, tuples, &name) {
                Ok((store, seat)) => {
                    let backend = &self.shared.backend;
                    let (vectors, nodes) = (backend.vectors(lane), backend.nodes());
                    let answer = Answer::Attached { slot: seat.slot, tuples, nodes };
                    let files = [store.file(), seat.ring.as_fd()].into_iter();
                    let files: Vec<_> = files.chain(vectors.as_ref().map(|vectors| vectors.file())).collect();
                    self.lines.send(&answer, &files)?;
                    return Ok(true);
                }
                Err(reason) => Answer::Error(reason),
            },
            Ok(Request::Status {}) => Answer::Status(self.shared.backend.status()),
            Ok(Request::Read { lane, key, freshness }) => {
                self.read(lane, &key, Time(freshness)).unwrap_or_else(Answer::Error)
            }
            Ok(Request::Vector { lane, key, freshness }) => {
                self.vector(lane, &key, Time(freshness)).unwrap_or_else(Answer::Error)
            }
            Ok(Request::Write { lane, key, content, publishing }) => {
                let written = self.write(lane, &key, &content, publishing);
                written.map_or_else(Answer::Error, |()| Answer::Written {})
            }
            Err(error) => Answer::Error(error.to_string()),
        };
        match self.lines.send(&answer, &[]) {
            Err(PassingError::Line(error)) => self.lines.send(&Answer::Error(error.to_string()), &[])?,
            sent => sent?,
        }
        Ok(true)
    }

    fn attach(&mut self, lane: u16, tuples: usize, name: &str) -> Result<(Arc<Store>, Seat), String> {
        if self.seat.is_some() {
            return Err("this connection has attached already: open another one for another lane".to_owned());
        }
        if name.len() > CLIENT_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(format!(
                "`name` must have at most {CLIENT_NAME_BYTES_MAX} bytes and no control characters"
            ));
        }
        let store = self.store(lane)?;
        let attach = || self.shared.backend.attach(lane, tuples, name);
        let seat = attach().or_else(|reason| if self.shared.let_leave() { attach() } else { Err(reason) })?;
        self.seat = Some((lane, seat.slot));
        Ok((store, seat))
    }

    fn read(&self, lane: u16, name: &str, freshness: Time) -> Result<Answer, String> {
        let (store, key) = self.key(lane, name)?;
        let mut value = vec![0; store.facts().value_bytes_max];
        let found = store.read(key, freshness, crate::clock::now(), &mut value);
        let found = found.map_err(|error| format!("key `{name}`: {error}"))?;
        let format = store.terms(key).unwrap_or_default().format;
        Ok(Answer::value(found.stamp.0, &value[..found.len], format))
    }

    fn vector(&self, lane: u16, name: &str, freshness: Time) -> Result<Answer, String> {
        let (store, key) = self.key(lane, name)?;
        let vectors = self
            .shared
            .backend
            .vectors(lane)
            .ok_or("this lane keeps no vectors: set `vectors` of its [[lane]]")?;
        let mut vector = vec![0; vectors.facts().value_bytes_max];
        let found = store.vector_in(&vectors, key, freshness, &mut vector);
        let found = found.map_err(|error| format!("key `{name}`: {error}"))?;
        let format = store.terms(key).unwrap_or_default().format;
        let nodes = self.shared.backend.nodes();
        let said = Said::of(&vector[..found.len])
            .filter_map(|(node, value)| Some((nodes.get(node.index())?.clone(), Plain::of(value, format))));
        Ok(Answer::Vector { stamp: found.stamp.0, said: said.collect() })
    }

    fn write(&self, lane: u16, name: &str, content: &Content, publishing: u64) -> Result<(), String> {
        let (store, key) = self.key(lane, name)?;
        let format = store.terms(key).unwrap_or_default().format;
        let value = content.to_bytes(format).map_err(|error| format!("key `{name}`: {error}"))?;
        let written = self.shared.write(lane, &store, key, &value, publishing);
        written.map_err(|error| format!("key `{name}`: {error}"))
    }

    fn store(&self, lane: u16) -> Result<Arc<Store>, String> {
        let store = self.shared.backend.store(lane);
        store.ok_or_else(|| {
            format!("`lane = {lane}`: this node has no such lane; its status lists those it has")
        })
    }

    fn key(&self, lane: u16, name: &str) -> Result<(Arc<Store>, KeyId), String> {
        let store = self.store(lane)?;
        let key = store.key(name);
        let key =
            key.ok_or_else(|| format!("key `{name}` is not configured: add it to `keys` on all nodes"))?;
        Ok((store, key))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some((lane, slot)) = self.seat.take() {
            self.shared.backend.detach(lane, slot);
        }
        // Only now may another one take the place.
        lock(&self.shared.guests).remove(&self.number);
        self.shared.gone.notify_all();
    }
}
