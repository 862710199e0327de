//! Ways to the service through a proxy, and over TLS.
//!
//! The client can only connect by itself, and brings a TLS library of its own for it. So it connects to doors of our own on this host, one for each server, and
//! what comes there is carried. Another process that comes to such a door is turned away: it may not have the rights that this one has at the
//! proxy, and at the service.

use crate::settings::{Proxy, Settings, Tls, place};
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use wire::Tunnel;

/// How long a proxy has until it carries a connection, and a server until it speaks TLS.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections that a door carries at once; the client has one, and another while it changes servers.
const CARRIED_MAX: usize = 4;

/// How long a door rests that could not be listened at.
const REST: Duration = Duration::from_millis(100);

/// Doors that are open as long as the runtime.
#[derive(Clone)]
pub(crate) struct Ways {
    /// Where the client connects to instead of the servers.
    pub(crate) servers: String,
    why: Arc<Mutex<Option<String>>>,
}

impl Ways {
    /// Opens a door for each of the servers.
    pub(crate) async fn open(settings: &Settings) -> Result<Ways, String> {
        let (why, mut doors) = (Arc::new(Mutex::new(None)), Vec::new());
        for server in settings.servers.split(',') {
            let proxied =
                |proxy: &Proxy| proxy.tunnel(server).map(|tunnel| (proxy.address.clone(), Arc::new(tunnel)));
            let proxy = settings.proxy.as_ref().map(proxied).transpose()?;
            let (host, port) = place(server)?;
            let secured = |tls: &Tls| server_name(host).map(|name| (tls.clone(), name));
            let tls = settings.tls.as_ref().map(secured).transpose()?;
            let server = format!("{host}:{port}");
            let failed = |error: std::io::Error| format!("no port of this host can be listened at: {error}");
            let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
            let address = door.local_addr().map_err(failed)?;
            doors.push(address.to_string());
            let way = Way { server, proxy, tls, door: address, why: Arc::clone(&why) };
            tokio::spawn(way.attend(door));
        }
        Ok(Ways { servers: doors.join(","), why })
    }

    /// Why the last connection was not carried, since this was asked last.
    pub(crate) fn take_reason(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The way to one server.
#[derive(Clone)]
struct Way {
    /// `host:port`.
    server: String,
    /// Where the proxy is, and what it is asked for.
    proxy: Option<(String, Arc<Tunnel>)>,
    /// What is shown and believed, and the name that the server's certificate must have.
    tls: Option<(Tls, ServerName<'static>)>,
    door: SocketAddr,
    why: Arc<Mutex<Option<String>>>,
}

impl Way {
    /// Carries whoever comes, as long as the runtime lives.
    async fn attend(self, door: TcpListener) {
        let places = Arc::new(Semaphore::new(CARRIED_MAX));
        loop {
            // The one end of this is with us for good.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((near, from)) = door.accept().await else {
                tokio::time::sleep(REST).await;
                continue;
            };
            if is_own(from, self.door) {
                let way = self.clone();
                tokio::spawn(async move {
                    way.carry(near).await;
                    drop(place);
                });
            }
        }
    }

    async fn carry(&self, mut near: TcpStream) {
        let carried = tokio::time::timeout(PATIENCE, self.reach()).await;
        let slow = |_| Err(format!("{}: it has not answered within {PATIENCE:?}", self.server));
        match carried.unwrap_or_else(slow) {
            Ok((far, early)) => {
                _ = near.set_nodelay(true);
                if near.write_all(&early).await.is_ok() {
                    let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.split(), split(far));
                    // Whichever end goes first takes the other with it: a proxy may keep its half for ever.
                    let ended = tokio::select! {
                        ended = copy(&mut near_in, &mut far_out) => ended,
                        ended = copy(&mut far_in, &mut near_out) => ended,
                    };
                    // Whether a server takes our certificate it says only after the handshake.
                    let refused = ended
                        .err()
                        .filter(|error| error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()));
                    refused.into_iter().for_each(|error| self.tell(self.over_tls(&error)));
                }
            }
            Err(why) => self.tell(why),
        }
    }

    fn tell(&self, why: String) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn over_tls(&self, error: &std::io::Error) -> String {
        format!("{}, over TLS: {error}", self.server)
    }

    /// A connection to the server, and what has come of it already.
    async fn reach(&self) -> Result<(Box<dyn Far>, Vec<u8>), String> {
        let (far, early) = match &self.proxy {
            Some((proxy, tunnel)) => {
                let tunnelled = tunnelled(proxy, tunnel).await;
                tunnelled.map_err(|why| format!("the proxy at {proxy}: {why}"))?
            }
            None => (connected(&self.server).await?, Vec::new()),
        };
        let Some((Tls(terms), name)) = &self.tls else { return Ok((Box::new(far), early)) };
        if !early.is_empty() {
            return Err(format!("{}: it does not speak TLS", self.server));
        }
        let secured = TlsConnector::from(terms()?).connect(name.clone(), far).await;
        let far = secured.map_err(|error| self.over_tls(&error))?;
        Ok((Box::new(far), early))
    }
}

/// The far end of a way.
trait Far: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Far for T {}

async fn connected(address: &str) -> Result<TcpStream, String> {
    let far = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    _ = far.set_nodelay(true);
    Ok(far)
}

/// A connection through a proxy, and what has come of it already.
async fn tunnelled(proxy: &str, tunnel: &Arc<Tunnel>) -> Result<(TcpStream, Vec<u8>), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut far = connected(proxy).await?;
    let (mut tunnelling, mut say) = tunnel.begin();
    let mut heard = [0; 4 << 10];
    loop {
        far.write_all(&say).await.map_err(failed)?;
        say.clear();
        let read = far.read(&mut heard).await.map_err(failed)?;
        let Some(bytes) = heard.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Err("it closed before it had answered".to_owned());
        };
        if let Some(early) = tunnelling.hear(bytes, &mut say).map_err(|refused| refused.to_string())? {
            return Ok((far, early));
        }
    }
}

/// A host as certificates have it.
fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => Ok(ServerName::IpAddress(address.into())),
        Err(_) => ServerName::try_from(bare.to_owned()).map_err(|_| format!("`{host}` is no name of a host")),
    }
}

/// Whether the other end of a connection to a door is this process. `false` where the system does not say.
fn is_own(from: SocketAddr, door: SocketAddr) -> bool {
    let Ok(table) = std::fs::read_to_string("/proc/self/net/tcp") else { return false };
    let Some(inode) = inode_of(&table, from, door) else { return false };
    let wanted = format!("socket:[{inode}]");
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    let mut links = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.any(|link| link.as_os_str() == wanted.as_str())
}

/// The inode of the socket that connects one address to another, of a table as `/proc/net/tcp` has it.
fn inode_of(table: &str, from: SocketAddr, to: SocketAddr) -> Option<&str> {
    let written = |address: SocketAddr| match address {
        SocketAddr::V4(address) => {
            Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port()))
        }
        SocketAddr::V6(_) => None,
    };
    let (from, to) = (written(from)?, written(to)?);
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let ends = [words.next()?, words.next()?];
        (ends == [from.as_str(), to.as_str()]).then(|| words.nth(6)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use wire::ProxyKind;

    /// A proxy that carries nothing and never closes.
    fn stubborn() -> SocketAddr {
        let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = door.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            while let Ok((mut near, _)) = door.accept() {
                let mut asked = [0; 512];
                _ = near.read(&mut asked);
                _ = near.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello");
                kept.push(near);
            }
        });
        address
    }

    #[test]
    fn a_proxy_that_keeps_what_the_client_has_closed_holds_no_places() {
        let address = stubborn().to_string();
        let proxy = Proxy { kind: ProxyKind::Http, address, login: None };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let settings = Settings { proxy: Some(proxy), ..Settings::new("zk.plant:2181", "/v") };
        let ways = runtime.block_on(Ways::open(&settings)).unwrap();
        let door: SocketAddr = ways.servers.parse().unwrap();
        let client = std::thread::spawn(move || {
            for _ in 0..2 * CARRIED_MAX {
                let mut near = std::net::TcpStream::connect(door).unwrap();
                near.set_read_timeout(Some(PATIENCE * 12)).unwrap();
                let mut hello = [0; 5];
                near.read_exact(&mut hello).unwrap();
                assert_eq!(&hello, b"hello");
            }
        });
        runtime.block_on(async {
            while !client.is_finished() {
                tokio::time::sleep(REST / 50).await;
            }
        });
        client.join().unwrap();
    }

    #[test]
    fn our_own_connections_are_known_and_no_others() {
        let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = door.local_addr().unwrap();
        let near = std::net::TcpStream::connect(address).unwrap();
        let (far, from) = door.accept().unwrap();
        assert!(is_own(from, address));
        assert!(!is_own(address, address), "nobody connects so");
        drop((near, far));
        let others = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:0016 0200007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 8917 1 0 20 4 30 10 -1\n";
        let [from, to] = ["127.0.0.1:22", "127.0.0.2:54321"].map(|address| address.parse().unwrap());
        let inode = inode_of(others, from, to);
        assert_eq!(inode, Some("8917").filter(|_| cfg!(target_endian = "little")));
        assert_eq!(inode_of(others, to, from), None);
    }
}
