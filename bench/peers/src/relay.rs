//! The floor: one thread, one epoll, no look at what is carried. What comes from a publisher is written to the subscribers of its
//! channel; a publisher is not read while one of them has not taken what came before.
//!
//! With a [`Keeper`] for each channel it is the floor of what keeps messages and serves them by deadline.

use crate::keeper::Keeper;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// The answer to a greeting.
pub const AGREED: u8 = b'K';
const PUBLISHES: u8 = b'P';
const SUBSCRIBES: u8 = b'S';
/// Sign, length of the name, name.
const GREETING_BYTES: usize = 2 + NAME_BYTES_MAX;
const NAME_BYTES_MAX: usize = 32;
/// One read.
const PORTION_BYTES: usize = 64 * 1024;
const CONNECTIONS_MAX: usize = 1024;
const LISTENER: u64 = u64::MAX;

/// What a connection begins with.
pub fn greeting(publishes: bool, channel: &str) -> io::Result<Vec<u8>> {
    if channel.len() > NAME_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the name of the channel is too long"));
    }
    let mut bytes = vec![if publishes { PUBLISHES } else { SUBSCRIBES }, channel.len() as u8];
    bytes.extend_from_slice(channel.as_bytes());
    Ok(bytes)
}

struct Connection {
    socket: TcpStream,
    /// Until the greeting is complete.
    greeting: Option<Vec<u8>>,
    publishes: bool,
    channel: usize,
    /// What the subscriber has not taken.
    pending: Vec<u8>,
    written: usize,
}

struct Relay {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    channels: Vec<String>,
    portion: Vec<u8>,
    /// One for each channel, where messages are kept.
    keepers: Option<Vec<Keeper>>,
}

/// Never returns, unless something fails.
pub fn run(listen: SocketAddr, keep: bool) -> io::Result<()> {
    serve(TcpListener::bind(listen)?, keep)
}

fn serve(listener: TcpListener, keep: bool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut relay = Relay {
        epoll,
        listener,
        connections: Vec::new(),
        channels: Vec::new(),
        portion: vec![0; PORTION_BYTES],
        keepers: keep.then(Vec::new),
    };
    let mut room = [MaybeUninit::<epoll::Event>::uninit(); 64];
    loop {
        let events = match epoll::wait(&relay.epoll, &mut room, None) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for event in events {
            // The kernel's structure is packed: its fields are copied.
            let (flags, data) = (event.flags, event.data);
            match data.u64() {
                LISTENER => relay.accept()?,
                index => relay.serve(index as usize, flags)?,
            }
        }
    }
}

impl Relay {
    fn accept(&mut self) -> io::Result<()> {
        let socket = match self.listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(io::Error::other("too many connections for a floor"));
        }
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let index = self.connections.len();
        epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN)?;
        self.connections.push(Some(Connection {
            socket,
            greeting: Some(Vec::new()),
            publishes: false,
            channel: 0,
            pending: Vec::new(),
            written: 0,
        }));
        Ok(())
    }

    fn serve(&mut self, index: usize, flags: EventFlags) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return Ok(());
        };
        let done = if connection.greeting.is_some() {
            self.greet(index)
        } else if connection.publishes {
            self.hand_on(index)
        } else if flags.contains(EventFlags::OUT) {
            self.catch_up(index)
        } else {
            // Subscribers say nothing; if they do, it is that they end.
            Err(ErrorKind::ConnectionAborted.into())
        };
        match done {
            Err(error) if error.kind() != ErrorKind::WouldBlock => self.end(index),
            _ => Ok(()),
        }
    }

    /// Reads one byte at a time, so that nothing of what follows is taken.
    fn greet(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        let Some(bytes) = connection.greeting.as_mut() else { return Ok(()) };
        loop {
            let mut byte = [0];
            if connection.socket.read(&mut byte)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            bytes.push(byte[0]);
            let whole = bytes.get(1).is_some_and(|length| bytes.len() == 2 + usize::from(*length));
            if !whole && bytes.len() < GREETING_BYTES {
                continue;
            }
            connection.publishes = bytes[0] == PUBLISHES;
            let name = String::from_utf8_lossy(&bytes[2..]).into_owned();
            let known = self.channels.iter().position(|channel| *channel == name);
            connection.channel = known.unwrap_or(self.channels.len());
            if known.is_none() {
                self.channels.push(name);
                self.keepers.iter_mut().for_each(|keepers| keepers.push(Keeper::default()));
            }
            connection.greeting = None;
            return connection.socket.write_all(&[AGREED]);
        }
    }

    /// One portion from a publisher to its subscribers.
    fn hand_on(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        let read = connection.socket.read(&mut self.portion)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let channel = connection.channel;
        let bytes = match &mut self.keepers {
            Some(keepers) => keepers[channel].pass(&self.portion[..read])?,
            None => &self.portion[..read],
        };
        let mut waits = false;
        for (number, other) in self.connections.iter_mut().enumerate() {
            let subscribes = |other: &&mut Connection| {
                !other.publishes && other.greeting.is_none() && other.channel == channel
            };
            let Some(other) = other.as_mut().filter(subscribes) else { continue };
            let taken = match other.socket.write(bytes) {
                Ok(taken) => taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                // Its own event ends it.
                Err(_) => bytes.len(),
            };
            if taken < bytes.len() {
                other.pending.extend_from_slice(&bytes[taken..]);
                let flags = EventFlags::IN | EventFlags::OUT;
                epoll::modify(&self.epoll, &other.socket, EventData::new_u64(number as u64), flags)?;
                waits = true;
            }
        }
        if waits { self.read_publishers(channel, false) } else { Ok(()) }
    }

    /// More of what a subscriber has not taken; when nobody waits any more, its publishers are read again.
    fn catch_up(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        while connection.written < connection.pending.len() {
            connection.written += connection.socket.write(&connection.pending[connection.written..])?;
        }
        connection.pending.clear();
        connection.written = 0;
        let channel = connection.channel;
        epoll::modify(&self.epoll, &connection.socket, EventData::new_u64(index as u64), EventFlags::IN)?;
        self.resume(channel)
    }

    fn resume(&mut self, channel: usize) -> io::Result<()> {
        let waits = |other: &Connection| other.channel == channel && !other.pending.is_empty();
        if self.connections.iter().flatten().any(waits) {
            Ok(())
        } else {
            self.read_publishers(channel, true)
        }
    }

    fn read_publishers(&self, channel: usize, read: bool) -> io::Result<()> {
        let flags = if read { EventFlags::IN } else { EventFlags::empty() };
        for (index, other) in self.connections.iter().enumerate() {
            let publishes =
                |other: &&Connection| other.publishes && other.greeting.is_none() && other.channel == channel;
            if let Some(other) = other.as_ref().filter(publishes) {
                epoll::modify(&self.epoll, &other.socket, EventData::new_u64(index as u64), flags)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, index: usize) -> io::Result<()> {
        match self.connections[index].take() {
            Some(ended) if ended.greeting.is_none() && !ended.publishes => self.resume(ended.channel),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Accounts, Class, Head};
    use crate::arguments::{Common, Protocol};
    use crate::links::{self, Route};

    const MESSAGES: u32 = 20_000;
    const BYTES: usize = 1000;
    /// Messages after each of which the slow one rests, so that what waits for it fills every buffer.
    const REST_AFTER: u64 = 1000;

    #[test]
    fn nothing_is_lost_or_torn_when_one_of_two_subscribers_is_slow() {
        [false, true].into_iter().for_each(nothing_is_lost_or_torn);
    }

    fn nothing_is_lost_or_torn(keep: bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let broker = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || serve(listener, keep));
        let bytes = BYTES as u32;
        let protocol = Protocol::Relay;
        let common = Common { protocol, broker, pid: 0, bytes, warm_up: 0.0, seconds: 0.0, awake: false };
        let peer = links::peer(&common).unwrap();
        let topics = links::bulk("bulk", 1);
        let route = |name, channel| Route { name, channel, topics: &topics, filters: &[], bytes: BYTES };
        let (accounts, strangers) = (Accounts::default(), Accounts::default());
        let class = Class { topics: 1, deadline_ns: u64::MAX, group: 0 };
        let open = |to: &Accounts| links::keep(to.open(BYTES, &[class], (0, u64::MAX)), false);
        let (mut slow, mut heard) = (open(&accounts), 0);
        let slowly = Box::new(move |payload: &[u8]| {
            heard += 1;
            if heard % REST_AFTER == 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            slow(payload);
        });
        let subscribers = [
            peer.subscribe(&route("quick", "here"), open(&accounts)).unwrap(),
            peer.subscribe(&route("slow", "here"), slowly).unwrap(),
            peer.subscribe(&route("stranger", "elsewhere"), open(&strangers)).unwrap(),
        ];
        let mut publisher = peer.publish(&route("publisher", "here")).unwrap();
        let mut payload = [0; BYTES];
        for seq in 0..MESSAGES {
            Head { due_ns: 1, topic: 0, seq }.put(&mut payload);
            publisher.put(0, &payload);
            publisher.send().unwrap();
        }
        let watchdog = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while accounts.count() < 2 * u64::from(MESSAGES) && std::time::Instant::now() < watchdog {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        drop(subscribers);
        let ended = accounts.collect();
        assert!(ended.iter().all(|one| one.received == u64::from(MESSAGES)));
        assert!(ended.iter().all(|one| (one.strange, one.longest_run(0, MESSAGES)) == (0, 0)));
        assert_eq!(strangers.count(), 0);
    }
}
