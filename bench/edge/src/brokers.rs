//! The brokers under test, their certificates and their folder.

use crate::workload::{PROCESSED, SHARE_PPM, Workload};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One broker, or a pair, until dropped.
pub struct Brokers {
    children: Vec<Child>,
    folder: PathBuf,
    /// Where clients come in.
    pub tcp: SocketAddr,
    /// The same over TLS.
    pub tls: SocketAddr,
    /// The same of MQTT.
    pub mqtt: SocketAddr,
    /// All addresses of the own protocol.
    pub addresses: String,
    /// Whom clients believe.
    pub trust: Arc<ClientConfig>,
}

const PATIENCE: Duration = Duration::from_secs(20);
/// Ticks of processor time in a second.
const TICKS: f64 = 100.0;

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let doors: Vec<TcpListener> =
        (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<_>>()?;
    let mut ports = [0; N];
    for (port, door) in ports.iter_mut().zip(&doors) {
        *port = door.local_addr()?.port();
    }
    Ok(ports)
}

/// A broker's certificate and key, and who believes it.
fn certificates() -> io::Result<(String, String, ClientConfig)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer =
        CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
    let key = KeyPair::generate().map_err(failed)?;
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).map_err(failed)?;
    let own = own.signed_by(&key, &issuer).map_err(failed)?;
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).map_err(failed)?;
    let trust = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((own.pem(), key.serialize_pem(), trust))
}

impl Brokers {
    /// Starts what a workload needs, and waits until it is there.
    pub fn start(
        verge: &Path,
        profile: &Path,
        workload: &Workload,
        refuses_nothing: bool,
    ) -> io::Result<Brokers> {
        let folder = std::env::temp_dir().join(format!("verge-edge-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
            Ok::<_, io::Error>(path)
        };
        let (own, key, trust) = certificates()?;
        let (certificate, key) = (write("own.pem", &own)?, write("own.key", &key)?);
        let [a, a_pair, a_tls, a_mqtt, b, b_pair] = free_ports()?;
        let profile_folder = profile.parent().unwrap_or(Path::new("."));
        let mut text = format!(
            "[admission]\nshare = {}\nschedulability = {}\nprofile_folder = {:?}\n[replication]\nbudget = \"4s\"\n\
             [tls]\ncertificate = {:?}\nkey = {:?}\n[brokers.a]\nclients = \"127.0.0.1:{a}\"\npair = \"127.0.0.1:{a_pair}\"\n\
             clients_tls = \"127.0.0.1:{a_tls}\"\nmqtt = \"127.0.0.1:{a_mqtt}\"\nhttp = \"none\"\nstart_as = \"primary\"\n",
            f64::from(SHARE_PPM) / 1e6,
            !refuses_nothing,
            profile_folder,
            certificate,
            key,
        );
        if workload.pair {
            text += &format!(
                "[brokers.b]\nclients = \"127.0.0.1:{b}\"\npair = \"127.0.0.1:{b_pair}\"\nhttp = \"none\"\nstart_as = \"backup\"\n"
            );
        }
        if workload.operators {
            text += &format!(
                "[[source]]\ntopic = {PROCESSED:?}\nperiod = \"50ms\"\ntype = \"f32\"\n[[operator]]\nname = \"rms\"\nkind = \"rms\"\ninputs = [{PROCESSED:?}]\n\
                 window = 16\noutput = \"edge/rms\"\ndeadline = \"200ms\"\n"
            );
        }
        let config = write("verge.toml", &text)?;
        let mut children = Vec::new();
        for name in if workload.pair { &["a", "b"][..] } else { &["a"][..] } {
            let log = std::fs::File::create(folder.join(format!("{name}.log")))?;
            children.push(
                Command::new(verge)
                    .args(["--while-input", "--config"])
                    .arg(&config)
                    .args(["broker", name])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(log)
                    .spawn()?,
            );
        }
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let addresses =
            if workload.pair { format!("127.0.0.1:{a},127.0.0.1:{b}") } else { format!("127.0.0.1:{a}") };
        let mut brokers = Brokers {
            children,
            folder,
            tcp: at(a),
            tls: at(a_tls),
            mqtt: at(a_mqtt),
            addresses,
            trust: Arc::new(trust),
        };
        brokers.wait(if workload.pair { "protected: " } else { "is primary" })?;
        Ok(brokers)
    }

    fn wait(&mut self, sentence: &str) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::read_to_string(self.folder.join("a.log"))?;
            if log.contains(sentence) {
                return Ok(());
            }
            let ended = self.children.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || Instant::now() > until {
                return Err(failed(format!("the broker did not get ready:\n{log}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Processor time of the first broker so far, in seconds.
    pub fn used(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.children.first().map_or(0, Child::id));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // They end with their input.
            drop(child.stdin.take());
            let until = Instant::now() + Duration::from_secs(5);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
