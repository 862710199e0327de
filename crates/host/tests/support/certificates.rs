//! Certificates for tests, in files of a folder of their own.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, and not every test uses everything")]

use host::tls::{ClientCertificates, TlsSettings};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("verge-host-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, text).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Somebody who issues certificates.
pub struct Issuer(CertifiedIssuer<'static, KeyPair>);

/// When a certificate is valid.
#[derive(Clone, Copy, PartialEq)]
pub enum Validity {
    Now,
    Past,
    Future,
}

impl Issuer {
    pub fn new(name: &str) -> Issuer {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Issuer(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate with this common name for these names and addresses, and its key.
    pub fn issue(&self, name: &str, names: &[&str], validity: Validity) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) = match validity {
            Validity::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1)),
            Validity::Past => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Validity::Future => (date_time_ymd(2119, 1, 1), date_time_ymd(2120, 1, 1)),
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A broker's certificates: one for 127.0.0.1, and issuers for brokers and for clients.
pub struct Plant {
    pub folder: Folder,
    pub brokers: Issuer,
    pub clients: Issuer,
    pub settings: TlsSettings,
}

impl Plant {
    pub fn new(asked: ClientCertificates) -> Plant {
        let folder = Folder::new();
        let (brokers, clients) = (Issuer::new("brokers"), Issuer::new("clients"));
        let (certificate, key) = brokers.issue("broker a", &["127.0.0.1", "broker-a"], Validity::Now);
        let settings = TlsSettings {
            certificate: Some(folder.write("own.pem", &certificate)),
            key: Some(folder.write("own.key", &key)),
            ca: Some(folder.write("ca.pem", &brokers.pem())),
            client_ca: Some(folder.write("clients.pem", &clients.pem())),
            client_certificates: asked,
            ..TlsSettings::default()
        };
        Plant { folder, brokers, clients, settings }
    }

    /// What a client believes and shows.
    pub fn client(&self, identity: Option<(String, String)>) -> Arc<ClientConfig> {
        client(self.settings.ca.as_deref().unwrap(), identity)
    }
}

/// A client that believes this issuer.
pub fn client(ca: &Path, identity: Option<(String, String)>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match identity {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    })
}
