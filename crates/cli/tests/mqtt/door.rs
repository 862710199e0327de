//! A second address of a broker that can be shut: what a client sees of it is what it sees of a broker that dies.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Passes bytes on until it is shut.
pub struct Door {
    /// Where it is, on 127.0.0.1.
    pub port: u16,
    shut: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Door {
    /// Opens a door to this port of 127.0.0.1.
    pub fn open(to: u16) -> Door {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shut = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let door = Door { port, shut: Arc::clone(&shut), connections: Arc::clone(&connections) };
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let mut connections = connections.lock().unwrap();
                if shut.load(Ordering::Acquire) {
                    return;
                }
                let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
                connections.extend([client.try_clone().unwrap(), broker.try_clone().unwrap()]);
                let back = [broker.try_clone().unwrap(), client.try_clone().unwrap()];
                for [from, to] in [[client, broker], back] {
                    std::thread::spawn(move || pass(from, to));
                }
            }
        });
        door
    }

    /// Ends all connections; there are no further ones.
    pub fn shut(&self) {
        let connections = self.connections.lock().unwrap();
        self.shut.store(true, Ordering::Release);
        for connection in connections.iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(connections);
        // The listener is closed by the thread that waits for it.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shut();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
