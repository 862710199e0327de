//! A wide-area link on one host: a relay that hands everything on after a delay, in both directions.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Chunks that may be under way in one direction.
const CHUNKS_MAX: usize = 4096;
const CHUNK_BYTES: usize = 16 << 10;

/// Begins to relay connections to `target`, each way delayed. Returns where it listens. It ends with the process.
pub fn start(target: SocketAddr, delay: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
        for near in listener.incoming().flatten() {
            // Where nobody listens, the connection is closed again: that is how the client learns of it.
            if let Ok(far) = TcpStream::connect(target) {
                let _ = connect_both(near, far, delay);
            }
        }
    })?;
    Ok(address)
}

fn connect_both(near: TcpStream, far: TcpStream, delay: Duration) -> io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    pass(near.try_clone()?, far.try_clone()?, delay)?;
    pass(far, near, delay)
}

/// One direction: a thread that reads and notes when, and one that writes when the time has come.
fn pass(mut from: TcpStream, to: TcpStream, delay: Duration) -> io::Result<()> {
    let (sender, receiver) = sync_channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    std::thread::Builder::new().spawn(move || write_later(&receiver, to))?;
    std::thread::Builder::new().spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(read) = from.read(&mut chunk) {
            let due = Instant::now() + delay;
            if sender.send((due, chunk[..read].to_vec())).is_err() || read == 0 {
                break;
            }
        }
    })?;
    Ok(())
}

fn write_later(receiver: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    while let Ok((due, bytes)) = receiver.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
