//! The broker under test: `verge broker` without a partner, or mosquitto where the tests themselves are tried.

use crate::support::{Folder, ORDINARY, Process, free_ports, program, wait_until};
use crate::tools::{self, Tool};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What listeners `verge broker` has so far. Tests of the others are skipped.
const VERGE_HAS: [(Listener, bool); 3] =
    [(Listener::Plain, true), (Listener::Tls, true), (Listener::WebSocket, true)];

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// MQTT over TCP.
    Plain,
    /// MQTT over TLS; clients need a certificate of the authority where `mutual` is asked for.
    Tls,
    /// MQTT over WebSocket.
    WebSocket,
}

/// Which broker is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program of this workspace.
    Verge,
    /// To try the tests.
    Mosquitto,
}

/// By the environment.
pub fn kind() -> Kind {
    match std::env::var("VERGE_TEST_MQTT").as_deref() {
        Ok("mosquitto") => Kind::Mosquitto,
        Ok(other) => panic!("VERGE_TEST_MQTT={other}: only `mosquitto` is known"),
        Err(_) => Kind::Verge,
    }
}

/// A mosquitto, whatever broker is tried.
pub fn mosquitto_alone() -> Tool<Broker> {
    tools::mosquitto()?;
    Ok(Broker::start_as(Kind::Mosquitto, Listener::Plain, None))
}

/// Whether this listener can be tried; if not, why.
pub fn can(listener: Listener) -> Tool<()> {
    match kind() {
        Kind::Mosquitto => tools::mosquitto().map(drop),
        Kind::Verge if VERGE_HAS.contains(&(listener, true)) => Ok(()),
        Kind::Verge => Err(format!("`verge broker` has no {listener:?} listener for MQTT yet")),
    }
}

/// Files for TLS, in PEM.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Who signs both others.
    pub authority: PathBuf,
    /// The broker's certificate, for 127.0.0.1 and localhost, and its key.
    pub server: [PathBuf; 2],
    /// Whether clients must show a certificate.
    pub mutual: bool,
}

/// A running broker. All of its listeners are on 127.0.0.1.
pub struct Broker {
    /// Its process.
    pub process: Process,
    /// The port of the listener that was asked for.
    pub port: u16,
    /// Its configuration and log.
    pub folder: Folder,
}

impl Broker {
    /// Starts one without security, if that can be.
    pub fn start() -> Tool<Broker> {
        can(Listener::Plain)?;
        Ok(Broker::start_as(kind(), Listener::Plain, None))
    }

    /// Starts one with this listener, if that can be.
    pub fn start_listening(listener: Listener, secrets: Option<&Secrets>) -> Tool<Broker> {
        can(listener)?;
        Ok(Broker::start_as(kind(), listener, secrets))
    }

    fn start_as(kind: Kind, listener: Listener, secrets: Option<&Secrets>) -> Broker {
        let folder = Folder::new();
        let [port, clients, pair] = free_ports::<3>();
        let (mut command, name) = match kind {
            Kind::Verge => (verge(&folder, listener, secrets, [port, clients, pair]), "a.log"),
            Kind::Mosquitto => (mosquitto(&folder, listener, secrets, [port, clients]), "mosquitto.log"),
        };
        let log = folder.path(name);
        let process = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()), log);
        let broker = Broker { process, port, folder };
        wait_until("a listening broker", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        broker
    }
}

fn verge(folder: &Folder, listener: Listener, secrets: Option<&Secrets>, ports: [u16; 3]) -> Command {
    let [port, clients, pair] = ports;
    let key = match listener {
        Listener::Plain => "mqtt",
        Listener::Tls => "mqtt_tls",
        Listener::WebSocket => "mqtt_ws",
    };
    let mut text = format!(
        "{ORDINARY}[mqtt]\ntopic_aliases = 64\n[detection]\nseek_primary = \"10ms\"\n[brokers.a]\nclients = \"127.0.0.1:{clients}\"\n\
         pair = \"127.0.0.1:{pair}\"\nstart_as = \"primary\"\n{key} = \"127.0.0.1:{port}\"\n"
    );
    if let Some(secrets) = secrets {
        let [certificate, private] = &secrets.server;
        text += &format!("[tls]\ncertificate = {certificate:?}\nkey = {private:?}\n");
        if secrets.mutual {
            text += &format!("client_ca = {:?}\nclient_certificates = \"required\"\n", secrets.authority);
        }
    }
    let mut command = program(["broker", "a", "--config"]);
    command.arg(folder.write("verge.toml", text));
    command
}

fn mosquitto(folder: &Folder, listener: Listener, secrets: Option<&Secrets>, ports: [u16; 2]) -> Command {
    let [port, other] = ports;
    // The default drops what waits above a thousand messages.
    let mut text = format!(
        "allow_anonymous true\nmax_queued_messages 0\nuser root\nlog_dest stderr\nlistener {port} 127.0.0.1\n"
    );
    if listener == Listener::WebSocket {
        // It does not start where it has listeners for WebSocket only, and its library wants another word for the address.
        text = text.replace(" 127.0.0.1", "")
            + &format!("bind_interface lo\nprotocol websockets\nlistener {other} 127.0.0.1\n");
    }
    if let Some(secrets) = secrets {
        let [certificate, key] = &secrets.server;
        text += &format!("certfile {}\nkeyfile {}\n", certificate.display(), key.display());
        if secrets.mutual {
            text += &format!("cafile {}\nrequire_certificate true\n", secrets.authority.display());
        }
    }
    let mut command = Command::new(tools::mosquitto().unwrap());
    command.arg("-c").arg(folder.write("mosquitto.conf", text));
    command
}
