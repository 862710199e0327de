//! What protects a broker: certificates, and the rule that nothing listens beyond this host without protection.

use super::reload::{Commit, Taker};
use crate::Trouble;
use crate::log::Lines;
use config::{BrokerAddress, Config, Entrance};
use host::tls::{ClientCertificates, Tls, server_name};
use host::{HandshakeSettings, Handshakes, Helpers, Partner, Troubles, Whereabouts, look_for};
use std::sync::Arc;
use wire::Transport;

/// Refuses to listen beyond this host where whoever reaches the listener could do anything.
pub fn check_exposure(config: &Config, own: &BrokerAddress, insecure: bool) -> Result<(), Trouble> {
    let required = config.tls.client_certificates == ClientCertificates::Required;
    let is_protected = |entrance: &Entrance<'_>| match entrance.key {
        // Users do not come in there; a stranger could take the partner's place and get everything.
        "pair" => entrance.transport == Transport::PairTls,
        _ => config.security.users.is_some() || required && entrance.transport.is_secure(),
    };
    let open: Vec<String> = own
        .entrances()
        .iter()
        .filter(|entrance| !is_protected(entrance) && !entrance.place.is_loopback())
        .map(|Entrance { key, place, .. }| format!("brokers.{}.{key} = \"{place}\"", own.name))
        .collect();
    if insecure || open.is_empty() {
        return Ok(());
    }
    let pair_only = open.iter().all(|line| line.contains(".pair = "));
    let remedies = if pair_only {
        format!(
            "run `verge security init`, which sets brokers.{}.pair_tls = true with tls.certificate, tls.key and tls.ca; or listen on 127.0.0.1; or, in a \
             network that you trust, say `verge broker {} --insecure`",
            own.name, own.name
        )
    } else {
        format!(
            "run `verge security init`, which gives users (security.users) and certificates; or use only listeners with TLS and set tls.client_certificates = \"required\" with \
             tls.client_ca (for the pair: pair_tls = true); or, in a network that you trust, say `verge broker {} --insecure`",
            own.name
        )
    };
    Err(Trouble(format!(
        "the broker would listen beyond this host, and whoever reaches it could publish and subscribe: {}\n  = {remedies}",
        open.join(", ")
    )))
}

/// Certificates, where any are needed.
pub struct Certificates {
    tls: Option<Arc<Tls>>,
    lines: Lines,
}

impl Certificates {
    /// Loads what the doors and the connection to the partner need.
    pub fn load(
        config: &Config,
        own: &BrokerAddress,
        partner: Option<&BrokerAddress>,
        lines: &Lines,
    ) -> Result<Certificates, Trouble> {
        let Some((tls, notes)) = load_tls(config, own, partner)? else {
            return Ok(Certificates { tls: None, lines: lines.clone() });
        };
        notes.iter().for_each(|note| lines.say(&format!("note: {note}")));
        Ok(Certificates { tls: Some(Arc::new(tls)), lines: lines.clone() })
    }

    /// Starts the thread that makes handshakes, where a door or the partner needs any.
    pub fn handshakes(
        &self,
        config: &Config,
        own: &BrokerAddress,
        troubles: &Arc<Troubles>,
        helpers: &Helpers,
    ) -> Result<Option<Handshakes>, Trouble> {
        let shakes = own.entrances().iter().any(|entrance| entrance.transport != Transport::Plain);
        if !shakes && self.tls.is_none() {
            return Ok(None);
        }
        let settings = HandshakeSettings {
            handshakes: config.handshakes,
            within: config.limits.greeting,
            tls: self.tls.clone(),
            troubles: Arc::clone(troubles),
        };
        Ok(Some(Handshakes::start(settings, helpers)?))
    }
}

/// Keys and certificates, and what to say of them, where a door or the connection to the partner needs any.
pub fn load_tls(
    config: &Config,
    own: &BrokerAddress,
    partner: Option<&BrokerAddress>,
) -> Result<Option<(Tls, Vec<String>)>, Trouble> {
    let dials = partner.is_some_and(|partner| partner.listeners.pair_tls);
    let needed = dials || own.entrances().iter().any(|entrance| entrance.transport.is_secure());
    let load = || Tls::load(&config.tls).map_err(|error| Trouble(error.to_string()));
    needed.then(load).transpose()
}

impl Taker for Certificates {
    /// Loads them again, whether or not a key has changed: files have the same names and something else in them.
    fn prepare(&mut self, config: &Config) -> Result<Commit, String> {
        let Some(tls) = self.tls.clone() else { return Ok(Box::new(|| {})) };
        let (renewed, notes) = tls.prepare(&config.tls).map_err(|error| error.to_string())?;
        let lines = self.lines.clone();
        Ok(Box::new(move || {
            tls.adopt(renewed);
            notes.iter().for_each(|note| lines.say(&format!("note: {note}")));
            lines.say("certificates are loaded again: new connections use them, the others go on");
        }))
    }
}

/// Where the partner is. Its name need not resolve now: whoever waits for the other host's name at start is as weak as both.
pub fn whereabouts(
    partner: &BrokerAddress,
    lines: &Lines,
    helpers: &Helpers,
) -> Result<Whereabouts, Trouble> {
    let (lines, key) = (lines.clone(), format!("brokers.{}.pair", partner.name));
    let say = move |line: &str| lines.warn(&format!("note: {key}: {line}"));
    Ok(look_for(partner.pair.clone(), say, helpers)?)
}

/// Where the partner is, and what its certificate must have.
pub fn partner(
    partner: Option<&BrokerAddress>,
    whereabouts: Option<Whereabouts>,
) -> Result<Option<Partner>, Trouble> {
    let (Some(partner), Some(whereabouts)) = (partner, whereabouts) else { return Ok(None) };
    let listeners = &partner.listeners;
    let name = listeners.pair_tls.then(|| server_name(&listeners.pair_host)).transpose();
    let name = name.map_err(|error| Trouble(format!("brokers.{}.pair: {error}", partner.name)))?;
    Ok(Some(Partner { whereabouts, name }))
}
