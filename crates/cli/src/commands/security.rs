//! `verge security init`: all that protects a pair and its clients, made in one go.
//!
//! Files that are there already are never written over: whoever wants new ones moves the old ones away first.

use crate::arguments::InitArguments;
use access::{Cost, SALT_BYTES, check_user_name, hash_password};
use config::{Config, main_file};
use console::{Outcome, Trouble, line, yes};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

/// For how many years certificates are good. A plant is not stopped because somebody forgot to renew them.
const YEARS: i16 = 10;
/// Clients reach a broker over TLS at the port behind that for clients, unless the configuration says where.
const BEHIND: u16 = 1;
/// As whom the shipped unit runs.
const UNIT_USER: &str = "verge";
/// Bytes of the pair's secret, and of the first user's password.
const SECRET_BYTES: usize = 32;
const PASSWORD_BYTES: usize = 12;
/// The fragment of the configuration that is made.
const FRAGMENT: &str = "security.toml";

/// Makes an issuer, a certificate for both hosts, the secret of the pair, and the first user.
pub fn run(config: &Config, file: Option<&Path>, arguments: &InitArguments) -> Outcome {
    check_user_name(&arguments.user).map_err(Trouble)?;
    let Some(main) = main_file(file) else {
        return Err(Trouble(
            "there is no configuration to protect: write [brokers.a] and [brokers.b] with the addresses of both hosts into verge.toml first"
                .to_owned(),
        ));
    };
    let beside = main.parent().unwrap_or(Path::new(""));
    let making =
        Making { folder: beside.join("security"), fragments: beside.join("conf.d"), made: Vec::new() };
    making.run(config, &arguments.user)
}

struct Making {
    folder: PathBuf,
    fragments: PathBuf,
    made: Vec<PathBuf>,
}

impl Making {
    fn run(mut self, config: &Config, user: &str) -> Outcome {
        for folder in [&self.folder, &self.fragments] {
            std::fs::create_dir_all(folder)
                .map_err(|error| Trouble(format!("cannot make the folder {}: {error}", folder.display())))?;
        }
        let hosts = hosts(config);
        let made =
            certificates(&hosts).map_err(|error| Trouble(format!("cannot make certificates: {error}")))?;
        let (secret, password) = (random_text(SECRET_BYTES)?, random_text(PASSWORD_BYTES)?);
        // The fragment comes last: until it is there, nothing has changed.
        let files = [
            ("ca.pem", made.issuer, 0o644),
            ("ca.key", made.issuer_key, 0o600),
            ("broker.pem", made.broker, 0o644),
            ("broker.key", made.broker_key, 0o600),
            ("pair.secret", format!("{secret}\n"), 0o600),
            ("users.toml", users(user, &password)?, 0o600),
            ("first-user.password", format!("{password}\n"), 0o600),
        ];
        for (name, text, mode) in &files {
            self.write(&self.folder.join(name), text, *mode)?;
        }
        self.write(&self.fragments.join(FRAGMENT), &fragment(config, user), 0o644)?;
        let owner = self.hand_over()?;
        self.tell(config, &hosts, user, owner)?;
        Ok(yes(true))
    }

    /// Nobody else may read what is secret, from the first moment on.
    fn write(&mut self, path: &Path, text: &str, mode: u32) -> Result<(), Trouble> {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all())).map_err(
            |error| {
                let path = path.display();
                Trouble(format!(
                    "cannot write {path}: {error}; what is there is not written over: move it away first"
                ))
            },
        )?;
        self.made.push(path.to_owned());
        Ok(())
    }

    /// Root makes the files that the unit's user has to read. Returns whose they are then.
    fn hand_over(&self) -> Result<Option<&'static str>, Trouble> {
        let is_root = std::fs::metadata(&self.folder)?.uid() == 0;
        let Some((user, group)) = unit_user().filter(|_| is_root) else { return Ok(None) };
        let brokers = self.made.iter().filter(|path| !path.ends_with("ca.key"));
        for path in brokers.chain([&self.folder]) {
            chown(path, Some(user), Some(group)).map_err(|error| {
                Trouble(format!("cannot give {} to {UNIT_USER}: {error}", path.display()))
            })?;
        }
        Ok(Some(UNIT_USER))
    }

    fn tell(
        &self,
        config: &Config,
        hosts: &BTreeSet<String>,
        user: &str,
        owner: Option<&str>,
    ) -> Result<(), Trouble> {
        for path in &self.made {
            line(&path.display().to_string())?;
        }
        line("")?;
        let hosts = hosts.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        line(&format!("Certificates for {hosts}, good for {YEARS} years. SIGHUP loads later ones."))?;
        if let Some(owner) = owner {
            line(&format!("They are {owner}'s, as whom the shipped unit runs."))?;
        }
        let (folder, fragments) = (self.folder.display(), self.fragments.display());
        line(&format!("Copy {folder} and {fragments} to the other host, and start both brokers again."))?;
        line(&format!(
            "Keep {folder}/ca.key somewhere else: it issues certificates, and brokers do not need it."
        ))?;
        line(&format!(
            "Commands are `{user}`, who may do everything; the password is in {folder}/first-user.password. `verge user add` adds others."
        ))?;
        for plain in plain_listeners(config) {
            line(&format!("note: {plain} is without TLS: passwords can be read on their way there"))?;
        }
        Ok(())
    }
}

/// Where brokers, and this host, may be reached.
fn hosts(config: &Config) -> BTreeSet<String> {
    let places = config
        .brokers
        .iter()
        .flat_map(|broker| broker.entrances().into_iter().map(|entrance| entrance.place.host().to_owned()));
    let peers = config.peers.iter().flat_map(|peers| &peers.peers);
    let peers = peers.map(|peer| peer.address.host().to_owned());
    let named = config.brokers.iter().map(|broker| broker.listeners.pair_host.clone());
    let unspecified = |host: &String| host == "0.0.0.0" || host == "::";
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    places
        .chain(named)
        .chain(peers)
        .chain(own)
        .map(|host| host.trim_matches(['[', ']']).to_owned())
        .filter(|host| !unspecified(host))
        .collect()
}

/// In PEM.
struct Certificates {
    issuer: String,
    issuer_key: String,
    broker: String,
    broker_key: String,
}

fn certificates(hosts: &BTreeSet<String>) -> Result<Certificates, rcgen::Error> {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    // A clock that is behind must not find them too young.
    let (year, month) = (i32::from(today.year()), today.month() as u8);
    let good = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(year - 1, month, 1);
        params.not_after = date_time_ymd(year + i32::from(YEARS), month, 1);
    };
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "Verge issuer");
    good(&mut params);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = CertificateParams::new(hosts.iter().cloned().collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, "verge broker");
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    good(&mut params);
    let key = KeyPair::generate()?;
    let broker = params.signed_by(&key, &issuer)?.pem();
    Ok(Certificates {
        issuer: issuer.pem(),
        issuer_key: issuer.key().serialize_pem(),
        broker,
        broker_key: key.serialize_pem(),
    })
}

fn random<const N: usize>() -> Result<[u8; N], Trouble> {
    let mut bytes = [0; N];
    host::fill_random(&mut bytes)
        .map_err(|error| Trouble(format!("the host has no random numbers: {error}")))?;
    Ok(bytes)
}

fn random_text(bytes: usize) -> Result<String, Trouble> {
    let random = random::<SECRET_BYTES>()?;
    Ok(random.iter().take(bytes).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// The user file with one user who may do everything.
fn users(name: &str, password: &str) -> Result<String, Trouble> {
    let hash = hash_password(password.as_bytes(), &random::<SALT_BYTES>()?, Cost::DEFAULT);
    let hash = hash.map_err(|error| Trouble(error.to_string()))?;
    Ok(format!(
        "# Who may connect, and who may do what: docs/users.md. `verge user add` adds users.\n\n\
         [[role]]\nname = \"everything\"\n\
         [[role.rule]]\nallow = [\"publish\", \"subscribe\", \"contract\"]\ntopics = [\"#\", \"$SYS/#\"]\n\
         [[role.rule]]\nallow = \"admin\"\n\n\
         [[user]]\nname = {name:?}\npassword = {hash:?}\nroles = [\"everything\"]\n"
    ))
}

/// What the configuration says of it.
fn fragment(config: &Config, user: &str) -> String {
    let mut text = format!(
        "# Made by `verge security init`: the same on both hosts. Paths start at this file.\n\n\
         [security]\nusers = \"../security/users.toml\"\npair_secret_file = \"../security/pair.secret\"\n\n\
         [tls]\ncertificate = \"../security/broker.pem\"\nkey = \"../security/broker.key\"\nca = \"../security/ca.pem\"\n\n\
         [client]\nuser = {user:?}\npassword_file = \"../security/first-user.password\"\n"
    );
    for broker in &config.brokers {
        let _ = write!(text, "\n[brokers.{}]\npair_tls = true\n", broker.name);
        if broker.listeners.clients_tls.is_none() {
            let host = broker.clients.as_str().rsplit_once(':').map_or("", |(host, _)| host);
            let _ = writeln!(text, "clients_tls = \"{host}:{}\"", broker.clients.port() + BEHIND);
        }
    }
    text
}

/// Listeners beyond this host where whoever listens in reads passwords.
fn plain_listeners(config: &Config) -> Vec<String> {
    let of = |broker: &config::BrokerAddress| {
        let open = broker.entrances().into_iter().filter(|entrance| {
            entrance.key != "pair" && !entrance.transport.is_secure() && !entrance.place.is_loopback()
        });
        let told =
            open.map(|entrance| format!("brokers.{}.{} = \"{}\"", broker.name, entrance.key, entrance.place));
        told.collect::<Vec<_>>()
    };
    config.brokers.iter().flat_map(of).collect()
}

/// The user and group of the shipped unit, where they are there.
fn unit_user() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, user, group) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (name == UNIT_USER).then(|| user.parse().ok().zip(group.parse().ok())).flatten()
    })
}
