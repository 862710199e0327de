//! How a site is joined to others.

use super::{Config, Understanding, keys};
use contract::{LinkClass, Span, TopicFilter};
use host::Place;
use std::path::PathBuf;

/// Routers that a site may be told of.
pub const ROUTERS_MAX: usize = 14;

/// What joins a site to others.
#[derive(Clone, PartialEq, Debug)]
pub struct SiteConfig {
    /// Its name.
    pub name: String,
    /// Topics that may leave it.
    pub share: Vec<TopicFilter>,
    /// Topics of other sites that may come.
    pub want: Vec<TopicFilter>,
    /// Who its uplink is at the site's own brokers.
    pub at_home: Login,
    /// Who it is at routers.
    pub at_routers: Login,
    /// Whether connections to routers are encrypted.
    pub secure: bool,
    /// The link class by which routers reckon the way to the site.
    pub link: LinkClass,
    /// Messages of each stream that are retained for a router that fails, at least.
    pub retain: u32,
    /// The routers.
    pub routers: Vec<RouterAddress>,
}

impl SiteConfig {
    /// Whether there is one router, which has no partner: nothing crosses while it is away.
    pub fn is_lonely(&self) -> bool {
        matches!(&self.routers[..], [only] if only.places.len() < 2)
    }
}

impl Config {
    /// How long the way to subscribers of a link class is reckoned to take; nothing where it is not configured, which is refused for what is.
    pub fn way(&self, class: LinkClass) -> Span {
        self.links.delay(class).map_or(Span::ZERO, |link| link.to_subscriber)
    }

    /// How long the ways of a site's uplink are reckoned to take at most: from its broker to it and back, and to a router and back.
    pub fn ways(&self, site: &SiteConfig) -> [Span; 2] {
        [self.way(LinkClass::EDGE).max(self.delays.publisher_to_broker), self.way(site.link)]
    }
}

/// Who somebody is, and where the password is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The user; `None`: nobody.
    pub user: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
}

/// Where a router is reached.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterAddress {
    /// Its name.
    pub name: String,
    /// Its brokers: one, or both of a pair.
    pub places: Vec<Place>,
}

impl Understanding {
    pub(super) fn site(&self) -> Option<SiteConfig> {
        let name = self.get(&keys::SITE_NAME)?;
        let router = |name: String| {
            let first = self.of(&keys::ROUTERS_ADDRESS, &name)??;
            let second = self.of(&keys::ROUTERS_PARTNER, &name).flatten();
            Some(RouterAddress { places: [first].into_iter().chain(second).collect(), name })
        };
        let login = |user, file| Login { user: self.get(user), password_file: self.file(file) };
        Some(SiteConfig {
            name,
            share: self.get(&keys::SITE_SHARE),
            want: self.get(&keys::SITE_WANT),
            at_home: login(&keys::SITE_USER, &keys::SITE_PASSWORD_FILE),
            at_routers: login(&keys::UPLINK_USER, &keys::UPLINK_PASSWORD_FILE),
            secure: self.get(&keys::UPLINK_TLS).unwrap_or_else(|| self.file(&keys::TLS_CA).is_some()),
            link: self.get(&keys::UPLINK_LINK).unwrap_or(LinkClass::CLOUD),
            retain: self.get(&keys::UPLINK_RETAIN),
            routers: self.names(&keys::ROUTERS_ADDRESS).into_iter().filter_map(router).collect(),
        })
    }

    pub(super) fn check_site(&mut self, config: &Config) {
        let Some(site) = &config.site else {
            // A name that is none has been told.
            let path = keys::SITE_NAME.path();
            let is_bad = self.layers.values.contains_key(path) && !self.values.contains_key(path);
            if let Some(name) = self.names(&keys::ROUTERS_ADDRESS).first().filter(|_| !is_bad) {
                let source = self.source(&keys::ROUTERS_ADDRESS.path_of(name));
                let message = format!("routers.{name} is given, and site.name is not");
                self.problem(&source, message, "give this site a name: site.name = \"north\"".to_owned());
            }
            return;
        };
        let source = self.place_of(&keys::SITE_NAME);
        if site.routers.is_empty() {
            let message = format!("the site `{}` has no routers", site.name);
            let remedy = "say where one is reached: [routers.r1] address = \"host:7571\"";
            self.problem(&source, message, remedy.to_owned());
        }
        if site.routers.len() > ROUTERS_MAX {
            let message =
                format!("{} routers are given, and a site may have {ROUTERS_MAX}", site.routers.len());
            self.problem(&source, message, "leave some of [routers.*] out".to_owned());
        }
        if site.secure && config.tls.ca.is_none() {
            let source = self.place_of(&keys::UPLINK_TLS);
            let message = "uplink.tls is true, and nobody is known who issues certificates of routers";
            self.problem(&source, message.to_owned(), "give tls.ca".to_owned());
        }
        for (login, user, file) in [
            (&site.at_home, &keys::SITE_USER, &keys::SITE_PASSWORD_FILE),
            (&site.at_routers, &keys::UPLINK_USER, &keys::UPLINK_PASSWORD_FILE),
        ] {
            if login.user.is_some() != login.password_file.is_some() {
                let source = if login.user.is_some() { self.place_of(user) } else { self.place_of(file) };
                let message = format!("{} and {} belong together", user.path(), file.path());
                self.problem(&source, message, "give both, or neither".to_owned());
            }
        }
    }
}
