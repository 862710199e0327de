//! Where the service is, and as whom it is spoken to.

use contract::Span;
use rustls::ClientConfig;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use wire::{ProxyKind, Tunnel};
use zookeeper_client::{Acls, Client, Connector, SaslOptions};

/// Where servers listen of which no port is given.
const USUAL_PORT: &str = "2181";

/// Where the service is, and as whom it is spoken to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The ensemble: `host:port` of each server, with commas between.
    pub servers: String,
    /// The node below which the whole tree stands, `/verge` or deeper; created where it is missing.
    pub namespace: String,
    /// Of which a participant may not be heard for so long before what it owns goes. The service may settle on another.
    pub session_time_out: Span,
    /// Connections are encrypted.
    pub tls: Option<Tls>,
    /// The proxy through which the servers are reached, if there is one.
    pub proxy: Option<Proxy>,
    /// Who we are. Nodes are then created for this user alone; without, anybody may change them.
    pub login: Option<Login>,
}

/// Whose signature on the servers' certificates is trusted, and what we show them: asked for each connection anew, so that files can be replaced. An
/// error is why there is nothing of the kind, for people.
#[derive(Clone)]
pub struct Tls(pub Arc<dyn Fn() -> Result<Arc<ClientConfig>, String> + Send + Sync>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// A user with a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// The `digest` scheme. The service takes any password: a wrong one shows only as [`federation::Refusal::Forbidden`].
    Digest {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// SASL with DIGEST-MD5. The service turns a wrong password away.
    Sasl {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
}

impl Login {
    /// The name.
    pub fn user(&self) -> &str {
        match self {
            Login::Digest { user, .. } | Login::Sasl { user, .. } => user,
        }
    }
}

/// A proxy of HTTP or SOCKS.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// What it speaks.
    pub kind: ProxyKind,
    /// Where it is: `host:port`.
    pub address: String,
    /// Who we are there, and the password.
    pub login: Option<(String, String)>,
}

/// The host and the port of a server.
pub(crate) fn place(server: &str) -> Result<(&str, u16), String> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, USUAL_PORT));
    let port = port.parse().map_err(|_| format!("`{port}` is no port"))?;
    Ok((host, port))
}

impl Proxy {
    /// What it is asked for to reach a server, `host:port`.
    pub(crate) fn tunnel(&self, server: &str) -> Result<Tunnel, String> {
        let (host, port) = place(server)?;
        let login = self.login.as_ref().map(|(user, password)| (&**user, &**password));
        Tunnel::new(self.kind, host, port, login).map_err(|error| format!("{server}: {error}"))
    }
}

/// Without the password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.kind, self.address)
    }
}

/// Without the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self {
            Login::Digest { .. } => "digest",
            Login::Sasl { .. } => "sasl",
        };
        write!(f, "{scheme} {}", self.user())
    }
}

/// Settings with which nothing can be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadSettings {
    /// There is no server.
    #[error("no server of the coordination service is named: give host:port of each, with commas between")]
    NoServers,
    /// The namespace is no path.
    #[error(
        "{0:?} is no namespace: it begins with a slash, does not end with one, and no part of it is empty or a dot"
    )]
    Namespace(String),
    /// The time-out is none.
    #[error("a session cannot time out after {0:?}: give 1 s or more")]
    TimeOut(Span),
    /// There are no certificates, or they cannot be used.
    #[error("the coordination service: {0}")]
    Certificates(String),
    /// A proxy cannot be asked for a server.
    #[error("a server of the coordination service cannot be reached through a proxy: {0}")]
    Proxy(String),
    /// The system gives no thread.
    #[error("the system gives no thread for the coordination service: {0}")]
    Thread(std::io::Error),
}

impl Settings {
    /// Servers and a namespace; a session time-out of 5 s, no encryption, and nobody in particular.
    pub fn new(servers: &str, namespace: &str) -> Settings {
        Settings {
            servers: servers.to_owned(),
            namespace: namespace.to_owned(),
            session_time_out: Span::secs(5),
            tls: None,
            proxy: None,
            login: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), BadSettings> {
        if self.servers.split(',').any(|server| server.trim().is_empty()) || self.servers.contains('/') {
            return Err(BadSettings::NoServers);
        }
        let mut parts = self.namespace.split('/');
        let is_rooted = parts.next() == Some("");
        if !is_rooted || parts.clone().next().is_none() || parts.any(|part| ["", ".", ".."].contains(&part)) {
            return Err(BadSettings::Namespace(self.namespace.clone()));
        }
        if let Some(proxy) = &self.proxy {
            for server in self.servers.split(',') {
                proxy.tunnel(server).map_err(BadSettings::Proxy)?;
            }
        }
        if self.session_time_out < Span::secs(1) {
            return Err(BadSettings::TimeOut(self.session_time_out));
        }
        match &self.tls {
            Some(Tls(terms)) => terms().map(|_| ()).map_err(BadSettings::Certificates),
            None => Ok(()),
        }
    }

    pub(crate) fn connector(&self) -> Connector {
        let time_out = Duration::from_nanos(self.session_time_out.as_nanos_u64());
        let connector = Client::connector().with_session_timeout(time_out).with_fail_eagerly();
        match &self.login {
            None => connector,
            Some(Login::Digest { user, password }) => {
                connector.with_auth("digest", format!("{user}:{password}").as_bytes())
            }
            Some(Login::Sasl { user, password }) => {
                connector.with_sasl(SaslOptions::digest_md5(user.clone(), password.clone()))
            }
        }
    }

    /// Who may do what with nodes that we create.
    pub(crate) fn access(&self) -> Acls<'static> {
        if self.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said_before_anything_is_tried() {
        assert!(Settings::new("a:2181,b:2181", "/verge/plant").check().is_ok());
        for servers in ["", "a:2181,", "a:2181/x"] {
            assert!(matches!(Settings::new(servers, "/v").check(), Err(BadSettings::NoServers)), "{servers}");
        }
        for namespace in ["", "/", "v", "/v/", "/v//w", "/.", "/v/.."] {
            let wrong = Settings::new("a", namespace).check();
            assert!(matches!(wrong, Err(BadSettings::Namespace(_))), "{namespace}");
        }
        let tls = Some(Tls(Arc::new(|| Err("no such file".to_owned()))));
        let wrong = Settings { tls, ..Settings::new("a", "/v") }.check().unwrap_err();
        assert!(matches!(wrong, BadSettings::Certificates(why) if why == "no such file"));
    }

    #[test]
    fn passwords_are_not_shown() {
        let login = Login::Digest { user: "verge".to_owned(), password: "secret".to_owned() };
        let settings = Settings { login: Some(login), ..Settings::new("a", "/v") };
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
