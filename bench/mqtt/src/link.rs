//! One connection to the broker.

use crate::packet::{self, CONNACK, DISCONNECT, Packet, SUBACK, Version};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Read and written without waiting, once it is set up.
pub struct Link {
    /// Not waiting.
    pub socket: TcpStream,
    /// What is spoken.
    pub version: Version,
    /// What is to be written, and how much of it has been.
    pub output: Vec<u8>,
    written: usize,
    /// Whether the poller says when it can be written.
    pub watched: bool,
    input: Box<[u8]>,
    filled: usize,
}

/// Far above one packet, so that one read takes many.
const INPUT_BYTES: usize = 64 * 1024;
/// How long the broker may take to let a client in.
const PATIENCE: Duration = Duration::from_secs(10);

impl Link {
    /// Connects, subscribes to the filter if there is one, and returns when the broker has agreed.
    pub fn open(port: u16, version: Version, client: &str, filter: Option<(&str, u8)>) -> io::Result<Link> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(&packet::connect(version, client))?;
        answer(&mut socket, CONNACK, "CONNECT")?;
        if let Some((filter, qos)) = filter {
            socket.write_all(&packet::subscribe(version, filter, qos))?;
            answer(&mut socket, SUBACK, "SUBSCRIBE")?;
        }
        socket.set_nonblocking(true)?;
        let input = vec![0; INPUT_BYTES].into_boxed_slice();
        Ok(Link { socket, version, output: Vec::new(), written: 0, watched: false, input, filled: 0 })
    }

    /// Reads once and hands over what is complete, with room for answers. Whether there may be more.
    pub fn receive(&mut self, mut take: impl FnMut(Packet<'_>, &mut Vec<u8>)) -> io::Result<bool> {
        let length = match self.socket.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(io::Error::new(ErrorKind::ConnectionAborted, "it closed a connection")),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.filled += length;
        let full = self.filled == self.input.len();
        let mut at = 0;
        while let Some((packet, length)) = Packet::cut(&self.input[at..self.filled]) {
            if packet.kind() == DISCONNECT {
                return Err(refusal("the connection was ended", packet.code()));
            }
            take(packet, &mut self.output);
            at += length;
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(full)
    }

    /// Writes what the kernel takes; whether that was everything.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(true)
    }

    /// What waits to be written.
    pub fn waiting(&self) -> usize {
        self.output.len() - self.written
    }
}

fn refusal(what: &str, code: u8) -> io::Error {
    io::Error::new(ErrorKind::ConnectionRefused, format!("{what} with code {code:#04x}"))
}

/// Reads one packet, which must be the answer.
fn answer(socket: &mut TcpStream, kind: u8, to: &str) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        if let Some((packet, _)) = Packet::cut(&bytes) {
            let agreed =
                packet.kind() == kind && packet.code() < 128 && (kind != CONNACK || packet.code() == 0);
            return if agreed { Ok(()) } else { Err(refusal(&format!("{to} was refused"), packet.code())) };
        }
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
}
