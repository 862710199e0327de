//! What is wrong with certificates and keys, each with the file and what to do.

use std::path::PathBuf;

/// Why certificates cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {} ({key}): {reason}; give the path of a file that this user may read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The key of the configuration that names it.
        key: &'static str,
        /// The system's word.
        reason: String,
    },
    /// A file is not PEM.
    #[error("{} ({key}) is not PEM: {reason}; convert it, as with `openssl x509 -inform der` or `openssl pkey`", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// The key of the configuration that names it.
        key: &'static str,
        /// Where it breaks.
        reason: String,
    },
    /// No certificate in a file.
    #[error("there is no certificate in {} ({key}): it must have a section `BEGIN CERTIFICATE`", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// The key of the configuration that names it.
        key: &'static str,
    },
    /// No key in a file.
    #[error("there is no private key in {} (tls.key): it must have a section `BEGIN PRIVATE KEY`, without a password", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A certificate that cannot be understood.
    #[error("a certificate in {} ({key}) is not usable: {reason}; have it issued again", path.display())]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// The key of the configuration that names it.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The key is not that of the certificate.
    #[error("the key in {} (tls.key) does not match the certificate in {} (tls.certificate): both must come from one request", key.display(), certificate.display())]
    KeyMismatch {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// Our certificate has expired.
    #[error("the certificate in {} (tls.certificate) has expired on {since}: have it issued again", path.display())]
    Expired {
        /// The file.
        path: PathBuf,
        /// Its last moment.
        since: String,
    },
    /// Our certificate is not valid yet.
    #[error("the certificate in {} (tls.certificate) is valid from {from} on only: set this host's clock, or have it issued again", path.display())]
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// Its first moment.
        from: String,
    },
    /// One key of the configuration needs another.
    #[error("{given} is given and {lacks} is not: give both")]
    Incomplete {
        /// What is there.
        given: &'static str,
        /// What is not.
        lacks: &'static str,
    },
    /// Certificates that were there at start are not there any more.
    #[error("{what} had certificates at start and would have none: that needs a restart")]
    Lacking {
        /// For what.
        what: &'static str,
    },
    /// A name that cannot be in a certificate.
    #[error("`{0}` is neither a host name nor an address, so no certificate can be checked against it")]
    Name(String),
    /// Something that the library refused.
    #[error("these certificates cannot be used: {0}")]
    Refused(String),
}
