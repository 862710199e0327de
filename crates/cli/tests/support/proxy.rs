//! A proxy of HTTP and of SOCKS, as a plant has one: it knows names that nobody else here knows, and wants a user.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Who may use it.
pub const USER: &str = "plant";
pub const PASSWORD: &str = "open sesame";
/// The same as HTTP has it.
const BASIC: &str = "Basic cGxhbnQ6b3BlbiBzZXNhbWU=";

const LOOK: Duration = Duration::from_millis(5);

/// A proxy that runs until it is dropped.
pub struct Proxy {
    /// Where it listens, on this host.
    pub port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Names with ports, and the ports of this host that they mean.
    names: Vec<(&'static str, u16)>,
    /// What was asked for.
    asked: Mutex<Vec<String>>,
    /// Both ends of what is carried.
    carried: Mutex<Vec<TcpStream>>,
    ended: AtomicBool,
}

impl Proxy {
    /// Starts one that knows these names, `host:port`.
    pub fn start(names: &[(&'static str, u16)]) -> Proxy {
        Proxy::start_at(0, names)
    }

    /// The same at a port that was chosen before.
    pub fn start_at(port: u16, names: &[(&'static str, u16)]) -> Proxy {
        let door = TcpListener::bind(("127.0.0.1", port)).unwrap();
        door.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared {
            names: names.to_vec(),
            asked: Mutex::default(),
            carried: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let (port, own) = (door.local_addr().unwrap().port(), Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            while !own.ended.load(Ordering::Relaxed) {
                match door.accept() {
                    Ok((near, _)) => {
                        let shared = Arc::clone(&own);
                        std::thread::spawn(move || shared.serve(near));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        Proxy { port, shared, thread: Some(thread) }
    }

    /// What was asked for so far, once each.
    pub fn asked(&self) -> Vec<String> {
        let mut asked = self.shared.asked.lock().unwrap().clone();
        asked.sort();
        asked.dedup();
        asked
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        _ = self.thread.take().map(JoinHandle::join);
        self.shared.carried.lock().unwrap().iter().for_each(|end| _ = end.shutdown(Shutdown::Both));
    }
}

impl Shared {
    /// Whoever misbehaves is closed.
    fn serve(&self, mut near: TcpStream) {
        near.set_nonblocking(false).unwrap();
        _ = near.set_nodelay(true);
        let mut first = [0];
        if near.read_exact(&mut first).is_ok() {
            _ = if first[0] == 5 { self.socks(near) } else { self.http(near, first[0]) };
        }
    }

    fn connect(&self, host: &str, port: u16) -> Option<TcpStream> {
        let name = format!("{host}:{port}");
        let known = self.names.iter().find(|(known, _)| *known == name);
        self.asked.lock().unwrap().push(name);
        let (_, port) = known?;
        let far = TcpStream::connect(("127.0.0.1", *port)).ok()?;
        far.set_nodelay(true).ok().map(|()| far)
    }

    fn http(&self, mut near: TcpStream, first: u8) -> std::io::Result<()> {
        let mut head = vec![first];
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
            near.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let asked = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
        let asked = asked.and_then(|asked| asked.rsplit_once(':'));
        let Some((host, port)) = asked.and_then(|(host, port)| Some((host, port.parse().ok()?))) else {
            return near.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        };
        if !head.contains(&format!("\r\nProxy-Authorization: {BASIC}\r\n")) {
            let asks = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"plant\"\r\n\r\n";
            return near.write_all(asks.as_bytes());
        }
        let Some(far) = self.connect(host, port) else {
            return near.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        };
        near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        self.carry(near, far)
    }

    fn socks(&self, mut near: TcpStream) -> std::io::Result<()> {
        let short = |near: &mut TcpStream| {
            let mut length = [0];
            near.read_exact(&mut length)?;
            let mut text = vec![0; length[0].into()];
            near.read_exact(&mut text)?;
            Ok::<_, std::io::Error>(text)
        };
        if !short(&mut near)?.contains(&2) {
            return near.write_all(&[5, 0xff]);
        }
        near.write_all(&[5, 2])?;
        let mut version = [0];
        near.read_exact(&mut version)?;
        let known = (short(&mut near)?, short(&mut near)?) == (USER.into(), PASSWORD.into());
        near.write_all(&[1, u8::from(!known)])?;
        let mut request = [0; 4];
        near.read_exact(&mut request)?;
        if !known || request != [5, 1, 0, 3] {
            return Ok(());
        }
        let host = String::from_utf8_lossy(&short(&mut near)?).into_owned();
        let mut port = [0; 2];
        near.read_exact(&mut port)?;
        let far = self.connect(&host, u16::from_be_bytes(port));
        let code = if far.is_some() { 0 } else { 4 };
        near.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0])?;
        far.map_or(Ok(()), |far| self.carry(near, far))
    }

    fn carry(&self, mut near: TcpStream, mut far: TcpStream) -> std::io::Result<()> {
        let (mut back, mut forth) = (far.try_clone()?, near.try_clone()?);
        self.carried.lock().unwrap().extend([near.try_clone()?, far.try_clone()?]);
        let other = std::thread::spawn(move || {
            _ = std::io::copy(&mut back, &mut forth);
            _ = forth.shutdown(Shutdown::Both);
        });
        _ = std::io::copy(&mut near, &mut far);
        _ = far.shutdown(Shutdown::Both);
        _ = other.join();
        Ok(())
    }
}
