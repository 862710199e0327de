//! Looking at the certificates of peers, and saying what is wrong with them.

use crate::troubles::Cause;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Looks at certificates as the library does, and remembers the name in the last one that it refused: the library forgets
/// it, and operators want to know whose it was. Only one thread makes handshakes.
pub(crate) struct Attentive {
    inner: Arc<dyn ClientCertVerifier>,
    refused: Mutex<Option<String>>,
}

impl Attentive {
    pub(super) fn new(inner: Arc<dyn ClientCertVerifier>) -> Attentive {
        Attentive { inner, refused: Mutex::new(None) }
    }

    /// The name in the certificate that was refused last, once.
    pub(crate) fn take_refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Attentive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl ClientCertVerifier for Attentive {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let result = self.inner.verify_client_cert(end_entity, intermediates, now);
        if result.is_err() {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = common_name(end_entity);
        }
        result
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The longest name that is taken from a certificate.
const NAME_BYTES_MAX: usize = 256;

/// The common name of a certificate's subject, if it has one that can be read.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let name = parsed.subject().iter_common_name().next()?.as_str().ok()?;
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    fits.then(|| name.to_owned())
}

/// Why a handshake failed: for counting, and for people.
pub(crate) fn explain(error: &Error) -> (Cause, String) {
    match error {
        Error::NoCertificatesPresented => (
            Cause::CertificateMissing,
            "it shows no certificate, and tls.client_certificates requires one".to_owned(),
        ),
        Error::InvalidCertificate(reason) => explain_certificate(reason),
        Error::AlertReceived(alert) => match alert {
            AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked => {
                (Cause::CertificateRefused, format!("it does not accept our certificate ({alert:?})"))
            }
            AlertDescription::CertificateRequired => {
                (Cause::CertificateMissing, "it wants a certificate of ours, and there is none".to_owned())
            }
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
                (Cause::TlsVersion, format!("it has no version or cipher in common with us ({alert:?})"))
            }
            other => (Cause::TlsBroken, format!("it gave up ({other:?})")),
        },
        Error::PeerIncompatible(reason) => {
            (Cause::TlsVersion, format!("it has no version or cipher in common with us ({reason:?})"))
        }
        Error::InvalidMessage(_) => (Cause::TlsBroken, "what comes is no TLS".to_owned()),
        other => (Cause::TlsBroken, other.to_string()),
    }
}

fn explain_certificate(reason: &CertificateError) -> (Cause, String) {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (Cause::CertificateTime, "its certificate has expired".to_owned())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (Cause::CertificateTime, "its certificate is not valid yet: is a clock wrong?".to_owned())
        }
        CertificateError::UnknownIssuer => (
            Cause::CertificateUnknown,
            "its certificate was issued by somebody whom we do not know".to_owned(),
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            (Cause::CertificateName, "its certificate is for another name".to_owned())
        }
        other => (Cause::CertificateBad, format!("its certificate is bad ({other:?})")),
    }
}
