//! Both brokers of a pair, as a client sees them, played by this program.
//!
//! What clients say is kept in the order in which it came. The usual is answered when it is heard: greetings, polls, requests for the clock,
//! farewells. Everything else is said by whoever tells the story.

use contract::{Contract, Epoch, NodeId, Reign, Time};
use crossbeam_channel::{Receiver, Sender, unbounded};
use host::now;
use node::Trouble;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::{Decoded, Farewell, FarewellReason, Frame, Hello, Knows, MessageFlags, Secret, Standing, decode};

/// The two brokers.
pub const A: usize = 0;
/// The same.
pub const B: usize = 1;
/// How they are called.
const NAMES: [&str; 2] = ["a", "b"];
/// Their nodes, apart from each other.
pub const NODES: [NodeId; 2] = [NodeId(11), NodeId(22)];
/// Bytes that are read at once.
const READ_BYTES: usize = 65_536;
/// The head of a frame.
const HEAD_BYTES: usize = 8;
/// `Deliver`.
const DELIVER: u8 = 0x21;
/// How often it is looked whether something has come about of which nothing is heard.
const LOOK: Duration = Duration::from_millis(20);
/// How often a listener looks whether it is to end.
const NAP: Duration = Duration::from_millis(5);

/// One message of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    pub broker: usize,
    pub stream: u32,
    pub flags: MessageFlags,
    pub seq: u64,
    pub created: Time,
    pub payload: Vec<u8>,
}

/// What a client said, without what it lent.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    Hello {
        standing: Standing,
        reign: Reign,
        incarnation: u64,
        name: String,
    },
    Register {
        stream: u32,
        incarnation: u64,
        contract: Option<Contract>,
        topic: String,
    },
    Unregister {
        stream: u32,
    },
    Subscribe {
        number: u32,
        filter: String,
    },
    Reign {
        reign: Reign,
        standing: Standing,
    },
    Message(Sent),
    Confirm {
        stream: u32,
        seq: u64,
    },
    Farewell {
        reason: u8,
    },
    Poll {
        number: u64,
    },
    ClockRequest {
        sent: Time,
    },
    /// It ended the connection, or what it said is no frame that a client may send.
    End {
        why: Option<String>,
    },
    /// Something else that it may say.
    Other,
}

/// Who said it, and when.
#[derive(Clone, PartialEq, Debug)]
pub struct Heard {
    pub broker: usize,
    /// The connection, counted from one.
    pub connection: u64,
    pub at: Instant,
    pub said: Said,
}

/// The brokers, and all that was heard.
pub struct Stage {
    pub heard: Vec<Heard>,
    pub reigns: [Reign; 2],
    pub standings: [Standing; 2],
    inbox: Receiver<(Heard, Option<TcpStream>)>,
    lives: [Option<(u64, TcpStream)>; 2],
    addresses: [SocketAddr; 2],
    /// Connections are closed at once.
    absent: [Arc<AtomicBool>; 2],
    ends: Arc<AtomicBool>,
    listeners: Vec<JoinHandle<()>>,
    /// Frames leave in single bytes.
    pub in_bytes: bool,
}

impl Stage {
    /// Both listen on this host. The first is primary.
    pub fn new() -> Result<Stage, Trouble> {
        let (sender, inbox) = unbounded();
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        let absent: [Arc<AtomicBool>; 2] = Default::default();
        let ends = Arc::new(AtomicBool::new(false));
        let numbers = Arc::new(AtomicU64::new(0));
        for broker in [A, B] {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            let (sender, absent) = (sender.clone(), Arc::clone(&absent[broker]));
            let (ends, numbers) = (Arc::clone(&ends), Arc::clone(&numbers));
            let accept = move || accept(broker, &listener, &sender, &absent, &ends, &numbers);
            listeners.push(std::thread::Builder::new().name("conform".to_owned()).spawn(accept)?);
        }
        Ok(Stage {
            heard: Vec::new(),
            reigns: [Reign { epoch: Epoch(1), node: NODES[A] }; 2],
            standings: [Standing::Primary, Standing::Backup],
            inbox,
            lives: [None, None],
            addresses: [addresses[A], addresses[B]],
            absent,
            ends,
            listeners,
            in_bytes: false,
        })
    }

    /// As clients are given them.
    pub fn addresses(&self) -> String {
        format!("{},{}", self.addresses[A], self.addresses[B])
    }

    /// Hears what clients say until this is there, or it has been waited for so long.
    pub fn wait<T>(&mut self, most: Duration, mut look: impl FnMut(&Stage) -> Option<T>) -> Option<T> {
        let until = Instant::now() + most;
        loop {
            if let Some(found) = look(self) {
                return Some(found);
            }
            let rest = until.checked_duration_since(Instant::now())?.min(LOOK);
            if let Ok((heard, stream)) = self.inbox.recv_timeout(rest) {
                self.take(heard, stream);
            }
        }
    }

    /// The same for so long, whatever comes.
    pub fn listen(&mut self, span: Duration) {
        self.wait(span, |_| None::<()>);
    }

    fn take(&mut self, heard: Heard, stream: Option<TcpStream>) {
        let broker = heard.broker;
        if let (Said::Hello { .. }, Some(stream)) = (&heard.said, stream) {
            // The last connection of a client counts.
            if let Some((_, before)) = self.lives[broker].replace((heard.connection, stream)) {
                let _ = before.shutdown(Shutdown::Both);
            }
            self.greet(broker);
        }
        let is_current = self.connection(broker) == Some(heard.connection);
        match &heard.said {
            Said::Poll { number } if is_current => self.send(broker, &Frame::PollReply { number: *number }),
            Said::ClockRequest { sent } if is_current => {
                self.send(broker, &Frame::ClockReply { sent: *sent, clock: now() });
            }
            Said::Farewell { .. } if is_current => {
                let reason = FarewellReason::Leaving;
                self.send(broker, &Frame::Farewell(Farewell { reason, text: "" }));
                self.hang_up(broker);
            }
            _ => {}
        }
        if matches!(heard.said, Said::End { .. })
            && self.lives[broker].as_ref().is_some_and(|(number, _)| *number == heard.connection)
        {
            self.lives[broker] = None;
        }
        self.heard.push(heard);
    }

    fn greet(&mut self, broker: usize) {
        let hello = Hello {
            standing: self.standings[broker],
            prefers_to_reign: broker == A,
            reign: self.reigns[broker],
            node: NODES[broker],
            incarnation: 1,
            name: NAMES[broker],
            user: "",
            password: Secret(""),
            knows: Knows::NOTHING,
        };
        self.send(broker, &Frame::Hello(hello));
    }

    /// Whether a client is connected there and has greeted.
    pub fn is_connected(&self, broker: usize) -> bool {
        self.lives[broker].is_some()
    }

    /// The number of that connection.
    pub fn connection(&self, broker: usize) -> Option<u64> {
        self.lives[broker].as_ref().map(|(number, _)| *number)
    }

    /// Says something to the client that is connected there, if one is.
    pub fn send(&mut self, broker: usize, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.write(broker, &bytes);
    }

    /// Delivers a message.
    pub fn deliver(&mut self, broker: usize, stream: u32, flags: MessageFlags, seq: u64, payload: &str) {
        let mut body = Vec::new();
        body.extend_from_slice(&stream.to_le_bytes());
        body.push(flags.0);
        body.extend_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
        body.extend_from_slice(&seq.to_le_bytes());
        body.extend_from_slice(&now().0.to_le_bytes());
        body.extend_from_slice(payload.as_bytes());
        let mut frame = vec![DELIVER, 0, 0, 0];
        frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
        frame.extend_from_slice(&body);
        debug_assert!(frame.len() > HEAD_BYTES);
        self.write(broker, &frame);
    }

    fn write(&mut self, broker: usize, bytes: &[u8]) {
        let Some((_, stream)) = &mut self.lives[broker] else { return };
        // A client that has gone is noticed by who reads.
        let pieces = if self.in_bytes { 1 } else { bytes.len() };
        for piece in bytes.chunks(pieces.max(1)) {
            let _ = stream.write_all(piece);
        }
    }

    /// A broker is something else from now on, and says so.
    pub fn stand(&mut self, broker: usize, standing: Standing, epoch: u64, node: NodeId) {
        let reign = Reign { epoch: Epoch(epoch), node };
        (self.standings[broker], self.reigns[broker]) = (standing, reign);
        self.send(broker, &Frame::Reign { reign, standing });
    }

    /// A broker dies: its connection breaks, and nobody gets one.
    pub fn die(&mut self, broker: usize) {
        self.absent[broker].store(true, Ordering::Relaxed);
        self.hang_up(broker);
    }

    /// It is there again.
    pub fn come_back(&mut self, broker: usize, standing: Standing, epoch: u64, node: NodeId) {
        (self.standings[broker], self.reigns[broker]) = (standing, Reign { epoch: Epoch(epoch), node });
        self.absent[broker].store(false, Ordering::Relaxed);
    }

    /// Its connection breaks.
    pub fn hang_up(&mut self, broker: usize) {
        if let Some((_, stream)) = self.lives[broker].take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// What one of them heard, from this place on.
    pub fn heard_by(&self, broker: usize, from: usize) -> impl Iterator<Item = &Said> {
        self.heard.iter().skip(from).filter(move |heard| heard.broker == broker).map(|heard| &heard.said)
    }

    /// The messages of all of that.
    pub fn messages(&self, broker: usize, from: usize) -> Vec<&Sent> {
        self.heard_by(broker, from)
            .filter_map(|said| match said {
                Said::Message(sent) => Some(sent),
                _ => None,
            })
            .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        [A, B].into_iter().for_each(|broker| self.hang_up(broker));
        for listener in self.listeners.drain(..) {
            // That it panicked has been printed.
            let _ = listener.join();
        }
    }
}

fn accept(
    broker: usize,
    listener: &TcpListener,
    sender: &Sender<(Heard, Option<TcpStream>)>,
    absent: &AtomicBool,
    ends: &AtomicBool,
    numbers: &AtomicU64,
) {
    let mut readers = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(NAP);
            continue;
        };
        if absent.load(Ordering::Relaxed) {
            continue;
        }
        let ready = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
        let Ok(ours) = ready.and_then(|()| stream.try_clone()) else { continue };
        let (sender, connection) = (sender.clone(), numbers.fetch_add(1, Ordering::Relaxed) + 1);
        let read = move || read(broker, connection, stream, &sender);
        match std::thread::Builder::new().name("conform".to_owned()).spawn(read) {
            Ok(reader) => readers.push((reader, ours)),
            Err(_) => drop(ours),
        }
    }
    for (reader, stream) in readers {
        let _ = stream.shutdown(Shutdown::Both);
        let _ = reader.join();
    }
}

/// Reads a connection to its end.
fn read(broker: usize, connection: u64, mut stream: TcpStream, sender: &Sender<(Heard, Option<TcpStream>)>) {
    let tell = |said: Said, stream: Option<TcpStream>| {
        let _ = sender.send((Heard { broker, connection, at: Instant::now(), said }, stream));
    };
    let (mut bytes, mut taken) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        match stream.read(&mut taken) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&taken[..count]),
            _ => return tell(Said::End { why: None }, None),
        }
        let mut used = 0;
        loop {
            match decode(&bytes[used..]) {
                Ok(Decoded::Incomplete(_)) => break,
                Ok(Decoded::Frame(frame, length)) => {
                    used += length;
                    for said in said(broker, &frame) {
                        let greets = matches!(said, Said::Hello { .. });
                        tell(said, if greets { stream.try_clone().ok() } else { None });
                    }
                }
                Err(error) => {
                    let _ = stream.shutdown(Shutdown::Both);
                    return tell(Said::End { why: Some(error.to_string()) }, None);
                }
            }
        }
        bytes.drain(..used);
    }
}

fn said(broker: usize, frame: &Frame<'_>) -> Vec<Said> {
    vec![match frame {
        Frame::Hello(hello) => Said::Hello {
            standing: hello.standing,
            reign: hello.reign,
            incarnation: hello.incarnation,
            name: hello.name.to_owned(),
        },
        Frame::Register(register) => Said::Register {
            stream: register.stream,
            incarnation: register.incarnation,
            contract: register.contract,
            topic: register.topic.to_owned(),
        },
        Frame::Unregister { stream } => Said::Unregister { stream: *stream },
        Frame::Subscribe { number, filter, .. } => {
            Said::Subscribe { number: *number, filter: (*filter).to_owned() }
        }
        Frame::Reign { reign, standing } => Said::Reign { reign: *reign, standing: *standing },
        Frame::Farewell(farewell) => Said::Farewell { reason: farewell.reason as u8 },
        Frame::Publish(messages) => {
            let sent = messages.map(|message| {
                Said::Message(Sent {
                    broker,
                    stream: message.stream,
                    flags: message.flags,
                    seq: message.seq,
                    created: message.created,
                    payload: message.payload.to_owned(),
                })
            });
            return sent.collect();
        }
        Frame::Confirm(marks) => {
            return marks.map(|mark| Said::Confirm { stream: mark.stream, seq: mark.seq }).collect();
        }
        Frame::Poll { number } => Said::Poll { number: *number },
        Frame::ClockRequest { sent, .. } => Said::ClockRequest { sent: *sent },
        Frame::PollReply { .. }
        | Frame::Received(_)
        | Frame::Trouble(_)
        | Frame::Unsubscribe { .. }
        | Frame::ClientsRequest { .. }
        | Frame::DropClient { .. }
        | Frame::StatusRequest { .. } => Said::Other,
        other => {
            let kind = format!("{other:?}");
            let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
            Said::End { why: Some(format!("a client may not send {kind}")) }
        }
    }]
}
