//! MQTT 3.1.1 with QoS 0.

use super::{Peer, Publisher, Route, Subscriber, Taker};
use crate::socket::{PATIENCE, Reader, write_out};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use verge_bench_mqtt::packet::{self, CONNACK, DISCONNECT, PUBLISH, Packet, SUBACK, Template, Version};

/// Where it listens, on this host.
pub struct Broker(pub u16);

const VERSION: Version = Version(4);

impl Peer for Broker {
    fn publish(&self, route: &Route<'_>) -> io::Result<Box<dyn Publisher>> {
        let socket = self.open(route, &[])?;
        let template = |topic: &super::Topic| Template::new(VERSION, &topic.name, 0, route.bytes);
        let templates = route.topics.iter().map(template).collect();
        Ok(Box::new(Connection { socket, output: Vec::new(), templates }))
    }

    fn subscribe(&self, route: &Route<'_>, mut take: Taker) -> io::Result<Box<dyn Subscriber>> {
        let socket = self.open(route, route.filters)?;
        let cut = move |bytes: &[u8]| {
            let mut at = 0;
            while let Some((packet, length)) = Packet::cut(&bytes[at..]) {
                at += length;
                match packet.kind() {
                    PUBLISH => {
                        if let Some((_, payload)) = packet.published(VERSION) {
                            take(payload);
                        }
                    }
                    DISCONNECT => return Err(io::Error::other("it was ended by the broker")),
                    _ => {}
                }
            }
            Ok(at)
        };
        Ok(Box::new(Reader::start(&socket, route.name, cut)?))
    }
}

impl Broker {
    fn open(&self, route: &Route<'_>, filters: &[String]) -> io::Result<TcpStream> {
        let mut socket = crate::socket::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.0)))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(&packet::connect(VERSION, route.name))?;
        agreed(&mut socket, CONNACK)?;
        for filter in filters {
            socket.write_all(&packet::subscribe(VERSION, filter, 0))?;
            agreed(&mut socket, SUBACK)?;
        }
        socket.set_read_timeout(None)?;
        Ok(socket)
    }
}

/// Reads one packet, which must be this answer.
fn agreed(socket: &mut TcpStream, kind: u8) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        if let Some((packet, _)) = Packet::cut(&bytes) {
            let good = packet.kind() == kind && packet.code() == 0;
            let refused = || io::Error::new(ErrorKind::ConnectionRefused, "it refused a client or a filter");
            return if good { Ok(()) } else { Err(refused()) };
        }
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
}

struct Connection {
    socket: TcpStream,
    output: Vec<u8>,
    templates: Vec<Template>,
}

impl Publisher for Connection {
    fn put(&mut self, topic: usize, payload: &[u8]) {
        self.templates[topic].put_payload(payload, &mut self.output);
    }

    fn send(&mut self) -> io::Result<()> {
        write_out(&mut self.socket, &mut self.output)
    }
}
