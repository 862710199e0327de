//! Certificates that cannot be used are refused before anybody connects, with the file and what to do.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use host::tls::{ClientCertificates, Tls, TlsSettings};
use std::os::unix::fs::PermissionsExt;
use support::certificates::{Plant, Validity};

/// The refusal of these settings.
fn refusal(settings: &TlsSettings) -> String {
    Tls::load(settings).map(drop).unwrap_err().to_string()
}

/// The same after the broker's certificate was replaced by one with this validity.
fn refusal_of(validity: Validity) -> String {
    let plant = Plant::new(ClientCertificates::None);
    let (certificate, key) = plant.brokers.issue("broker a", &["127.0.0.1"], validity);
    plant.folder.write("own.pem", &certificate);
    plant.folder.write("own.key", &key);
    refusal(&plant.settings)
}

#[test]
fn certificates_out_of_their_time_are_refused_with_the_date() {
    let expired = refusal_of(Validity::Past);
    assert!(
        expired.contains("own.pem") && expired.contains("2021") && expired.contains("issued again"),
        "{expired}"
    );
    let early = refusal_of(Validity::Future);
    assert!(early.contains("own.pem") && early.contains("2119") && early.contains("clock"), "{early}");
}

#[test]
fn files_that_are_something_else_are_refused_with_what_they_should_be() {
    let plant = Plant::new(ClientCertificates::Required);
    let with = |change: &dyn Fn(&mut TlsSettings)| {
        let mut settings = plant.settings.clone();
        change(&mut settings);
        refusal(&settings)
    };
    let broken =
        plant.folder.write("broken.pem", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n");
    let garbage =
        plant.folder.write("garbage.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let empty = plant.folder.write("empty.pem", "");
    let cases = [
        (with(&|settings| settings.certificate = Some(broken.clone())), ["broken.pem", "not PEM"]),
        (with(&|settings| settings.certificate = Some(garbage.clone())), ["garbage.pem", "not usable"]),
        (with(&|settings| settings.certificate = Some(empty.clone())), ["empty.pem", "no certificate"]),
        (with(&|settings| settings.ca = Some(garbage.clone())), ["garbage.pem", "tls.ca"]),
        (with(&|settings| settings.client_ca = Some(empty.clone())), ["empty.pem", "tls.client_ca"]),
        (with(&|settings| settings.client_ca = None), ["tls.client_certificates", "tls.client_ca"]),
        (with(&|settings| settings.key = None), ["tls.certificate", "tls.key"]),
        (with(&|settings| settings.key.clone_from(&settings.ca)), ["ca.pem", "no private key"]),
        (with(&|settings| settings.key = Some(plant.folder.file("absent"))), ["absent", "give the path"]),
    ];
    for (said, words) in cases {
        assert!(words.iter().all(|word| said.contains(word)), "{said} lacks one of {words:?}");
    }
}

#[test]
fn a_key_that_others_may_read_is_noted() {
    let plant = Plant::new(ClientCertificates::None);
    let (_, notes) = Tls::load(&plant.settings).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    let key = plant.settings.key.clone().unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (_, notes) = Tls::load(&plant.settings).unwrap();
    assert!(notes[0].contains("own.key") && notes[0].contains("chmod 600"), "{notes:?}");
}

#[test]
fn a_byte_order_mark_in_front_is_none_of_it() {
    let plant = Plant::new(ClientCertificates::Required);
    let TlsSettings { certificate, key, ca, .. } = &plant.settings;
    for file in [certificate, key, ca] {
        let path = file.as_ref().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, format!("\u{feff}{text}")).unwrap();
    }
    assert!(Tls::load(&plant.settings).is_ok());
}
