//! What lies between the bytes of a node and those of a socket: TLS, WebSocket, or both.

use crate::troubles::Cause;
use crate::websocket::{self, Closing, WebSocket};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsFd;
use wire::Outbox;

/// The layers of one connection.
pub(crate) struct Layers {
    tls: Option<Connection>,
    websocket: Option<WebSocket>,
    /// What came with the request for a WebSocket.
    early: Vec<u8>,
    /// Bytes for the socket.
    sealed: Vec<u8>,
    sent: usize,
    /// The code of the last frame, once the peer or we close.
    close_code: Option<u16>,
    farewell_said: bool,
}

/// What a read has brought.
pub(crate) struct Came {
    /// Bytes for the node.
    pub(crate) bytes: usize,
    /// How it ends after them, if it does.
    pub(crate) end: Option<End>,
}

/// How a connection ends.
pub(crate) enum End {
    /// The peer has closed.
    Closed,
    /// The peer broke a rule.
    Broken(Cause, String),
}

/// Ciphertext read at once. With what was there before, its plaintext fits into what a node is given at once.
pub(crate) const READ_BYTES: usize = 40 << 10;
/// No more is made ready for the socket beforehand: what waits should wait where it can still be given up.
const SEALED_BYTES: usize = 64 << 10;
/// Bytes of one record, less the head of a frame.
const RECORD_BYTES: usize = 16_384 - websocket::HEAD_BYTES_MAX;
/// Bytes of one WebSocket frame where there are no records.
const FRAME_BYTES: usize = SEALED_BYTES;
/// "Normal": what a WebSocket is told when we close.
const NORMAL: u16 = 1000;

impl Layers {
    /// A connection whose handshakes are done. `sealed` has still to leave.
    pub(crate) fn new(
        tls: Option<Connection>,
        websocket: Option<WebSocket>,
        early: Vec<u8>,
        sealed: Vec<u8>,
    ) -> Layers {
        Layers { tls, websocket, early, sealed, sent: 0, close_code: None, farewell_said: false }
    }

    /// Reads from the socket once, at most so many bytes, and puts what is for the node into `room`: of a record of TLS, all that it
    /// has. `scratch` is for ciphertext.
    pub(crate) fn read(
        &mut self,
        socket: impl AsFd,
        most: usize,
        room: &mut [u8],
        scratch: &mut [u8],
    ) -> Came {
        let mut bytes = 0;
        let end = if self.early.is_empty() {
            self.receive(socket, most, room, scratch, &mut bytes)
        } else {
            // What the socket has meanwhile comes with the next read.
            bytes = self.early.len().min(room.len());
            room[..bytes].copy_from_slice(&self.early[..bytes]);
            self.early = Vec::new();
            self.decrypt(&[], room, &mut bytes)
        };
        let mut came = Came { bytes, end };
        self.unwrap_frames(&mut came, room);
        came
    }

    fn receive(
        &mut self,
        socket: impl AsFd,
        most: usize,
        room: &mut [u8],
        scratch: &mut [u8],
        bytes: &mut usize,
    ) -> Option<End> {
        if self.tls.is_none() {
            let most = room.len().min(most);
            return match net::recv(socket, &mut room[..most], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => Some(End::Closed),
                Ok((_, read)) => {
                    *bytes = read;
                    None
                }
                Err(Errno::AGAIN | Errno::INTR) => None,
                Err(_) => Some(End::Closed),
            };
        }
        let most = scratch.len().min(READ_BYTES).min(most);
        let (read, closed) = match net::recv(socket, &mut scratch[..most], RecvFlags::DONTWAIT) {
            Ok((_, read)) => (read, read == 0),
            Err(Errno::AGAIN | Errno::INTR) => (0, false),
            Err(_) => (0, true),
        };
        let end = self.decrypt(&scratch[..read], room, bytes);
        end.or(closed.then_some(End::Closed))
    }

    fn unwrap_frames(&mut self, came: &mut Came, room: &mut [u8]) {
        let Some(websocket) = &mut self.websocket else { return };
        let (carried, closing) = websocket.decode(&mut room[..came.bytes]);
        came.bytes = carried;
        let (code, end) = match closing {
            Some(Closing::Asked(code)) => (code, End::Closed),
            Some(Closing::Broken(code, what)) => (code, End::Broken(Cause::WebSocketBroken, what.to_owned())),
            None => return,
        };
        self.close_code = Some(code);
        came.end = Some(end);
    }

    fn decrypt(&mut self, mut sealed: &[u8], room: &mut [u8], bytes: &mut usize) -> Option<End> {
        let tls = self.tls.as_mut()?;
        loop {
            // First what is there from before.
            while *bytes < room.len() {
                match tls.reader().read(&mut room[*bytes..]) {
                    Ok(0) => return Some(End::Closed),
                    Ok(read) => *bytes += read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return Some(End::Closed),
                }
            }
            if sealed.is_empty() {
                return None;
            }
            if let Err(error) = feed(tls, &mut sealed) {
                let (cause, text) = crate::tls::explain(&error);
                return Some(End::Broken(cause, text));
            }
        }
    }

    /// Whether reading has made something to send.
    pub(crate) fn wants_to_send(&self) -> bool {
        let answers = self.websocket.as_ref().is_some_and(WebSocket::wants_to_answer);
        answers || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Makes bytes of the outbox ready for the socket, as many as should wait there.
    pub(crate) fn seal(&mut self, outbox: &mut Outbox) {
        if self.farewell_said {
            // Nothing may follow, and the node will hear of it.
            outbox.consume(outbox.len());
        }
        if let Some(websocket) = &mut self.websocket {
            let (tls, sealed) = (&mut self.tls, &mut self.sealed);
            websocket.answer(|head, said| put(tls, sealed, head, said));
        }
        while self.len() < SEALED_BYTES && !outbox.is_empty() {
            let most = if self.tls.is_some() { RECORD_BYTES } else { FRAME_BYTES };
            let unsent = outbox.unsent();
            let part = &unsent[..unsent.len().min(most)];
            let length = part.len();
            let (tls, sealed) = (&mut self.tls, &mut self.sealed);
            if self.websocket.is_some() {
                websocket::with_data_head(length, |head| put(tls, sealed, head, part));
            } else {
                put(tls, sealed, &[], part);
            }
            outbox.consume(length);
        }
        self.take_records();
    }

    /// Says that nothing more will come, once.
    pub(crate) fn say_farewell(&mut self) {
        if std::mem::replace(&mut self.farewell_said, true) {
            return;
        }
        if self.websocket.is_some() {
            let frame = websocket::closing_frame(self.close_code.unwrap_or(NORMAL));
            put(&mut self.tls, &mut self.sealed, &frame, &[]);
        }
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        self.take_records();
    }

    /// Ciphertext that the library has made.
    fn take_records(&mut self) {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                // Writing to memory cannot fail.
                let _ = tls.write_tls(&mut self.sealed);
            }
        }
    }

    /// What is ready for the socket.
    pub(crate) fn ready(&self) -> &[u8] {
        self.sealed.get(self.sent..).unwrap_or(&[])
    }

    /// The first bytes of it have left.
    pub(crate) fn consume(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.sealed.len() {
            self.sealed.clear();
            self.sent = 0;
        }
    }

    /// The socket takes nothing any more.
    pub(crate) fn give_up(&mut self) {
        self.sealed = Vec::new();
        self.sent = 0;
        self.farewell_said = true;
    }

    /// How many bytes are ready for the socket.
    pub(crate) fn len(&self) -> usize {
        self.sealed.len() - self.sent
    }
}

/// Gives the library some ciphertext.
pub(crate) fn feed(tls: &mut Connection, sealed: &mut &[u8]) -> Result<(), rustls::Error> {
    match tls.read_tls(sealed) {
        Ok(_) => tls.process_new_packets().map(drop),
        Err(error) => Err(rustls::Error::General(error.to_string())),
    }
}

/// Appends bytes for the socket, in one record where there are records.
fn put(tls: &mut Option<Connection>, sealed: &mut Vec<u8>, head: &[u8], rest: &[u8]) {
    match tls {
        Some(tls) => {
            let written = tls.writer().write_vectored(&[IoSlice::new(head), IoSlice::new(rest)]);
            debug_assert!(written.is_ok_and(|n| n == head.len() + rest.len()), "the library has no limit");
            while tls.wants_write() {
                let _ = tls.write_tls(sealed);
            }
        }
        None => {
            sealed.extend_from_slice(head);
            sealed.extend_from_slice(rest);
        }
    }
}
