//! Connections on which nothing happens, and the memory that they take.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};
use verge_bench_mqtt::observed::resident_bytes;
use verge_bench_mqtt::packet::{self, Packet, Version};

/// What is opened.
#[derive(Deserialize)]
pub struct Plan {
    port: u16,
    pid: u32,
    version: u8,
    connections: usize,
    /// Whether each has a subscription of its own.
    subscribe: bool,
}

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    connections: usize,
    before_bytes: u64,
    after_bytes: u64,
    bytes_per_connection: f64,
    connecting_s: f64,
}

/// Connections whose answers are waited for together; less than any queue of the kernel for new ones.
const TOGETHER: usize = 100;
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory counts when it has not changed for this long.
const STEADY: Duration = Duration::from_secs(1);

pub fn run(plan: &Plan) -> io::Result<Report> {
    raise_descriptors(plan.connections as u64 + 100)?;
    let before_bytes = resident_bytes(plan.pid);
    let version = Version(plan.version);
    let began = Instant::now();
    let mut open: Vec<TcpStream> = Vec::with_capacity(plan.connections);
    while open.len() < plan.connections {
        let from = open.len();
        for number in from..plan.connections.min(from + TOGETHER) {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, plan.port))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            let mut bytes = packet::connect(version, &format!("idle-{number}"));
            if plan.subscribe {
                bytes.extend(packet::subscribe(version, &format!("idle/{number}/+"), 0));
            }
            socket.write_all(&bytes)?;
            open.push(socket);
        }
        for socket in &mut open[from..] {
            (0..1 + u32::from(plan.subscribe)).try_for_each(|_| agreed(socket))?;
        }
    }
    let connecting_s = began.elapsed().as_secs_f64();
    let after_bytes = steady(plan.pid);
    let grown = after_bytes.saturating_sub(before_bytes) as f64;
    let bytes_per_connection = grown / plan.connections as f64;
    Ok(Report { connections: open.len(), before_bytes, after_bytes, bytes_per_connection, connecting_s })
}

fn agreed(socket: &mut TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        bytes.push(byte[0]);
        if let Some((packet, _)) = Packet::cut(&bytes) {
            let text = || format!("a client was refused with code {:#04x}", packet.code());
            return if packet.code() == 0 {
                Ok(())
            } else {
                Err(io::Error::new(ErrorKind::ConnectionRefused, text()))
            };
        }
    }
}

fn steady(pid: u32) -> u64 {
    let (mut last, mut since) = (resident_bytes(pid), Instant::now());
    while since.elapsed() < STEADY {
        std::thread::sleep(Duration::from_millis(50));
        let now = resident_bytes(pid);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// The broker's own limit is set by who starts it.
fn raise_descriptors(wanted: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(())
}
