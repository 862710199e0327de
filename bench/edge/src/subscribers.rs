//! Subscribers of all kinds in one thread, which is more urgent than the broker: what they see is when a message has come to this host's
//! sockets, and not when one of a thousand threads had its turn.

use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use verge_bench_mqtt::packet::{self, CONNACK, PUBLISH, Packet, SUBACK, Version, time_of};
use verge_bench_mqtt::poller::{Poller, now_ns};
use wire::limits::CLIENT_POLL;
use wire::{Frame, Hello, Knows, Secret, Standing};

const V5: Version = Version(5);
const PATIENCE: Duration = Duration::from_secs(20);
const ROOM: usize = 256 << 10;
/// All topics that carry the contract.
pub const FILTER: &str = "edge/t/#";

/// What came.
#[derive(Default)]
pub struct Seen {
    /// How long each message took, in nanoseconds.
    pub latencies: Vec<u64>,
}

/// One connection.
pub struct Subscriber {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    mqtt: bool,
    came: Vec<u8>,
    poll_at: u64,
    polls: u64,
}

fn strange(what: impl std::fmt::Display) -> io::Error {
    io::Error::other(what.to_string())
}

impl Subscriber {
    /// Connects and subscribes everything.
    pub fn open(
        number: usize,
        address: SocketAddr,
        tls: Option<&Arc<ClientConfig>>,
        mqtt: bool,
    ) -> io::Result<Subscriber> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let tls = match tls {
            Some(config) => {
                let name = "127.0.0.1".try_into().map_err(strange)?;
                Some(Box::new(ClientConnection::new(Arc::clone(config), name).map_err(strange)?))
            }
            None => None,
        };
        // Polls of many clients are spread, as clients are that came at times of their own.
        let spread = number as u64 * 7_919_000 % CLIENT_POLL.0 as u64;
        let poll_at = now_ns() + spread;
        let mut subscriber = Subscriber { socket, tls, mqtt, came: Vec::new(), poll_at, polls: 0 };
        let name = format!("edge-{number}");
        if mqtt {
            subscriber.write(&packet::connect(V5, &name))?;
            subscriber.wait_for(|bytes| answered(bytes, CONNACK))?;
            subscriber.write(&packet::subscribe(V5, FILTER, 0))?;
            subscriber.wait_for(|bytes| answered(bytes, SUBACK))?;
        } else {
            let mut bytes = Vec::new();
            Frame::Hello(Hello {
                standing: Standing::Orphaned,
                prefers_to_reign: false,
                reign: Default::default(),
                node: Default::default(),
                incarnation: now_ns(),
                name: &name,
                user: "",
                password: Secret(""),
                knows: Knows::NOTHING,
            })
            .encode(&mut bytes);
            Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: FILTER }.encode(&mut bytes);
            subscriber.write(&bytes)?;
            subscriber.wait_for(|bytes| {
                let mut at = 0;
                while let Ok(wire::Decoded::Frame(frame, used)) = wire::decode(&bytes[at..]) {
                    at += used;
                    match frame {
                        Frame::Subscribed { admitted: true, .. } => return Ok(Some(at)),
                        Frame::Subscribed { text, .. } => return Err(strange(text)),
                        Frame::Farewell(farewell) => return Err(strange(farewell.text)),
                        _ => {}
                    }
                }
                Ok(None)
            })?;
        }
        Ok(subscriber)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let sent = send(&self.socket, rest, SendFlags::empty())?;
                    rest = &rest[sent..];
                }
            }
            Some(tls) => {
                tls.writer().write_all(bytes)?;
                while tls.wants_write() {
                    tls.write_tls(&mut self.socket)?;
                }
            }
        }
        Ok(())
    }

    /// Reads once.
    fn read(&mut self, room: &mut [u8], flags: RecvFlags) -> io::Result<()> {
        let read = match recv(&self.socket, &mut *room, flags) {
            Ok((_, 0)) => return Err(strange("the broker has closed a connection")),
            Ok((_, read)) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) if flags == RecvFlags::DONTWAIT => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        match &mut self.tls {
            None => self.came.extend_from_slice(&room[..read]),
            Some(tls) => {
                let mut sealed = &room[..read];
                while !sealed.is_empty() {
                    tls.read_tls(&mut sealed)?;
                    tls.process_new_packets().map_err(strange)?;
                    match tls.reader().read_to_end(&mut self.came) {
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                        _ => {}
                    }
                }
                while tls.wants_write() {
                    tls.write_tls(&mut self.socket)?;
                }
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, mut found: impl FnMut(&[u8]) -> io::Result<Option<usize>>) -> io::Result<()> {
        let mut room = vec![0; ROOM];
        loop {
            if let Some(used) = found(&self.came)? {
                self.came.drain(..used);
                return Ok(());
            }
            self.read(&mut room, RecvFlags::empty())?;
        }
    }

    /// Takes what has come.
    fn take(&mut self, now: u64, from: u64, seen: &mut Seen) {
        let mut note = |payload: &[u8]| {
            if let Some(sent) = time_of(payload).filter(|sent| *sent >= from) {
                seen.latencies.push(now.saturating_sub(sent));
            }
        };
        let mut at = 0;
        if self.mqtt {
            while let Some((packet, used)) = Packet::cut(&self.came[at..]) {
                if packet.kind() == PUBLISH
                    && let Some((_, payload)) = packet.published(V5)
                {
                    note(payload);
                }
                at += used;
            }
        } else {
            while let Ok(wire::Decoded::Frame(frame, used)) = wire::decode(&self.came[at..]) {
                if let Frame::Deliver(messages) = frame {
                    messages.for_each(|message| note(message.payload));
                }
                at += used;
            }
        }
        self.came.drain(..at);
    }

    fn poll(&mut self, now: u64) -> io::Result<()> {
        if self.mqtt || now < self.poll_at {
            return Ok(());
        }
        self.poll_at = now + CLIENT_POLL.0 as u64;
        self.polls += 1;
        let mut bytes = Vec::new();
        Frame::Poll { number: self.polls }.encode(&mut bytes);
        self.write(&bytes)
    }
}

fn answered(bytes: &[u8], kind: u8) -> io::Result<Option<usize>> {
    match Packet::cut(bytes) {
        Some((packet, used)) if packet.kind() == kind && packet.code() < 128 => Ok(Some(used)),
        Some((packet, _)) => Err(strange(format!("refused with code {:#04x}", packet.code()))),
        None => Ok(None),
    }
}

/// Receives until told to stop, and notes messages that were sent from this time on.
pub fn receive(mut all: Vec<Subscriber>, from: u64, stop: &AtomicBool) -> io::Result<Seen> {
    let poller = Poller::new()?;
    for (index, subscriber) in all.iter().enumerate() {
        poller.add(&subscriber.socket, index)?;
    }
    let (mut seen, mut ready, mut room) = (Seen::default(), Vec::new(), vec![0; ROOM]);
    while !stop.load(Ordering::Relaxed) {
        poller.wait(now_ns() + 1_000_000, &mut ready)?;
        for one in &ready {
            let subscriber = &mut all[one.index];
            subscriber.read(&mut room, RecvFlags::DONTWAIT)?;
            let now = now_ns();
            subscriber.take(now, from, &mut seen);
        }
        let now = now_ns();
        for subscriber in &mut all {
            subscriber.poll(now)?;
        }
    }
    Ok(seen)
}
