//! What the bare relay understands: a greeting, and then lengths and bytes that only the ends look at.

use super::{Peer, Publisher, Route, Subscriber, Taker};
use crate::relay::{AGREED, greeting};
use crate::socket::{Reader, connect, write_out};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Where it listens.
pub struct Floor(pub SocketAddr);

impl Peer for Floor {
    fn publish(&self, route: &Route<'_>) -> io::Result<Box<dyn Publisher>> {
        Ok(Box::new(Connection { socket: self.open(true, route.channel)?, output: Vec::new() }))
    }

    fn subscribe(&self, route: &Route<'_>, mut take: Taker) -> io::Result<Box<dyn Subscriber>> {
        let socket = self.open(false, route.channel)?;
        let cut = move |bytes: &[u8]| {
            let mut at = 0;
            while let Some(head) = bytes[at..].first_chunk::<4>() {
                let length = u32::from_le_bytes(*head) as usize;
                let Some(payload) = bytes.get(at + 4..at + 4 + length) else { break };
                take(payload);
                at += 4 + length;
            }
            Ok(at)
        };
        Ok(Box::new(Reader::start(&socket, route.name, cut)?))
    }
}

impl Floor {
    fn open(&self, publishes: bool, channel: &str) -> io::Result<TcpStream> {
        let mut socket = connect(self.0)?;
        socket.write_all(&greeting(publishes, channel)?)?;
        let mut answer = [0];
        socket.read_exact(&mut answer)?;
        if answer[0] == AGREED { Ok(socket) } else { Err(io::Error::other("this is no relay")) }
    }
}

struct Connection {
    socket: TcpStream,
    output: Vec<u8>,
}

impl Publisher for Connection {
    fn put(&mut self, _topic: usize, payload: &[u8]) {
        self.output.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.output.extend_from_slice(payload);
    }

    fn send(&mut self) -> io::Result<()> {
        write_out(&mut self.socket, &mut self.output)
    }
}
