//! One connection in the handshakes.

use super::upgrade::{self, Answer};
use super::{Entrant, Errand, Outcome};
use crate::network::Arrival;
use crate::tls::{Loaded, common_name, explain};
use crate::transport::{Layers, feed};
use crate::troubles::Cause;
use crate::websocket::WebSocket;
use contract::Time;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};
use rustls::{ClientConnection, Connection, ServerConnection};
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::{Transport, Tunnel, Tunnelling};

/// A connection whose handshake is under way.
pub(super) struct Pending {
    pub(super) socket: OwnedFd,
    pub(super) errand: Errand,
    pub(super) until: Time,
    pub(super) waits_to_write: bool,
    /// What it began with; certificates that are loaded meanwhile are for others.
    loaded: Option<Arc<Loaded>>,
    /// The proxy that is being asked.
    tunnelling: Option<Tunnelling>,
    /// What comes after that, where it is encrypted.
    tls: Option<Connection>,
    /// The request for a WebSocket so far, where one must come.
    request: Option<Vec<u8>>,
    /// What must be sent.
    out: Vec<u8>,
    sent: usize,
    /// What came after the request.
    early: Vec<u8>,
}

/// How far a pending has come.
pub(super) enum Step {
    /// It needs the other side.
    Waits { to_write: bool },
    /// It is done.
    Done,
    /// It cannot be done.
    Failed(Cause, String),
}

/// Bytes read at once: more than any handshake has.
const READ_BYTES: usize = 16 << 10;

impl Pending {
    /// Begins. An error says why that is not possible.
    pub(super) fn new(
        entrant: Entrant,
        loaded: Option<Arc<Loaded>>,
        until: Time,
    ) -> Result<Pending, (Errand, String)> {
        let Entrant { socket, errand } = entrant;
        let connection = match (&errand, &loaded) {
            (Errand::Accepted(arrival), _) if !arrival.transport.is_secure() => Ok(None),
            (Errand::Accepted(arrival), Some(loaded)) => match loaded.door(arrival.transport) {
                Some(guarded) => ServerConnection::new(guarded.config)
                    .map(|tls| Some(Connection::Server(tls)))
                    .map_err(|error| error.to_string()),
                None => Err("there is no certificate for this door".to_owned()),
            },
            (Errand::Dialed { name: None, .. }, _) => Ok(None),
            (Errand::Dialed { name: Some(name), .. }, Some(loaded)) => match loaded.outgoing() {
                Some(config) => ClientConnection::new(config, name.clone())
                    .map(|tls| Some(Connection::Client(tls)))
                    .map_err(|error| error.to_string()),
                None => Err("nobody is known who issues certificates of brokers (tls.ca)".to_owned()),
            },
            (_, None) => Err("there are no certificates".to_owned()),
        };
        let tls = match connection {
            Ok(tls) => tls,
            Err(reason) => return Err((errand, reason)),
        };
        let is_websocket = matches!(
            errand,
            Errand::Accepted(Arrival { transport: Transport::WebSocket | Transport::SecureWebSocket, .. })
        );
        let request = is_websocket.then(Vec::new);
        let tunnel = match &errand {
            Errand::Dialed { tunnel, .. } => tunnel.as_ref(),
            Errand::Accepted(_) => None,
        };
        let (tunnelling, out) = tunnel.map(Tunnel::begin).unzip();
        Ok(Pending {
            socket,
            errand,
            until,
            waits_to_write: false,
            loaded,
            tunnelling,
            tls,
            request,
            out: out.unwrap_or_default(),
            sent: 0,
            early: Vec::new(),
        })
    }

    /// Who it is, for people.
    pub(super) fn describe(&self) -> String {
        match &self.errand {
            Errand::Accepted(Arrival { from: Some(from), transport, .. }) => format!("{from} ({transport})"),
            Errand::Accepted(Arrival { from: None, transport, .. }) => format!("somebody ({transport})"),
            Errand::Dialed { address, tunnel: Some(_), .. } if self.tunnelling.is_some() => {
                format!("the proxy at {address}")
            }
            Errand::Dialed { address, tunnel: Some(tunnel), .. } => {
                format!("the broker behind the proxy at {address} ({tunnel:?})")
            }
            Errand::Dialed { address, .. } => format!("the broker at {address} (TLS)"),
        }
    }

    /// Goes on until the other side must.
    pub(super) fn advance(&mut self) -> Step {
        let mut buffer = [0; READ_BYTES];
        loop {
            self.take_records();
            let to_write = match self.flush() {
                Ok(done) => !done,
                Err(step) => return step,
            };
            if self.is_done() {
                return self.finish();
            }
            let came = match net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return closed(),
                Ok((_, read)) => &buffer[..read],
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Step::Waits { to_write },
                Err(_) => return closed(),
            };
            if let Err(step) = self.take(came) {
                // The alert, or the answer that says no.
                self.take_records();
                let _ = self.flush();
                let _ = net::shutdown(&self.socket, Shutdown::Write);
                return step;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.tunnelling.is_none()
            && self.request.is_none()
            && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Takes bytes of the socket.
    fn take(&mut self, came: &[u8]) -> Result<(), Step> {
        let Some(tunnelling) = &mut self.tunnelling else { return self.take_own(came) };
        let heard = tunnelling.hear(came, &mut self.out);
        let Some(early) = heard.map_err(|refused| Step::Failed(Cause::Proxy, refused.to_string()))? else {
            return Ok(());
        };
        self.tunnelling = None;
        if self.tls.is_none() {
            self.early = early;
            return Ok(());
        }
        self.take_own(&early)
    }

    /// Takes bytes of whoever is at the other end.
    fn take_own(&mut self, mut came: &[u8]) -> Result<(), Step> {
        let Some(tls) = &mut self.tls else {
            if let Some(request) = &mut self.request {
                request.extend_from_slice(came);
            }
            return self.look_at_request();
        };
        while !came.is_empty() {
            if let Err(error) = feed(tls, &mut came) {
                return Err(self.refusal(&error));
            }
            // Only a request is read here. What else has come, less than is read at once, stays with the library for the data
            // thread.
            if let Some(request) = self.request.as_mut().filter(|_| !tls.is_handshaking()) {
                read_plaintext(tls, request);
            }
        }
        self.look_at_request()
    }

    fn look_at_request(&mut self) -> Result<(), Step> {
        let Some(request) = &self.request else { return Ok(()) };
        match upgrade::answer(request) {
            Answer::Incomplete => Ok(()),
            Answer::Welcome { used, response } => {
                let early = request.get(used..).unwrap_or(&[]).to_vec();
                self.say(&response);
                self.request = None;
                self.early = early;
                Ok(())
            }
            Answer::Refused { reason, response } => {
                self.say(&response);
                Err(Step::Failed(Cause::WebSocketRequest, reason))
            }
        }
    }

    /// Why the library refused.
    fn refusal(&self, error: &rustls::Error) -> Step {
        let (cause, mut text) = explain(error);
        let door = match (&self.errand, &self.loaded) {
            (Errand::Accepted(arrival), Some(loaded)) => loaded.door(arrival.transport),
            _ => None,
        };
        // Whose certificate it was, if that is why.
        if let Some(name) = door.and_then(|door| door.authenticator?.take_refused()) {
            text = format!("{text}; the name in it is `{}`", name.escape_debug());
        }
        Step::Failed(cause, text)
    }

    /// Sends what it is told, encrypted where that is spoken.
    fn say(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Some(tls) => {
                // The library has room for much more than an answer.
                let _ = std::io::Write::write_all(&mut tls.writer(), bytes);
            }
            None => self.out.extend_from_slice(bytes),
        }
    }

    fn take_records(&mut self) {
        // The proxy hears nothing of it.
        if let Some(tls) = self.tls.as_mut().filter(|_| self.tunnelling.is_none()) {
            while tls.wants_write() {
                // Writing to memory cannot fail.
                let _ = tls.write_tls(&mut self.out);
            }
        }
    }

    /// Sends. Returns whether everything has left.
    fn flush(&mut self) -> Result<bool, Step> {
        while self.sent < self.out.len() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match net::send(&self.socket, &self.out[self.sent..], flags) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(_) => return Err(closed()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// The last look: whoever comes in as a broker must be one.
    fn finish(&self) -> Step {
        let by_pair_door =
            matches!(self.errand, Errand::Accepted(Arrival { transport: Transport::PairTls, .. }));
        let certificates = self.tls.as_ref().and_then(|tls| tls.peer_certificates()).unwrap_or(&[]);
        let is_broker = || {
            let loaded = self.loaded.as_ref();
            certificates.first().zip(loaded).is_some_and(|(own, loaded)| loaded.is_of_a_broker(own))
        };
        if by_pair_door && !is_broker() {
            let name = certificates.first().and_then(common_name).unwrap_or_default();
            let text = format!(
                "it comes in as the partner, and its certificate (`{}`) has none of the brokers' names and addresses",
                name.escape_debug()
            );
            return Step::Failed(Cause::CertificateName, text);
        }
        Step::Done
    }

    /// What the data thread gets.
    pub(super) fn into_outcome(mut self) -> Outcome {
        let is_websocket = matches!(
            self.errand,
            Errand::Accepted(Arrival { transport: Transport::WebSocket | Transport::SecureWebSocket, .. })
        );
        let certificates = self.tls.as_ref().and_then(|tls| tls.peer_certificates());
        let name = certificates.and_then(|all| all.first()).and_then(common_name);
        let ready = self.out.split_off(self.sent);
        let websocket = is_websocket.then(WebSocket::default);
        let layers = Layers::new(self.tls.take(), websocket, self.early, ready);
        Outcome::Ready { socket: self.socket, errand: self.errand, layers: Box::new(layers), name }
    }
}

fn closed() -> Step {
    Step::Failed(Cause::HandshakeClosed, "it closed before its handshake was done".to_owned())
}

/// Takes what the library has decrypted.
fn read_plaintext(tls: &mut Connection, into: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    loop {
        match tls.reader().read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => into.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
