//! A client of brokers, as the configuration and a command line say.

use crate::users::read_password;
use crate::{Trouble, complain};
use config::Config;
use host::tls::TlsSettings;
use std::path::PathBuf;
use verge::{Builder, Client};

/// Which brokers, and who asks; what is not said comes from the configuration.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `host:port,host:port`.
    pub addresses: Option<String>,
    /// Whose certificates are believed.
    pub ca: Option<PathBuf>,
    /// The certificate to show.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Who to be.
    pub user: Option<String>,
    /// The password itself.
    pub password: Option<String>,
    /// Where it is.
    pub password_file: Option<PathBuf>,
    /// How many filters it may subscribe, where that is more than usual.
    pub subscriptions: Option<usize>,
}

/// A client of the brokers that were named, or else of the configured ones. Without waiting for a primary.
pub fn start(config: &Config, brokers: &Wanted, name: Option<&str>) -> Result<Client, Trouble> {
    let (given, secure) = (brokers.addresses.clone(), config.secure_client_addresses());
    let encrypted = brokers.ca.is_some() || given.is_none() && config.tls.ca.is_some() && secure.is_some();
    let configured = || secure.filter(|_| encrypted).unwrap_or_else(|| config.client_addresses());
    let addresses = given.unwrap_or_else(configured);
    let builder: Builder = Client::builder().failover(config.delays.failover);
    let builder = name.into_iter().fold(builder, Builder::name);
    let builder = brokers.subscriptions.into_iter().fold(builder, Builder::subscriptions);
    let builder = if encrypted { builder.tls(client_tls(config, brokers)) } else { builder };
    let builder = match credentials(config, brokers)? {
        Some((user, password)) => builder.credentials(&user, &password),
        None => builder,
    };
    Ok(builder.start(&addresses)?)
}

/// Whom a client believes, and what it shows.
fn client_tls(config: &Config, brokers: &Wanted) -> TlsSettings {
    let (mut certificate, mut key) = (brokers.certificate.clone(), brokers.key.clone());
    // The configured key may be the broker's, which not everybody may read; those come without a certificate.
    let readable =
        |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| std::fs::File::open(path).is_ok());
    if certificate.is_none() && readable(&config.tls.certificate) && readable(&config.tls.key) {
        (certificate, key) = (config.tls.certificate.clone(), config.tls.key.clone());
    }
    TlsSettings {
        certificate,
        key,
        ca: brokers.ca.clone().or_else(|| config.tls.ca.clone()),
        minimum: config.tls.minimum,
        ..TlsSettings::default()
    }
}

/// Who a command is, and its password. A password on the command line would be seen by everybody on the host.
fn credentials(config: &Config, brokers: &Wanted) -> Result<Option<(String, String)>, Trouble> {
    // Those of the configuration are for its own brokers.
    let known = config.client_addresses() + "," + &config.secure_client_addresses().unwrap_or_default();
    let ours = brokers.addresses.clone().is_none_or(|given| all_among(&given, &known));
    let configured = config.client.user.clone().filter(|_| ours);
    let Some(user) = brokers.user.clone().or(configured) else {
        if config.client.user.is_some() {
            complain(
                "verge: client.user is for the configured brokers, and not for these: say -u NAME, or nobody logs in",
            );
        }
        return Ok(None);
    };
    let of_configuration = config.client.password_file.as_ref().filter(|_| ours);
    let from_environment = || std::env::var(PASSWORD).ok();
    if let Some(password) = &brokers.password {
        return Ok(Some((user, password.clone())));
    }
    let password = match (&brokers.password_file, from_environment(), of_configuration) {
        (Some(file), _, _) | (None, None, Some(file)) => read_password(file)?,
        (None, Some(password), _) => password,
        (None, None, None) => {
            return Err(Trouble(format!(
                "there is no password for `{user}`: set {PASSWORD}, or give --password-file FILE or the key \
                 client.password_file"
            )));
        }
    };
    Ok(Some((user, password)))
}

/// Whether all of these addresses are among those, however this host is called.
fn all_among(given: &str, known: &str) -> bool {
    let (given, known) = (given.replace("localhost", "127.0.0.1"), known.replace("localhost", "127.0.0.1"));
    given.split(',').all(|given| known.split(',').any(|known| known == given))
}

/// The environment variable with the password.
const PASSWORD: &str = "VERGE_PASSWORD";

/// The same, when a primary is found.
pub fn connect(config: &Config, wanted: &Wanted, name: Option<&str>) -> Result<Client, Trouble> {
    let client = start(config, wanted, name)?;
    client.wait_for_primary()?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::all_among;

    #[test]
    fn credentials_are_for_brokers_that_are_configured_by_whatever_name_of_this_host() {
        let known = "127.0.0.1:7571,plant-b:7571,localhost:7572";
        for (given, among) in [
            ("localhost:7571", true),
            ("127.0.0.1:7572,plant-b:7571", true),
            ("plant-b:7572", false),
            ("127.0.0.1:7571,elsewhere:7571", false),
        ] {
            assert_eq!(all_among(given, known), among, "{given}");
        }
    }
}
