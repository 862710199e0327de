//! Sockets that wait: a reader with a thread of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a broker may take to agree to something.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Far above one message, so that one read takes many.
const INPUT_BYTES: usize = 256 * 1024;
/// What a broker may say without it making sense, before it is taken for broken.
const INPUT_BYTES_MAX: usize = 64 << 20;

/// Connects; messages leave at once.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Reads bytes until they end with this text, one by one: nothing behind it is taken.
pub fn read_until(socket: &mut TcpStream, end: &[u8]) -> io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        bytes.push(byte[0]);
        if bytes.len() > INPUT_BYTES {
            return Err(io::Error::other("the broker's answer does not end"));
        }
    }
    socket.set_read_timeout(None)?;
    Ok(bytes)
}

/// Reads on a thread of its own until it is dropped.
pub struct Reader {
    socket: TcpStream,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// `cut` gets what is there and returns how much of it was complete.
    pub fn start(
        socket: &TcpStream,
        name: &str,
        cut: impl FnMut(&[u8]) -> io::Result<usize> + Send + 'static,
    ) -> io::Result<Reader> {
        let ended = Arc::new(AtomicBool::new(false));
        let (mut input, over, who) = (socket.try_clone()?, Arc::clone(&ended), name.to_owned());
        let read = move || {
            if let Err(error) = read_all(&mut input, cut)
                && !over.load(Ordering::Acquire)
            {
                crate::observe::trouble(format!("connection {who}: {error}"));
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(read)?;
        Ok(Reader { socket: socket.try_clone()?, ended, thread: Some(thread) })
    }
}

fn read_all(input: &mut TcpStream, mut cut: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
    let mut buffer = vec![0; INPUT_BYTES];
    let mut filled = 0;
    loop {
        let read = input.read(&mut buffer[filled..])?;
        if read == 0 {
            return Err(io::Error::other("the broker closed it"));
        }
        filled += read;
        let used = cut(&buffer[..filled])?;
        buffer.copy_within(used..filled, 0);
        filled -= used;
        if filled == buffer.len() {
            if filled >= INPUT_BYTES_MAX {
                return Err(io::Error::other("a message does not end"));
            }
            buffer.resize(2 * filled, 0);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Where the broker has gone, it is shut already.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // That it panicked has been printed.
            let _ = thread.join();
        }
    }
}

impl crate::links::Subscriber for Reader {}

/// Writes everything, and keeps the room.
pub fn write_out(socket: &mut TcpStream, output: &mut Vec<u8>) -> io::Result<()> {
    let done = socket.write_all(output);
    output.clear();
    done
}
