//! TLS between peers: both sides show a certificate of one issuer, each for the host where it is reached.
//!
//! Who connects says who it is afterwards (`greeting.rs`), and is believed only for addresses whose host is in its certificate. Certificates are read again
//! for each connection, so that later ones need no restart.

use crate::greeting::host_of;
use host::tls::{MutualTerms, TlsSettings, is_for, mutual_terms, server_name};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A connection, encrypted or not.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// The certificate of who has connected, where connections are encrypted.
pub(crate) type Shown = Option<CertificateDer<'static>>;

/// Why a handshake has failed, which is to be said.
pub(crate) fn no_tls(error: &io::Error) -> io::Error {
    let why =
        "it speaks no TLS, or its certificate or ours is not believed (overlay.tls, tls.certificate, tls.ca)";
    io::Error::other(format!("{why}: {error}"))
}

/// How connections are made and taken.
#[derive(Clone)]
pub(crate) struct Secure(pub(crate) Option<std::sync::Arc<TlsSettings>>);

impl Secure {
    fn terms(&self) -> io::Result<Option<MutualTerms>> {
        self.0.as_deref().map(mutual_terms).transpose().map_err(io::Error::other)
    }

    /// Makes a connection to who is at an address.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<Box<dyn Wire>> {
        let terms = self.terms()?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Some(terms) = terms else { return Ok(Box::new(stream)) };
        let name = server_name(host_of(address)).map_err(io::Error::other)?;
        let made = TlsConnector::from(terms.outgoing).connect(name, stream).await;
        Ok(Box::new(made.map_err(|error| no_tls(&error))?))
    }

    /// Takes the connection of who has come.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<(Box<dyn Wire>, Shown)> {
        let Some(terms) = self.terms()? else { return Ok((Box::new(stream), None)) };
        let stream =
            TlsAcceptor::from(terms.incoming).accept(stream).await.map_err(|error| no_tls(&error))?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
        let shown = shown.ok_or_else(|| io::Error::other("it shows no certificate"))?;
        Ok((Box::new(stream), Some(shown.into_owned())))
    }

    /// Whether who has shown this may say that it is reached at an address.
    pub(crate) fn may_be_at(&self, shown: &Shown, address: &str) -> bool {
        self.0.is_none() || shown.as_ref().is_some_and(|shown| is_for(shown, host_of(address)))
    }
}
