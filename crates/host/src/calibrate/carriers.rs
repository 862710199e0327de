//! What a connection costs besides its messages, by how its bytes are carried.
//!
//! Connections over the loopback interface, each with somebody asleep at the other end who is woken by what comes, as subscribers are. A
//! write pays for that wake-up and for the whole way through the kernel to them. To subscribers on other hosts it pays less, so that its
//! cost is counted as it was measured; all others are doubled.

use super::HEADROOM;
use crate::poller::Poller;
use crate::transport::{Layers, feed};
use crate::websocket::WebSocket;
use contract::Span;
use contract::admission::Carriers;
use contract::rounds::Io;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use wire::Outbox;

/// Connections of each kind, each with a sleeper.
const LINES: usize = 4;
const ROUNDS: usize = 40;
/// Long enough that the others sleep again.
const PAUSE: Duration = Duration::from_micros(60);
const LITTLE: usize = 64;
const MUCH: usize = 16 << 10;
const MUCH_KIB: i64 = ((MUCH - LITTLE) / 1_024) as i64;

/// Measures all kinds.
pub(super) fn measure() -> Option<Carriers<Io>> {
    Some(Carriers {
        tcp: measure_kind(false, false)?,
        tls: measure_kind(true, false)?,
        websocket: measure_kind(false, true)?,
        secure_websocket: measure_kind(true, true)?,
    })
}

/// Asking whether something is ready, where something is.
pub(super) fn measure_waiting() -> Option<Span> {
    let mut line = Line::new(false, false)?;
    let poller = Poller::new().ok()?;
    poller.add(&line.near, 0, false).ok()?;
    line.bring(LITTLE)?;
    let (mut ready, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = crate::now();
        poller.wait(Span::ZERO, &mut ready).ok()?;
        taken.push(crate::now().since(begun));
    }
    Some(usual(taken) * HEADROOM as u64)
}

fn measure_kind(tls: bool, websocket: bool) -> Option<Io> {
    let mut lines = (0..LINES).map(|_| Line::new(tls, websocket)).collect::<Option<Vec<_>>>()?;
    let [mut little, mut much] = [const { [const { Vec::new() }; 2] }; 2];
    for _ in 0..ROUNDS {
        for (size, taken) in [(LITTLE, &mut little), (MUCH, &mut much)] {
            for line in &mut lines {
                taken[0].push(line.write(size)?);
                line.bring(size)?;
                taken[1].push(line.read(size)?);
            }
            std::thread::sleep(PAUSE);
        }
    }
    let [[write, read], [write_much, read_much]] = [little, much].map(|taken| taken.map(usual));
    let kib = Span((write_much - write).max(read_much - read).0.max(0) / MUCH_KIB);
    let counted = |span: Span| span * HEADROOM as u64;
    Some(Io { read: counted(read), write, kib: counted(kib) })
}

/// Half of them took no longer.
fn usual(mut taken: Vec<Span>) -> Span {
    taken.sort_unstable();
    taken.get(taken.len() / 2).copied().unwrap_or_default()
}

/// A connection as a broker has it, and its other end.
struct Line {
    near: TcpStream,
    layers: Option<Layers>,
    far: TcpStream,
    /// Makes what comes from the other end.
    client: Option<Connection>,
    websocket: bool,
    sleeper: Option<JoinHandle<()>>,
    room: Vec<u8>,
    scratch: Vec<u8>,
}

impl Line {
    fn new(tls: bool, websocket: bool) -> Option<Line> {
        let door = TcpListener::bind("127.0.0.1:0").ok()?;
        let far = TcpStream::connect(door.local_addr().ok()?).ok()?;
        let (near, _) = door.accept().ok()?;
        near.set_nodelay(true).ok()?;
        far.set_nodelay(true).ok()?;
        let sleeping = far.try_clone().ok()?;
        let sleeper = std::thread::Builder::new().name("verge-measure".to_owned()).spawn(move || {
            let mut thrown_away = vec![0; 2 * MUCH];
            while recv(&sleeping, &mut thrown_away[..], RecvFlags::empty()).is_ok_and(|(_, read)| read > 0) {}
        });
        let (server, client) = if tls { greeted()?.into() } else { (None, None) };
        let wrapped = tls || websocket;
        let websocket_of = || websocket.then(WebSocket::default);
        Some(Line {
            near,
            layers: wrapped.then(|| Layers::new(server, websocket_of(), Vec::new(), Vec::new())),
            far,
            client,
            websocket,
            sleeper: sleeper.ok(),
            room: vec![0; 4 * MUCH],
            scratch: vec![0; 4 * MUCH],
        })
    }

    /// Writes so much, and says how long that took.
    fn write(&mut self, size: usize) -> Option<Span> {
        let payload = vec![7; size];
        let mut outbox = Outbox::default();
        outbox.append(|bytes| bytes.extend_from_slice(&payload));
        let begun = crate::now();
        match &mut self.layers {
            None => _ = send(&self.near, outbox.unsent(), SendFlags::DONTWAIT).ok()?,
            Some(layers) => {
                layers.seal(&mut outbox);
                let sent = send(&self.near, layers.ready(), SendFlags::DONTWAIT).ok()?;
                layers.consume(sent);
            }
        }
        Some(crate::now().since(begun))
    }

    /// The other end sends so much.
    fn bring(&mut self, size: usize) -> Option<()> {
        let payload = vec![0; size];
        let mut framed = Vec::new();
        if self.websocket {
            // A client's frame, masked with zeros: what is unmasked takes as long.
            framed.extend_from_slice(&[0x82, 0x80 | 126]);
            framed.extend_from_slice(&(size as u16).to_be_bytes());
            framed.extend_from_slice(&[0; 4]);
        }
        framed.extend_from_slice(&payload);
        let mut sealed = Vec::new();
        match &mut self.client {
            None => sealed = framed,
            Some(client) => {
                client.writer().write_all(&framed).ok()?;
                while client.wants_write() {
                    client.write_tls(&mut sealed).ok()?;
                }
            }
        }
        self.far.write_all(&sealed).ok()
    }

    /// Reads so much, and says how long that took.
    fn read(&mut self, size: usize) -> Option<Span> {
        let (mut came, mut taken) = (0, Span::ZERO);
        while came < size {
            let begun = crate::now();
            let read = match &mut self.layers {
                None => recv(&self.near, &mut self.room[..], RecvFlags::empty()).ok()?.1,
                Some(layers) => layers.read(&self.near, usize::MAX, &mut self.room, &mut self.scratch).bytes,
            };
            if read > 0 {
                taken += crate::now().since(begun);
            }
            came += read;
        }
        Some(taken)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.near.shutdown(std::net::Shutdown::Both);
        let _ = self.sleeper.take().map(JoinHandle::join);
    }
}

/// Both ends of a connection over TLS whose handshake is done.
struct Greeted(Connection, Connection);

impl From<Greeted> for (Option<Connection>, Option<Connection>) {
    fn from(Greeted(server, client): Greeted) -> Self {
        (Some(server), Some(client))
    }
}

/// A handshake in memory with a key that is made for it.
fn greeted() -> Option<Greeted> {
    let provider = Arc::new(ring::default_provider());
    let key = ::ring::signature::EcdsaKeyPair::generate_pkcs8(
        &::ring::signature::ECDSA_P256_SHA256_ASN1_SIGNING,
        &::ring::rand::SystemRandom::new(),
    )
    .ok()?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_ref().to_vec()));
    let key = provider.key_provider.load_private_key(key).ok()?;
    let public = CertificateDer::from(key.public_key()?.as_ref().to_vec());
    let keys = AlwaysResolvesServerRawPublicKeys::new(Arc::new(CertifiedKey::new(vec![public], key)));
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(keys));
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .ok()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Ourselves(provider)))
        .with_no_client_auth();
    let mut server = Connection::from(ServerConnection::new(Arc::new(server)).ok()?);
    let name = ServerName::try_from("calibration").ok()?;
    let mut client = Connection::from(ClientConnection::new(Arc::new(client), name).ok()?);
    while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
        hand_over(&mut client, &mut server)?;
        hand_over(&mut server, &mut client)?;
    }
    Some(Greeted(server, client))
}

fn hand_over(from: &mut Connection, to: &mut Connection) -> Option<()> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).ok()?;
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        feed(to, &mut rest).ok()?;
    }
    Some(())
}

/// The client knows who the server is: both are this function.
#[derive(Debug)]
struct Ourselves(Arc<CryptoProvider>);

impl ServerCertVerifier for Ourselves {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
