//! Made-up workloads, and the shortest deadline with which a broker of this host admits them.

use contract::admission::{Carriers, Costs};
use contract::rounds::Io;
use contract::{Admission, Contract, Delays, Links, Span, Supply};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::path::Path;
use wire::limits::CLIENT_POLL;

/// A graph's operator takes a topic of its own.
pub const PROCESSED: &str = "edge/processed";
/// What the broker's configuration says.
pub const SHARE_PPM: u32 = 800_000;
/// The rest of operators' data thread that admission counts as blocking.
const GATHER: Span = Span::micros(200);

/// One of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Workload {
    /// From which it was made up.
    pub seed: u64,
    /// What is large in it.
    pub shape: &'static str,
    /// Connections that publish.
    pub publishers: usize,
    /// Topics of each of them.
    pub topics_each: usize,
    /// Subscribing connections of the own protocol.
    pub tcp: usize,
    /// The same over TLS.
    pub tls: usize,
    /// Subscribing connections of MQTT.
    pub mqtt: usize,
    /// The payload.
    pub bytes: usize,
    /// `T`.
    pub period_ms: i64,
    /// Whether there is a backup that needs copies.
    pub pair: bool,
    /// Whether operators take one of the topics.
    pub operators: bool,
    /// How much of what is admitted it is: the shortest deadline that is admitted, by its own.
    pub load: f64,
}

/// What `verge calibrate` has measured.
pub struct Host {
    costs: Costs,
    blocking: Span,
}

#[derive(Deserialize)]
struct Profile {
    arrival_ns: i64,
    dispatch_ns: i64,
    replication_ns: i64,
    turn_ns: i64,
    blocking_ns: i64,
    tcp: Connection,
    tls: Connection,
    websocket: Connection,
    secure_websocket: Connection,
}

#[derive(Deserialize)]
struct Connection {
    read_ns: i64,
    write_ns: i64,
    kib_ns: i64,
}

impl From<Connection> for Io {
    fn from(one: Connection) -> Io {
        Io { read: Span(one.read_ns), write: Span(one.write_ns), kib: Span(one.kib_ns) }
    }
}

impl Host {
    /// As its profile says.
    pub fn load(profile: &Path) -> Result<Host, String> {
        let text =
            std::fs::read_to_string(profile).map_err(|error| format!("{}: {error}", profile.display()))?;
        let profile: Profile = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        Ok(Host {
            costs: Costs {
                arrival: Span(profile.arrival_ns),
                dispatch: Span(profile.dispatch_ns),
                replication: Span(profile.replication_ns),
                turn: Span(profile.turn_ns),
                io: Carriers {
                    tcp: profile.tcp.into(),
                    tls: profile.tls.into(),
                    websocket: profile.websocket.into(),
                    secure_websocket: profile.secure_websocket.into(),
                },
            },
            blocking: Span(profile.blocking_ns),
        })
    }
}

impl Workload {
    /// The one that belongs to a seed.
    pub fn of(seed: u64) -> Workload {
        let mut random = Rng::with_seed(seed);
        // As many small ones as large ones.
        let mut about = |least: f64, most: f64| (least * (most / least).powf(random.f64())).round() as usize;
        let shapes = ["wide", "many topics", "large payloads", "mixed"];
        let shape = shapes[(seed % 4) as usize];
        let (publishers, topics_each, subscribers, bytes) = match shape {
            "wide" => (1, about(1.0, 3.0), about(20.0, 2_000.0), about(16.0, 256.0)),
            "many topics" => (about(1.0, 13.0), about(40.0, 1_040.0), about(1.0, 3.0), about(16.0, 64.0)),
            "large payloads" => {
                (about(1.0, 4.0), about(1.0, 4.0), about(1.0, 20.0), about(1_024.0, 65_536.0))
            }
            _ => (about(1.0, 20.0), about(1.0, 50.0), about(1.0, 60.0), about(16.0, 1_024.0)),
        };
        let mut of_kind = [0; 3];
        (0..subscribers).for_each(|_| of_kind[[0, 0, 1, 2][random.usize(0..4)]] += 1);
        let [tcp, tls, mqtt] = of_kind;
        Workload {
            seed,
            shape,
            publishers,
            topics_each,
            tcp,
            tls,
            mqtt,
            bytes: bytes.max(16),
            period_ms: [20, 50, 100, 200][random.usize(0..4)],
            pair: random.u8(0..4) == 0,
            operators: random.u8(0..4) == 0,
            load: random.f64().mul_add(0.5, 0.5),
        }
    }

    /// All topics that carry the contract.
    pub fn topics(&self) -> usize {
        self.publishers * self.topics_each
    }

    /// Who gets every message.
    pub fn subscribers(&self) -> usize {
        self.tcp + self.tls + self.mqtt
    }

    /// The contract with this deadline. With a backup, no message may be lost, and every message needs a copy.
    pub fn contract(&self, deadline: Span) -> Contract {
        let period = Span::millis(self.period_ms);
        let retain = if self.pair { (60 / self.period_ms + 2) as u32 } else { 0 };
        let losses = if self.pair { 0 } else { 3 };
        let contract = Contract { size: self.bytes as u32, ..Contract::every(period).deadline(deadline) };
        if self.pair { contract.tolerate(losses).retain(retain) } else { contract.best_effort() }
    }

    /// The shortest deadline with which all of it is admitted, if there is one below 5 s.
    pub fn edge(&self, host: &Host) -> Option<Span> {
        let (mut refused, mut admitted) = (Span::ZERO, Span::secs(5));
        if !self.is_admitted(host, admitted) {
            return None;
        }
        while admitted.0 - refused.0 > 1_000 {
            let middle = Span((admitted.0 + refused.0) / 2);
            *(if self.is_admitted(host, middle) { &mut admitted } else { &mut refused }) = middle;
        }
        Some(admitted)
    }

    fn is_admitted(&self, host: &Host, deadline: Span) -> bool {
        let blocking = host.blocking + if self.operators { GATHER } else { Span::ZERO };
        let supply = Supply { share_ppm: SHARE_PPM, blocking };
        let mut admission =
            Admission::new(Delays::default(), Links::default(), host.costs, supply).polled(CLIENT_POLL);
        let io = &host.costs.io;
        let crowd = admission.crowd_mut();
        // Who publishes for operators is one more.
        crowd.add(io.tcp, (self.publishers + self.tcp + self.mqtt + usize::from(self.operators)) as u64);
        crowd.add(io.tls, self.tls as u64);
        let contract = self.contract(deadline);
        if self.operators {
            // What is processed, and the results.
            let processed = Contract::every(Span::millis(50)).best_effort();
            if !(0..2).all(|_| admission.admit(&processed, 1).is_ok()) {
                return false;
            }
        }
        (0..self.topics()).all(|_| admission.admit(&contract, self.subscribers() as u32).is_ok())
    }
}
