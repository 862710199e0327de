//! A node that does its jobs on the clock, with a socket.

use super::{Node1, Seats, config, setup, socket_path};
use contract::{Span, Time};
use kv::Config;
use kv_shared::{Server, clock};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A node that does its jobs on the clock, with a socket.
pub struct House {
    pub path: PathBuf,
    server: Option<Server>,
    pub seats: Seats,
    stop: &'static AtomicBool,
    jobs: Option<JoinHandle<Node1>>,
}

impl House {
    pub fn start(name: &str) -> House {
        House::start_with(name, |_| {})
    }

    /// One whose alarm is on, and that does not know what the others have agreed on.
    pub fn lacking(name: &str) -> House {
        House::start_with(name, |node| {
            node.writer.set_lacks(true);
            node.writer.set_alone(true);
            node.writer.set_cautious_until(Time::NEVER);
        })
    }

    fn start_with(name: &str, change: impl FnOnce(&Node1)) -> House {
        // Slow enough for a machine that has other things to do.
        let (period, offset, horizon) = (Span::millis(100), Span::millis(50), Some(Span::secs(5)));
        let setup = setup(Config { period, offset, horizon, ..config() });
        let node = Node1::new(&setup, clock::now());
        change(&node);
        let (path, seats) = (socket_path(name), node.seats.clone());
        let server = Server::start(&path, node.backend()).unwrap();
        let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let jobs = std::thread::spawn(move || node.run(|| stop.load(Ordering::Relaxed)));
        House { path, server: Some(server), seats, stop, jobs: Some(jobs) }
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub fn end(mut self) -> Node1 {
        self.stop.store(true, Ordering::Relaxed);
        self.server.take().unwrap().stop();
        assert!(!self.path.exists(), "a server that stops removes its socket");
        std::fs::remove_dir(self.path.parent().unwrap()).unwrap();
        self.jobs.take().unwrap().join().unwrap()
    }
}
