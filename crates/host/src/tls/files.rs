//! Certificates and keys from files.

use super::{TlsError, TlsSettings};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, RootCertStore};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A certificate with those that lead to its issuer, and its key.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    certificate_file: PathBuf,
    key_file: PathBuf,
}

/// Our identity, if there is one.
pub(super) fn identity(
    settings: &TlsSettings,
    notes: &mut Vec<String>,
) -> Result<Option<Identity>, TlsError> {
    let (certificate, key) = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(TlsError::Incomplete { given: "tls.certificate", lacks: "tls.key" }),
        (None, Some(_)) => return Err(TlsError::Incomplete { given: "tls.key", lacks: "tls.certificate" }),
    };
    let chain = certificates(certificate, "tls.certificate")?;
    if let Some(own) = chain.first() {
        check_time(certificate, own)?;
    }
    let (bytes, mode) = read(key, "tls.key")?;
    if mode & 0o077 != 0 {
        notes.push(format!(
            "others than its owner may read the private key in {} (tls.key): chmod 600 it",
            key.display()
        ));
    }
    let found = match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(found) => found,
        Err(PemError::NoItemsFound) => return Err(TlsError::NoKey { path: key.clone() }),
        Err(error) => return Err(not_pem(key, "tls.key", &error)),
    };
    let (certificate_file, key_file) = (certificate.clone(), key.clone());
    Ok(Some(Identity { chain, key: found, certificate_file, key_file }))
}

impl Identity {
    /// What the library says of the certificate and its key, in our words.
    pub(super) fn refusal<T>(&self, result: Result<T, Error>) -> Result<T, TlsError> {
        result.map_err(|error| match error {
            Error::InconsistentKeys(_) => TlsError::KeyMismatch {
                key: self.key_file.clone(),
                certificate: self.certificate_file.clone(),
            },
            Error::InvalidCertificate(reason) => bad(&self.certificate_file, "tls.certificate", &reason),
            other => TlsError::Refused(format!("{other} (tls.key is {})", self.key_file.display())),
        })
    }
}

/// Issuers whom we believe.
pub(super) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let key = "tls.ca or tls.client_ca";
    let mut store = RootCertStore::empty();
    for certificate in certificates(path, key)? {
        store.add(certificate).map_err(|error| bad(path, key, &error))?;
    }
    Ok(store)
}

fn certificates(path: &Path, key: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let (bytes, _) = read(path, key)?;
    let found: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::NoCertificate { path: path.to_owned(), key }),
        Ok(found) => Ok(found),
        Err(error) => Err(not_pem(path, key, &error)),
    }
}

fn read(path: &Path, key: &'static str) -> Result<(Vec<u8>, u32), TlsError> {
    let failed = |error: std::io::Error| TlsError::Unreadable {
        path: path.to_owned(),
        key,
        reason: error.to_string(),
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(std::io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes"))));
    }
    // Some editors put it in front.
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok((bytes, mode))
}

/// A certificate whose time is over would only be found out by those who connect.
fn check_time(path: &Path, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|error| bad(path, "tls.certificate", &error))?;
    let now = i64::try_from(crate::now().0 / 1_000_000_000).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    if now > validity.not_after.timestamp() {
        return Err(TlsError::Expired { path: path.to_owned(), since: validity.not_after.to_string() });
    }
    if now < validity.not_before.timestamp() {
        return Err(TlsError::NotYetValid { path: path.to_owned(), from: validity.not_before.to_string() });
    }
    Ok(())
}

fn bad(path: &Path, key: &'static str, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::BadCertificate { path: path.to_owned(), key, reason: reason.to_string() }
}

fn not_pem(path: &Path, key: &'static str, error: &PemError) -> TlsError {
    TlsError::NotPem { path: path.to_owned(), key, reason: error.to_string() }
}
