//! TLS: certificates from files, what they are good for, and how both are exchanged while connections go on.

mod error;
mod files;
mod verify;

pub use error::TlsError;
pub(crate) use verify::{common_name, explain};

use rustls::client::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
pub use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, ServerConfig, WebPkiClientVerifier};
use rustls::{RootCertStore, SupportedProtocolVersion, version};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use verify::Attentive;
use wire::Transport;

/// Whether clients show certificates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    None,
    /// They are asked; who has none comes in as well.
    Optional,
    /// Who has none is refused.
    Required,
}

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V12,
    /// TLS 1.3.
    V13,
}

/// Where certificates are, and who is believed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsSettings {
    /// Our certificate and those that lead to its issuer, in PEM.
    pub certificate: Option<PathBuf>,
    /// Its key, in PEM.
    pub key: Option<PathBuf>,
    /// Who issues certificates of brokers.
    pub ca: Option<PathBuf>,
    /// Who issues certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// Whether clients show certificates.
    pub client_certificates: ClientCertificates,
    /// The oldest version that is spoken.
    pub minimum: TlsVersion,
    /// Names and addresses of brokers, one of which must be in the certificate of who connects as a partner.
    pub brokers: Vec<String>,
}

/// Certificates and what is believed, ready for handshakes. Those under way go on with what they began with.
pub struct Tls {
    loaded: RwLock<Arc<Loaded>>,
}

/// Certificates that were loaded again and are not used yet.
pub struct Renewed(Loaded);

/// What was loaded at once.
pub(crate) struct Loaded {
    /// For doors where clients come in.
    clients: Option<Guarded>,
    /// For doors where the partner comes in.
    pair: Option<Guarded>,
    /// For connections that we make.
    outgoing: Option<Arc<ClientConfig>>,
    brokers: Vec<ServerName<'static>>,
}

/// A door's terms, and whoever looks at certificates there.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) authenticator: Option<Arc<Attentive>>,
}

impl Tls {
    /// Loads certificates. Returns them with notes for the admin.
    pub fn load(settings: &TlsSettings) -> Result<(Tls, Vec<String>), TlsError> {
        let (loaded, notes) = Loaded::new(settings)?;
        Ok((Tls { loaded: RwLock::new(Arc::new(loaded)) }, notes))
    }

    /// Loads them again for the handshakes that begin from now on. After an error everything is as it was.
    pub fn reload(&self, settings: &TlsSettings) -> Result<Vec<String>, TlsError> {
        let (renewed, notes) = self.prepare(settings)?;
        self.adopt(renewed);
        Ok(notes)
    }

    /// Uses what was prepared, for the handshakes that begin from now on.
    pub fn adopt(&self, renewed: Renewed) {
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(renewed.0);
    }

    /// Loads them again without using them yet. Returns them with notes for the admin.
    pub fn prepare(&self, settings: &TlsSettings) -> Result<(Renewed, Vec<String>), TlsError> {
        let (loaded, notes) = Loaded::new(settings)?;
        let now = self.loaded();
        for (was, is, what) in [
            (now.clients.is_some(), loaded.clients.is_some(), "listeners"),
            (now.pair.is_some(), loaded.pair.is_some(), "the pair's listener"),
            (now.outgoing.is_some(), loaded.outgoing.is_some(), "connections to brokers"),
        ] {
            if was && !is {
                return Err(TlsError::Lacking { what });
            }
        }
        Ok((Renewed(loaded), notes))
    }

    /// Whether a door of this kind can be opened.
    pub fn serves(&self, transport: Transport) -> bool {
        !transport.is_secure() || self.loaded().door(transport).is_some()
    }

    /// Whether connections to brokers can be encrypted.
    pub fn dials(&self) -> bool {
        self.loaded().outgoing.is_some()
    }

    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Loaded {
    fn new(settings: &TlsSettings) -> Result<(Loaded, Vec<String>), TlsError> {
        let mut notes = Vec::new();
        let identity = files::identity(settings, &mut notes)?;
        let provider = Arc::new(ring::default_provider());
        let roots = settings.ca.as_deref().map(files::roots).transpose()?.map(Arc::new);
        let client_roots = settings.client_ca.as_deref().map(files::roots).transpose()?.map(Arc::new);
        let mut this = Loaded { clients: None, pair: None, outgoing: None, brokers: Vec::new() };
        for name in &settings.brokers {
            this.brokers.push(server_name(name)?);
        }
        if let Some(identity) = &identity {
            let asked = settings.client_certificates;
            let authenticator = match (asked, client_roots) {
                (ClientCertificates::None, _) => None,
                (_, None) => {
                    return Err(TlsError::Incomplete {
                        given: "tls.client_certificates",
                        lacks: "tls.client_ca",
                    });
                }
                (asked, Some(roots)) => {
                    Some(attentive(roots, asked == ClientCertificates::Optional, &provider, settings)?)
                }
            };
            this.clients = Some(guarded(identity, authenticator, &provider, settings)?);
            if let Some(roots) = &roots {
                let authenticator = attentive(Arc::clone(roots), false, &provider, settings)?;
                this.pair = Some(guarded(identity, Some(authenticator), &provider, settings)?);
            }
        } else if settings.client_certificates != ClientCertificates::None {
            return Err(TlsError::Incomplete { given: "tls.client_certificates", lacks: "tls.certificate" });
        }
        if let Some(roots) = roots {
            let builder = ClientConfig::builder_with_provider(provider)
                .with_protocol_versions(versions(settings.minimum))
                .map_err(|error| TlsError::Refused(error.to_string()))?
                .with_root_certificates(roots);
            let config = match &identity {
                Some(identity) => identity.refusal(
                    builder.with_client_auth_cert(identity.chain.clone(), identity.key.clone_key()),
                )?,
                None => builder.with_no_client_auth(),
            };
            this.outgoing = Some(Arc::new(config));
        }
        Ok((this, notes))
    }

    /// The terms of a door.
    pub(crate) fn door(&self, transport: Transport) -> Option<Guarded> {
        match transport {
            Transport::PairTls => self.pair.clone(),
            _ => self.clients.clone(),
        }
    }

    /// The terms of connections that we make.
    pub(crate) fn outgoing(&self) -> Option<Arc<ClientConfig>> {
        self.outgoing.clone()
    }

    /// Whether a certificate is that of a broker. Where no names are known, every certificate of the issuer is.
    pub(crate) fn is_of_a_broker(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return false };
        let is = |name: &ServerName<'_>| rustls::client::verify_server_name(&parsed, name).is_ok();
        self.brokers.is_empty() || self.brokers.iter().any(is)
    }
}

/// What connections that we make show and believe, from files as they are now. Certificates of whoever is reached lead to `ca`.
///
/// # Errors
///
/// There is no `ca`, or a file cannot be used.
pub fn client_terms(settings: &TlsSettings) -> Result<Arc<ClientConfig>, TlsError> {
    let (loaded, _) = Loaded::new(settings)?;
    loaded.outgoing.ok_or(TlsError::Incomplete { given: "TLS", lacks: "tls.ca" })
}

/// What connections between equals show and believe: both sides have certificates that lead to `ca`.
pub struct MutualTerms {
    /// Of connections that we make.
    pub outgoing: Arc<ClientConfig>,
    /// Of those that others make.
    pub incoming: Arc<ServerConfig>,
}

/// The same from files as they are now.
///
/// # Errors
///
/// There is no certificate, no key or no `ca`, or a file cannot be used.
pub fn mutual_terms(settings: &TlsSettings) -> Result<MutualTerms, TlsError> {
    let (loaded, _) = Loaded::new(settings)?;
    let lacks = |lacks| TlsError::Incomplete { given: "TLS", lacks };
    let outgoing = loaded.outgoing.ok_or(lacks("tls.ca"))?;
    let incoming = loaded.pair.ok_or(lacks("tls.certificate"))?.config;
    Ok(MutualTerms { outgoing, incoming })
}

/// Whether a certificate is for a host.
pub fn is_for(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let (Ok(parsed), Ok(name)) = (ParsedCertificate::try_from(certificate), server_name(host)) else {
        return false;
    };
    rustls::client::verify_server_name(&parsed, &name).is_ok()
}

/// A name or an address, as certificates have it.
pub fn server_name(text: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(ServerName::IpAddress(address.into()));
    }
    ServerName::try_from(bare.to_owned()).map_err(|_| TlsError::Name(text.to_owned()))
}

fn versions(minimum: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match minimum {
        TlsVersion::V12 => &BOTH,
        TlsVersion::V13 => &BOTH[..1],
    }
}

fn attentive(
    roots: Arc<RootCertStore>,
    optional: bool,
    provider: &Arc<CryptoProvider>,
    settings: &TlsSettings,
) -> Result<Arc<Attentive>, TlsError> {
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    if optional {
        builder = builder.allow_unauthenticated();
    }
    let refused = |error: &dyn fmt::Display| TlsError::Refused(format!("{error} ({:?})", settings.client_ca));
    Ok(Arc::new(Attentive::new(builder.build().map_err(|error| refused(&error))?)))
}

fn guarded(
    identity: &files::Identity,
    authenticator: Option<Arc<Attentive>>,
    provider: &Arc<CryptoProvider>,
    settings: &TlsSettings,
) -> Result<Guarded, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions(settings.minimum))
        .map_err(|error| TlsError::Refused(error.to_string()))?;
    let builder = match &authenticator {
        Some(authenticator) => builder.with_client_cert_verifier(authenticator.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config =
        identity.refusal(builder.with_single_cert(identity.chain.clone(), identity.key.clone_key()))?;
    if authenticator.is_some() {
        // Who shows a certificate is looked at every time: one that has expired must not come back by an old session.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Guarded { config: Arc::new(config), authenticator })
}
