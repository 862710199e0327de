//! Commands beside data: what clients ask of a broker besides carrying messages, in the frames and packets themselves, as many at a time
//! as go, so that neither a client library nor its round trips hold anything up.

use crate::arguments::{Commands, SetUp};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use verge::{Contract, Loss, Span};
use wire::{Decoded, Frame, Hello, Outbox, Register, Secret, Standing, decode};

/// What was asked and answered.
#[derive(Serialize, Default)]
pub struct Report {
    /// Exact filters that were subscribed, and how long that took.
    filters: u64,
    filters_s: f64,
    /// Topics that were registered and ended again, all times together, and how long the first time took.
    registered: u64,
    first_registered_s: f64,
    /// Clients of MQTT that came, subscribed a filter of their own, and went.
    clients: u64,
    clients_per_s: f64,
}

/// How long it takes until everything is answered.
#[derive(Serialize)]
pub struct SetUpReport {
    topics: u32,
    registrations_s: f64,
    subscriptions_s: f64,
}

/// A connection that speaks frames.
struct Link {
    stream: TcpStream,
    outbox: Outbox,
    unread: Vec<u8>,
    polled: Instant,
}

/// A broker takes whoever says nothing for so long for dead.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Whoever waits longer than this for answers gives up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Link {
    fn open(broker: SocketAddr, name: &str) -> io::Result<Link> {
        let stream = TcpStream::connect(broker)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (outbox, unread, polled) = (Outbox::default(), Vec::new(), Instant::now());
        let mut link = Link { stream, outbox, unread, polled };
        link.outbox.push(&Frame::Hello(Hello {
            standing: Standing::Orphaned,
            prefers_to_reign: false,
            reign: Default::default(),
            node: Default::default(),
            incarnation: verge_bench_mqtt::poller::now_ns(),
            name,
            user: "",
            password: Secret(""),
            knows: wire::Knows::NOTHING,
        }));
        // Whoever has not said who it is for two seconds is sent away.
        link.send()?;
        Ok(link)
    }

    /// Sends what has been asked, and reads until so many answers have come, or it is to end. Returns the answers that said yes.
    fn ask(&mut self, count: usize, end: &AtomicBool) -> io::Result<usize> {
        let mut from = Instant::now();
        let (mut answers, mut granted) = (0, 0);
        let mut scratch = vec![0; 256 << 10];
        while answers < count && !end.load(Ordering::Relaxed) {
            if self.polled.elapsed() > POLL_EVERY {
                self.polled = Instant::now();
                self.outbox.push(&Frame::Poll { number: 0 });
            }
            // The socket takes some of what waits, and more when the broker has read that.
            self.send()?;
            match self.stream.read(&mut scratch) {
                Ok(0) => return Err(io::Error::other("the broker closed the connection")),
                Ok(read) => {
                    from = Instant::now();
                    self.unread.extend(scratch.iter().take(read));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let mut used = 0;
            while let Some(rest) = self.unread.get(used..).filter(|rest| !rest.is_empty()) {
                let Decoded::Frame(frame, length) = decode(rest).map_err(io::Error::other)? else { break };
                used += length;
                let answer = match frame {
                    Frame::Subscribed { admitted, .. } => Some(admitted),
                    Frame::Verdict(verdict) => Some(verdict.admitted),
                    Frame::Farewell(farewell) => return Err(io::Error::other(farewell.text.to_owned())),
                    _ => None,
                };
                answers += usize::from(answer.is_some());
                granted += usize::from(answer == Some(true));
            }
            self.unread.drain(..used);
            if count != usize::MAX && from.elapsed() > PATIENCE {
                return Err(io::Error::other("no answer"));
            }
        }
        Ok(granted)
    }

    fn send(&mut self) -> io::Result<()> {
        let bytes = self.outbox.unsent().to_vec();
        self.outbox.consume(bytes.len());
        self.stream.write_all(&bytes)
    }
}

fn register(stream: u32, topic: &str) -> Frame<'_> {
    let contract = Contract { loss: Loss::Unbounded, retain: 0, ..Contract::every(Span::secs(1)) };
    Frame::Register(Register { stream, incarnation: 1, contract: Some(contract), topic })
}

/// All commands at once, beside a load that somebody else makes.
pub fn run(plan: &Commands) -> io::Result<Report> {
    let end = AtomicBool::new(false);
    let clients = AtomicU64::new(0);
    let seconds = Duration::from_secs_f64(plan.seconds);
    thread::scope(|scope| {
        let filters = scope.spawn(|| subscribe(plan, &end));
        let topics = scope.spawn(|| come_and_go_with_topics(plan, &end));
        let gone = scope.spawn(|| come_and_go(plan, &end, &clients));
        thread::sleep(seconds);
        end.store(true, Ordering::Relaxed);
        let join = |what: &str| io::Error::other(format!("{what} ended in a panic"));
        let (filters, filters_s) = filters.join().map_err(|_| join("subscribing"))??;
        let (registered, first_registered_s) = topics.join().map_err(|_| join("registering"))??;
        gone.join().map_err(|_| join("coming and going"))??;
        let clients = clients.load(Ordering::Relaxed);
        let clients_per_s = clients as f64 / plan.seconds;
        Ok(Report { filters, filters_s, registered, first_registered_s, clients, clients_per_s })
    })
}

/// Subscribes exact filters, and stays.
fn subscribe(plan: &Commands, end: &AtomicBool) -> io::Result<(u64, f64)> {
    let mut link = Link::open(plan.broker, "bench-filters")?;
    let filters: Vec<String> = (0..plan.filters).map(|number| format!("quiet/{number}/speed")).collect();
    for (number, filter) in (0..).zip(&filters) {
        link.outbox.push(&Frame::Subscribe { number, needs: verge::Needs::NONE, filter });
    }
    let from = Instant::now();
    let granted = link.ask(filters.len(), end)?;
    let took = from.elapsed().as_secs_f64();
    link.ask(usize::MAX, end)?;
    Ok((granted as u64, took))
}

/// Registers topics and ends them again, all the time.
fn come_and_go_with_topics(plan: &Commands, end: &AtomicBool) -> io::Result<(u64, f64)> {
    let mut link = Link::open(plan.broker, "bench-topics")?;
    let topics: Vec<String> = (0..plan.topics).map(|number| format!("passing/{number}/speed")).collect();
    let (mut registered, mut first) = (0, 0.0);
    while !end.load(Ordering::Relaxed) {
        let from = Instant::now();
        for (number, topic) in (0..).zip(&topics) {
            link.outbox.push(&register(number, topic));
        }
        registered += link.ask(topics.len(), end)? as u64;
        if first == 0.0 {
            first = from.elapsed().as_secs_f64();
        }
        (0..plan.topics).for_each(|stream| link.outbox.push(&Frame::Unregister { stream }));
        link.ask(0, end)?;
        thread::sleep(Duration::from_millis(500));
    }
    Ok((registered, first))
}

/// Clients of MQTT that come, subscribe and go, so many in a second, spread over it.
fn come_and_go(plan: &Commands, end: &AtomicBool, clients: &AtomicU64) -> io::Result<()> {
    let Some(mqtt) = plan.mqtt.filter(|_| plan.clients_per_second > 0) else { return Ok(()) };
    let from = Instant::now();
    let mut number = 0_u64;
    while !end.load(Ordering::Relaxed) {
        let due = Duration::from_secs_f64(number as f64 / f64::from(plan.clients_per_second));
        thread::sleep(due.saturating_sub(from.elapsed()));
        visit(mqtt, number)?;
        number += 1;
        clients.store(number, Ordering::Relaxed);
    }
    Ok(())
}

/// CONNECT, SUBSCRIBE, and DISCONNECT when both have been answered.
fn visit(mqtt: SocketAddr, number: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(mqtt)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    let packet = |kind: u8, body: Vec<u8>| [vec![kind, body.len() as u8], body].concat();
    let connect = [text("MQTT"), vec![4, 2, 0, 60], text(&format!("visit{number}"))].concat();
    let subscribe = [vec![0, 1], text(&format!("quiet/{number}/visited")), vec![0]].concat();
    stream.write_all(&[packet(0x10, connect), packet(0x82, subscribe)].concat())?;
    // CONNACK has four bytes, SUBACK five.
    stream.read_exact(&mut [0; 9])?;
    stream.write_all(&[0xe0, 0])
}

/// Registers topics, and then subscribes each by its name.
pub fn set_up(plan: &SetUp) -> io::Result<SetUpReport> {
    let never = AtomicBool::new(false);
    let topics: Vec<String> = (0..plan.topics).map(|number| format!("plant/{number}/speed")).collect();
    let (mut publisher, mut subscriber) =
        (Link::open(plan.broker, "bench-publisher")?, Link::open(plan.broker, "bench-subscriber")?);
    for (number, topic) in (0..).zip(&topics) {
        publisher.outbox.push(&register(number, topic));
        subscriber.outbox.push(&Frame::Subscribe { number, needs: verge::Needs::NONE, filter: topic });
    }
    let from = Instant::now();
    let registered = publisher.ask(topics.len(), &never)?;
    let registrations_s = from.elapsed().as_secs_f64();
    let from = Instant::now();
    let subscribed = subscriber.ask(topics.len(), &never)?;
    let subscriptions_s = from.elapsed().as_secs_f64();
    if (registered, subscribed) != (topics.len(), topics.len()) {
        return Err(io::Error::other(format!("{registered} topics were admitted, {subscribed} filters")));
    }
    Ok(SetUpReport { topics: plan.topics, registrations_s, subscriptions_s })
}
