//! Connections that say a byte now and then, for as long as they like, and come again when they are closed.

use super::wait_until;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// So many at one port.
const STRANGERS: usize = 300;
/// Between two bytes of each.
const PAUSE: Duration = Duration::from_millis(400);
/// They may make a process grow by so much.
pub const GROWTH_MAX: usize = 20 << 20;
/// How often each of them is heard, at least, before those who belong there come.
const ROUNDS: u64 = 5;

/// Strangers at work.
pub struct Strangers {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Strangers {
    /// At this port; they begin with these bytes, one after the other, as those do who belong there.
    pub fn at(port: u16, says: &'static [u8]) -> Strangers {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), rounds.clone());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let thread = std::thread::spawn(move || {
            let mut all: Vec<Option<(TcpStream, usize)>> = (0..STRANGERS).map(|_| None).collect();
            while !stopped.load(Relaxed) {
                for stranger in &mut all {
                    if stranger.is_none() {
                        let stream = TcpStream::connect_timeout(&address, PAUSE).ok();
                        *stranger = stream.map(|stream| (stream, 0));
                    }
                    let Some((stream, said)) = stranger else { continue };
                    let _ = stream.set_nonblocking(true);
                    let byte = says[*said % says.len()];
                    let closed = stream.read(&mut [0; 64]).is_ok_and(|read| read == 0);
                    match stream.write(&[byte]) {
                        Ok(_) if !closed => *said += 1,
                        _ => *stranger = None,
                    }
                }
                counted.fetch_add(1, Relaxed);
                std::thread::sleep(PAUSE);
            }
        });
        let strangers = Strangers { stop, rounds, thread: Some(thread) };
        strangers.go_on();
        strangers
    }

    /// Until each has said something more a few times.
    pub fn go_on(&self) {
        let until = self.rounds.load(Relaxed) + ROUNDS;
        wait_until("the strangers have said something", || self.rounds.load(Relaxed) >= until);
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
