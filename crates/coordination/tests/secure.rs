//! Certificates and passwords, with a real service.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod service;

use coordination::{Event, Login, Settings, Tls, Trouble};
use federation::{Lasting, Operation, Reply, Request};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use service::{Server, Talk};
use std::fs;
use std::sync::Arc;

fn create() -> Request {
    let path = "/a".to_owned();
    Request::Write(vec![Operation::Create { path, data: Vec::new(), lasting: Lasting::Ephemeral }])
}

fn trouble(talk: &Talk) -> Option<&Trouble> {
    talk.told.iter().find_map(|event| match event {
        Event::Trouble(trouble) => Some(trouble),
        _ => None,
    })
}

/// An authority, and what it has signed for the server and for us.
fn certificates(server: &Server) -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(server.file("authority.pem"), authority.pem()).unwrap();
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap().pem();
        fs::write(server.file(&format!("{name}.pem")), &certificate).unwrap();
        fs::write(server.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        let both = format!("{}{certificate}", key.serialize_pem());
        fs::write(server.file(&format!("{name}-both.pem")), both).unwrap();
    }
    format!(
        "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.trustStore.location={}\nssl.trustStore.type=PEM\n\
         ssl.clientAuth=need\n",
        server.secure_port,
        server.file("server-both.pem").display(),
        server.file("authority.pem").display()
    )
}

/// Who is believed, and with what we show ourselves.
fn terms(server: &Server, authority: &str, shows: bool) -> Tls {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(server.file(authority)).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let terms = if shows {
        let chain = vec![CertificateDer::from_pem_file(server.file("client.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(server.file("client.key")).unwrap();
        builder.with_client_auth_cert(chain, key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let terms = Arc::new(terms);
    Tls(Arc::new(move || Ok(Arc::clone(&terms))))
}

#[test]
fn connections_are_encrypted_and_both_ends_show_certificates() {
    let Some(server) = Server::start_with(certificates) else { return };
    let servers = format!("127.0.0.1:{}", server.secure_port);
    let settings = |tls: Tls| Settings { tls: Some(tls), ..Settings::new(&servers, "/secure") };
    let (mut talk, _) = Talk::connected(settings(terms(&server, "authority.pem", true)));
    assert_eq!(talk.answer(create()), Reply::Written(vec![None]));
    // Without a certificate of ours the server turns us away, and with another issuer we do so.
    for (authority, shows, said) in [
        ("authority.pem", false, "received fatal alert: BadCertificate"),
        ("client.pem", true, "invalid peer certificate"),
    ] {
        let mut talk = Talk::new(settings(terms(&server, authority, shows)));
        talk.until("trouble is told", |talk| trouble(talk).is_some());
        let words = trouble(&talk).unwrap().to_string();
        assert!(talk.sessions.is_empty());
        assert!(words.contains(said), "{words}");
    }
}

fn users(server: &Server) -> String {
    let users =
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required user_verge=\"right\";\n};\n";
    fs::write(server.file("users"), users).unwrap();
    "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n".to_owned()
}

#[test]
fn a_wrong_password_is_said() {
    let Some(server) = Server::start_with(users) else { return };
    let settings = |password: &str| {
        let login = Login::Sasl { user: "verge".to_owned(), password: password.to_owned() };
        Settings { login: Some(login), ..server.settings("/secure") }
    };
    let (mut talk, _) = Talk::connected(settings("right"));
    assert_eq!(talk.answer(create()), Reply::Written(vec![None]));
    let mut wrong = Talk::new(settings("wrong"));
    wrong.until("trouble is told", |talk| trouble(talk).is_some());
    let words = trouble(&wrong).unwrap().to_string();
    assert!(words.contains("turns verge away"), "{words}");
    assert!(wrong.sessions.is_empty(), "{:?}", wrong.told);
}
