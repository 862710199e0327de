//! Where something is: a host, by address or by name, and a port. What a name means is asked again and again, since it may have no
//! meaning now, or another one later; and never by a thread that carries data, since asking may take many seconds.

use crate::helpers::Helpers;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A host and a port, `host:port`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    text: String,
    /// Where the text is an address, and nobody need be asked.
    literal: Option<SocketAddr>,
}

/// Addresses of one name at most; others are left out.
pub const ADDRESSES_MAX: usize = 8;
/// How soon a name is asked for again, at first; each time in vain doubles it.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(500);
const ASK_AGAIN_MOST: Duration = Duration::from_secs(10);

impl Place {
    /// The address, where the place is given by one.
    pub fn literal(&self) -> Option<SocketAddr> {
        self.literal
    }

    /// The host as it was given.
    pub fn host(&self) -> &str {
        self.text.rsplit_once(':').map_or("", |(host, _)| host)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.text.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
    }

    /// Whether it is all addresses of a host.
    pub fn is_unspecified(&self) -> bool {
        self.literal.is_some_and(|address| address.ip().is_unspecified())
    }

    /// Whether other hosts may reach it, as far as that is seen without asking for a name.
    pub fn is_of_others(&self) -> bool {
        match self.literal {
            Some(address) => !address.ip().is_unspecified() && !address.ip().is_loopback(),
            None => self.host() != "localhost",
        }
    }

    /// Whether it is on this host and nowhere else. A name that does not resolve is not known to be.
    pub fn is_loopback(&self) -> bool {
        self.resolve().is_ok_and(|addresses| addresses.iter().all(|address| address.ip().is_loopback()))
    }

    /// The place as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its addresses, of which there is one at least. Asking for a name may take many seconds.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        if let Some(address) = self.literal {
            return Ok(vec![address]);
        }
        let found = self.text.to_socket_addrs().map_err(|error| {
            let text = error.to_string();
            text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned()
        })?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() { Err("the name has no address".to_owned()) } else { Ok(addresses) }
    }

    /// The first of its addresses.
    pub fn resolve_one(&self) -> Result<SocketAddr, String> {
        let addresses = self.resolve()?;
        addresses.first().copied().ok_or_else(|| "the name has no address".to_owned())
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Place {
        Place { text: address.to_string(), literal: Some(address) }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if let Ok(address) = text.parse() {
            return Ok(Place { text: text.to_owned(), literal: Some(address) });
        }
        let Some((host, port)) = text.rsplit_once(':') else { return Err("it has no port".to_owned()) };
        if port.parse::<u16>().is_err() {
            return Err(format!("`{port}` is no port"));
        }
        let is_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '.' | '_');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(format!("`{host}` is no host"));
        }
        Ok(Place { text: text.to_owned(), literal: None })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// How long to wait until a name is asked for again.
#[derive(Clone, Debug)]
pub struct AskAgain(Duration);

impl Default for AskAgain {
    fn default() -> AskAgain {
        AskAgain(ASK_AGAIN_FIRST)
    }
}

impl AskAgain {
    /// The next time in vain.
    pub fn pause(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(ASK_AGAIN_MOST);
        pause
    }

    /// All is well.
    pub fn reset(&mut self) {
        *self = AskAgain::default();
    }
}

/// An address that one thread finds out and another uses.
#[derive(Clone, Default, Debug)]
pub struct Whereabouts(Arc<Mutex<Found>>);

#[derive(Default, Debug)]
struct Found {
    address: Option<SocketAddr>,
    /// Times that it was needed and did not lead anywhere.
    failures: u64,
}

impl Whereabouts {
    /// Known from the beginning.
    pub fn known(address: SocketAddr) -> Whereabouts {
        let whereabouts = Whereabouts::default();
        whereabouts.set(address);
        whereabouts
    }

    /// The address, if one is known.
    pub fn get(&self) -> Option<SocketAddr> {
        self.found(|found| found.address)
    }

    /// This is it from now on. Returns whether it is news.
    pub fn set(&self, address: SocketAddr) -> bool {
        self.found(|found| found.address.replace(address) != Some(address))
    }

    /// Nobody was reached there.
    pub(crate) fn fail(&self) {
        self.found(|found| found.failures += 1);
    }

    /// How often nobody was reached.
    pub fn failures(&self) -> u64 {
        self.found(|found| found.failures)
    }

    /// Whoever holds it does so for a few instructions.
    fn found<T>(&self, act: impl FnOnce(&mut Found) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Finds out where a place is, and again whenever nobody is reached there, on a thread of its own that lives as long as the process.
/// `say` hears when a name cannot be found out, when it can again, and when it means something else.
pub fn look_for(
    place: Place,
    say: impl Fn(&str) + Send + 'static,
    helpers: &Helpers,
) -> std::io::Result<Whereabouts> {
    if let Some(address) = place.literal() {
        return Ok(Whereabouts::known(address));
    }
    let whereabouts = Whereabouts::default();
    let found = whereabouts.clone();
    // Nobody waits for its end, since an answer may take many seconds.
    helpers.hire("names", move || -> Result<(), String> { keep_looking(&place, &found, &say) })?;
    Ok(whereabouts)
}

fn keep_looking(place: &Place, found: &Whereabouts, say: &impl Fn(&str)) -> ! {
    let mut again = AskAgain::default();
    let mut trouble = None;
    loop {
        let failures = found.failures();
        match place.resolve_one() {
            Ok(address) => {
                let before = found.get();
                if found.set(address) && (before.is_some() || trouble.is_some()) {
                    say(&format!("{place} is at {address} now"));
                }
                trouble = None;
            }
            Err(reason) => {
                if trouble.as_ref() != Some(&reason) {
                    say(&format!("{place} does not resolve ({reason}): it is asked for again"));
                }
                trouble = Some(reason);
            }
        }
        // Whoever is reached there need not be looked for.
        loop {
            std::thread::sleep(again.pause());
            if trouble.is_some() || found.failures() != failures {
                break;
            }
            again.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_and_a_port() {
        let place: Place = "127.0.0.1:7571".parse().unwrap();
        assert_eq!((place.literal(), place.host()), ("127.0.0.1:7571".parse().ok(), "127.0.0.1"));
        let place: Place = "[::1]:7571".parse().unwrap();
        assert!(place.literal().is_some());
        let place: Place = "plant-a.example:7571".parse().unwrap();
        assert_eq!((place.literal(), place.host()), (None, "plant-a.example"));
        for (text, reason) in [
            ("plant", "no port"),
            ("plant:x", "`x`"),
            (":7571", "no host"),
            ("a b:1", "no host"),
            ("a:70000", "70000"),
        ] {
            assert!(text.parse::<Place>().unwrap_err().contains(reason), "{text}");
        }
    }

    #[test]
    fn a_name_may_have_several_addresses() {
        let place: Place = "localhost:7571".parse().unwrap();
        let addresses = place.resolve().unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 7571));
    }

    #[test]
    fn asking_again_takes_longer_each_time_up_to_a_limit() {
        let mut again = AskAgain::default();
        let pauses: Vec<Duration> = (0..20).map(|_| again.pause()).collect();
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!((pauses[0], pauses[19]), (ASK_AGAIN_FIRST, ASK_AGAIN_MOST));
        again.reset();
        assert_eq!(again.pause(), ASK_AGAIN_FIRST);
    }

    #[test]
    fn what_one_thread_finds_another_uses() {
        let whereabouts = Whereabouts::default();
        let other = whereabouts.clone();
        assert_eq!(other.get(), None);
        let address = "127.0.0.1:1".parse().unwrap();
        assert!(whereabouts.set(address) && !whereabouts.set(address));
        assert_eq!(other.get(), Some(address));
    }
}
