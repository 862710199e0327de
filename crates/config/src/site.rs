//! How a site is joined to others.

use super::{Config, Understanding, keys};
use crate::bandwidth::Bandwidth;
use contract::{LinkClass, Span, ThinLink, TopicFilter};
use host::Place;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use wire::ProxyKind;

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
    /// The proxy through which routers and what names them are reached, and who the site is there.
    pub proxy: Option<(ProxyAddress, Login)>,
    /// The link class by which routers reckon the way to the site.
    pub link: LinkClass,
    /// Messages of each stream that are retained for a router that fails, at least.
    pub retain: u32,
    /// What the link to routers carries, where that is little.
    pub thin: Option<ThinLink>,
    /// The journal, if there is one.
    pub journal: Option<JournalConfig>,
    /// The routers.
    pub routers: Vec<RouterAddress>,
}

/// The journal of a site, and what was missed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalConfig {
    /// Its folder; that of each broker is below it.
    pub folder: PathBuf,
    /// The bytes that each may have.
    pub bytes_max: u64,
    /// How much of what was published before is wanted.
    pub history: Span,
    /// Bytes in a second that are sent of what others missed.
    pub rate: u64,
    /// Bytes in a second that may come of what was missed; zero: as many as others send.
    pub takes: u64,
}

/// Segments that a journal has when it is full, where these are neither too short nor too long.
const SEGMENTS: u64 = 16;
/// The longest identity of a stream that is kept.
const IDENTITY_BYTES: u16 = 2_048;
/// The longest payload of a message.
const PAYLOAD_BYTES: u32 = wire::limits::PAYLOAD_BYTES_MAX as u32;

impl JournalConfig {
    /// What the journal is like.
    pub fn settings(&self) -> journal::Settings {
        journal::Settings {
            segment_bytes: (self.bytes_max / SEGMENTS).clamp(4 << 20, 64 << 20) as u32,
            bytes_max: self.bytes_max,
            payload_bytes_max: PAYLOAD_BYTES,
            identity_bytes_max: IDENTITY_BYTES,
            receivers_max: 4_096,
            room: journal::Room::LeastCriticalFirst,
            ..journal::Settings::default()
        }
    }
}

/// What does where a link has no room for anything.
const THINNEST: &str = "state a class with more time for uplink.link ([link.thin] here and at the routers), or give less of the link to uplink.bulk_bandwidth";
/// Filters of topics that are kept.
const KEPT_MAX: usize = 64;

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

/// A proxy: what it speaks, and where it is. As text `http://host:port` or `socks5://host:port`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxyAddress {
    /// What it speaks.
    pub kind: ProxyKind,
    /// Where it is.
    pub place: Place,
}

impl FromStr for ProxyAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ProxyAddress, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it does not say what the proxy speaks")?;
        let kind = match scheme {
            "http" => ProxyKind::Http,
            // The proxy looks names up in any case, which is what some programs call `socks5h`.
            "socks5" | "socks5h" => ProxyKind::Socks5,
            other => return Err(format!("`{other}` is no proxy that is spoken to")),
        };
        if rest.contains('@') {
            return Err("the user does not belong here, but to uplink.proxy_user".to_owned());
        }
        let place = rest.strip_suffix('/').unwrap_or(rest).parse()?;
        Ok(ProxyAddress { kind, place })
    }
}

impl fmt::Display for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}", self.place)
    }
}

/// Where a router is reached.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterAddress {
    /// Its name.
    pub name: String,
    /// Its brokers: one, or both of a pair.
    pub places: Vec<Place>,
    /// Topics that go by it before all others, while no others do; none: any.
    pub topics: Vec<TopicFilter>,
}

impl Understanding {
    pub(super) fn site(&self) -> Option<SiteConfig> {
        let name = self.get(&keys::SITE_NAME)?;
        let router = |name: String| {
            let first = self.of(&keys::ROUTERS_ADDRESS, &name)??;
            let second = self.of(&keys::ROUTERS_PARTNER, &name).flatten();
            let topics = self.of(&keys::ROUTERS_TOPICS, &name).unwrap_or_default();
            Some(RouterAddress { places: [first].into_iter().chain(second).collect(), topics, name })
        };
        let login = |user, file| Login { user: self.get(user), password_file: self.file(file) };
        let class = self.get(&keys::UPLINK_LINK).unwrap_or(LinkClass::CLOUD);
        let thin = self.thin(class);
        // Both brokers of the site may send at once, and what is live has something left.
        let brokers = self.names(&keys::BROKERS_CLIENTS).len().max(1) as u64;
        let backlog = thin.map(|thin| thin.bulk / 5 * 4);
        let most = backlog.map_or(u64::MAX, |all| (all / brokers).max(1));
        Some(SiteConfig {
            name,
            thin,
            share: self.get(&keys::SITE_SHARE),
            want: self.get(&keys::SITE_WANT),
            at_home: login(&keys::SITE_USER, &keys::SITE_PASSWORD_FILE),
            at_routers: login(&keys::UPLINK_USER, &keys::UPLINK_PASSWORD_FILE),
            secure: self.get(&keys::UPLINK_TLS).unwrap_or_else(|| self.file(&keys::TLS_CA).is_some()),
            proxy: self
                .get(&keys::UPLINK_PROXY)
                .map(|proxy| (proxy, login(&keys::UPLINK_PROXY_USER, &keys::UPLINK_PROXY_PASSWORD_FILE))),
            link: class,
            retain: self.get(&keys::UPLINK_RETAIN),
            journal: self.file(&keys::SITE_JOURNAL).map(|folder| JournalConfig {
                folder,
                bytes_max: self.get(&keys::SITE_JOURNAL_BYTES),
                history: self.get(&keys::SITE_HISTORY),
                rate: self.get(&keys::UPLINK_BACKLOG_RATE).min(most),
                takes: backlog.unwrap_or(0),
            }),
            routers: self.names(&keys::ROUTERS_ADDRESS).into_iter().filter_map(router).collect(),
        })
    }

    /// What the link to routers carries, where that is said.
    fn thin(&self, class: LinkClass) -> Option<ThinLink> {
        let Bandwidth(bandwidth) = self.get(&keys::UPLINK_BANDWIDTH)?;
        let bulk = self.get(&keys::UPLINK_BULK_BANDWIDTH).map_or(bandwidth / 2, |Bandwidth(bulk)| bulk);
        let way = self.links().delay(class).map_or(Span::ZERO, |link| link.to_subscriber);
        let queueing = self.get(&keys::UPLINK_QUEUEING).unwrap_or(Span(way.0 / 2));
        Some(ThinLink { bandwidth, bulk, queueing })
    }

    /// The parts of a thin link go into the whole.
    fn check_thin(&mut self, config: &Config, site: &SiteConfig) {
        let Some(thin) = &site.thin else {
            if self.get(&keys::UPLINK_BULK_BANDWIDTH).is_some() || self.get(&keys::UPLINK_QUEUEING).is_some()
            {
                let bulk = self.get(&keys::UPLINK_BULK_BANDWIDTH).is_some();
                let key =
                    if bulk { keys::UPLINK_BULK_BANDWIDTH.path() } else { keys::UPLINK_QUEUEING.path() };
                let source = self.source(key);
                let message = format!("{key} is given, and uplink.bandwidth is not");
                self.problem(
                    &source,
                    message,
                    "say what the link carries: uplink.bandwidth = \"2Mbit/s\"".to_owned(),
                );
            }
            return;
        };
        if config.links.delay(site.link).is_none() {
            // That is told by itself.
            return;
        }
        let (whole, bulk) = (Bandwidth(thin.bandwidth), Bandwidth(thin.bulk));
        if thin.bulk >= thin.bandwidth {
            let source = self.place_of(&keys::UPLINK_BULK_BANDWIDTH);
            let message = format!("uplink.bulk_bandwidth is {bulk}, and uplink.bandwidth {whole}");
            self.problem(&source, message, "leave something for messages with contracts".to_owned());
        }
        let way = config.way(site.link);
        if thin.queueing > way {
            let source = self.place_of(&keys::UPLINK_QUEUEING);
            let message = format!(
                "uplink.queueing is {}, and the class `{}` of uplink.link has {way}",
                thin.queueing, site.link
            );
            let remedy = "waiting for each other is a part of the way: state a class that has more time";
            self.problem(&source, message, remedy.to_owned());
        }
        if let Err(narrow) = thin.carries(&contract::Flow::default()) {
            let source = self.place_of(&keys::UPLINK_BANDWIDTH);
            self.problem(&source, format!("nothing can be promised across: {narrow}"), THINNEST.to_owned());
        }
    }

    /// What is to be kept has a journal.
    pub(super) fn check_kept(&mut self, config: &Config) {
        let kept: Vec<&TopicFilter> = config
            .topics
            .iter()
            .filter(|topic| topic.keep > Span::ZERO)
            .map(|topic| &topic.rule.filter)
            .collect();
        let has_journal = config.site.as_ref().is_some_and(|site| site.journal.is_some());
        let source = self.place_of(&keys::SITE_JOURNAL);
        // A folder that is none has been told.
        let path = keys::SITE_JOURNAL.path();
        let is_bad = self.layers.values.contains_key(path) && !self.values.contains_key(path);
        if let Some(filter) = kept.first().filter(|_| !has_journal && !is_bad) {
            let message = format!("`{filter}` is to be kept, and the site has no journal");
            let remedy = "give site.name, and a folder: site.journal = \"/var/lib/verge/journal\"";
            self.problem(&source, message, remedy.to_owned());
        } else if kept.len() > KEPT_MAX {
            let message = format!("{} filters are to be kept, and {KEPT_MAX} may be", kept.len());
            self.problem(&source, message, "keep one filter that means several of them".to_owned());
        }
    }

    /// What is to go by two routers has two, and room for it twice.
    fn check_paths(&mut self, config: &Config) {
        let Some(topic) = config.topics.iter().find(|topic| topic.paths > 1) else { return };
        let filter = &topic.rule.filter;
        // Where nothing leaves it means nothing.
        let Some(site) = &config.site else { return };
        let (source, why, remedy) = if config.coordination.is_some() {
            let source = self.place_of(&keys::COORDINATION_SERVERS);
            (
                source,
                "a coordination service gives each topic one",
                "list the routers instead, in [routers.*], or leave paths out",
            )
        } else if site.routers.len() < 2 {
            let remedy = "give a second router, [routers.r2] address = \"host:7571\"; or leave paths out, if nothing of it is published here";
            (self.place_of(&keys::SITE_NAME), "this site has no two", remedy)
        } else if site.thin.is_some() {
            let source = self.place_of(&keys::UPLINK_BANDWIDTH);
            (
                source,
                "the link to routers is thin",
                "leave paths out, or uplink.bandwidth: only the site that publishes needs paths",
            )
        } else {
            return self.check_that_it_leaves(config, &site.share);
        };
        let message = format!("`{filter}` is to go by two routers (paths = 2), and {why}");
        self.problem(&source, message, remedy.to_owned());
    }

    /// What is to go by two routers may leave the site.
    fn check_that_it_leaves(&mut self, config: &Config, share: &[TopicFilter]) {
        let leaves = |filter: &TopicFilter| {
            !filter.as_str().starts_with('$') && share.iter().any(|share| share.common(filter).is_some())
        };
        let twice = config.topics.iter().filter(|topic| topic.paths > 1);
        let stays = twice.map(|topic| &topic.rule.filter).find(|filter| !leaves(filter));
        if let Some(filter) = stays {
            let source = self.place_of(&keys::SITE_SHARE);
            let message = format!(
                "`{filter}` is to go by two routers (paths = 2), and nothing of it may leave this site"
            );
            let remedy = "leave paths out, or share it: site.share (topics that begin with $ stay)";
            self.problem(&source, message, remedy.to_owned());
        }
    }

    pub(super) fn check_site(&mut self, config: &Config) {
        self.check_kept(config);
        self.check_paths(config);
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
        // An address that is none has been told.
        let listed = self.layers.values.keys().any(|path| path.starts_with("routers."));
        if !listed && config.coordination.is_none() {
            let message = format!("the site `{}` has no routers", site.name);
            let remedy = "say where one is reached, [routers.r1] address = \"host:7571\", or what names them: coordination.servers";
            self.problem(&source, message, remedy.to_owned());
        }
        if site.routers.len() > ROUTERS_MAX {
            let message =
                format!("{} routers are given, and a site may have {ROUTERS_MAX}", site.routers.len());
            self.problem(&source, message, "leave some of [routers.*] out".to_owned());
        }
        self.check_addresses(config, site);
        self.check_thin(config, site);
        if config.links.delay(site.link).is_none() {
            let source = self.place_of(&keys::UPLINK_LINK);
            let message = format!("the link class `{}` of uplink.link is not configured", site.link);
            let remedy = format!("add [link.{}] here and at the routers, or use edge or cloud", site.link);
            self.problem(&source, message, remedy);
        }
        if site.secure && config.tls.ca.is_none() {
            let source = self.place_of(&keys::UPLINK_TLS);
            let message = "uplink.tls is true, and nobody is known who issues certificates of routers";
            self.problem(&source, message.to_owned(), "give tls.ca".to_owned());
        }
        let at_proxy = site
            .proxy
            .iter()
            .map(|(_, login)| (login, &keys::UPLINK_PROXY_USER, &keys::UPLINK_PROXY_PASSWORD_FILE));
        let logins = [
            (&site.at_home, &keys::SITE_USER, &keys::SITE_PASSWORD_FILE),
            (&site.at_routers, &keys::UPLINK_USER, &keys::UPLINK_PASSWORD_FILE),
        ];
        for (login, user, file) in logins.into_iter().chain(at_proxy) {
            if login.user.is_some() != login.password_file.is_some() {
                let source = if login.user.is_some() { self.place_of(user) } else { self.place_of(file) };
                let message = format!("{} and {} belong together", user.path(), file.path());
                self.problem(&source, message, "give both, or neither".to_owned());
            }
        }
    }

    /// Each router is somewhere else, and none is one of the site's own brokers.
    fn check_addresses(&mut self, config: &Config, site: &SiteConfig) {
        let own = config.brokers.iter().flat_map(|broker| {
            let listeners = [Some(&broker.clients), broker.listeners.clients_tls.as_ref()];
            listeners
                .into_iter()
                .flatten()
                .map(|place| (place.to_string(), format!("brokers.{}", broker.name)))
        });
        // Behind a proxy the same address may be another host.
        let mut known: BTreeMap<String, String> = own.filter(|_| site.proxy.is_none()).collect();
        for router in &site.routers {
            let keys = [&keys::ROUTERS_ADDRESS, &keys::ROUTERS_PARTNER];
            for (place, key) in router.places.iter().zip(keys) {
                let path = key.path_of(&router.name);
                if let Some(other) = known.get(&place.to_string()) {
                    let source = self.source(&path);
                    let message = format!("{path} is {place}, and so is {other}");
                    let remedy =
                        "give each broker of a router once; the site's own brokers are no routers of it";
                    self.problem(&source, message, remedy.to_owned());
                } else {
                    known.insert(place.to_string(), path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Scratch;

    const SITE: &str =
        "[brokers.a]\nclients = \"127.0.0.1:7571\"\nstart_as = \"primary\"\n[site]\nname = \"north\"\n";

    const TWICE: &str = "[[topic]]\nfilter = \"a/#\"\nperiod = \"1s\"\npaths = 2\n";

    fn problems(more: &str) -> String {
        Scratch::new("site", &format!("{SITE}{more}")).load(&[], &[]).err().unwrap_or_default()
    }

    #[test]
    fn what_cannot_be_a_router_is_refused_and_the_key_named() {
        for (more, said) in [
            ("[routers.r1]\naddress = \"r:7571\"\n", ""),
            (
                "[routers.r1]\naddress = \"r:7571\"\npartner = \"r:7571\"\n",
                "routers.r1.partner is r:7571, and so is routers.r1.address",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[routers.r2]\naddress = \"r:1\"\n",
                "routers.r2.address is r:1, and so is routers.r1.address",
            ),
            (
                "[routers.r1]\naddress = \"127.0.0.1:7571\"\n",
                "routers.r1.address is 127.0.0.1:7571, and so is brokers.a",
            ),
            (
                "[routers.r1]\naddress = \"r:7571\"\n[uplink]\nlink = \"radio\"\n",
                "the link class `radio` of uplink.link is not configured",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nproxy = \"proxy:3128\"\n",
                "it does not say what the proxy speaks: give \"http://host:port\"",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nproxy = \"https://proxy:3128\"\n",
                "`https` is no proxy that is spoken to",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nproxy = \"http://me:secret@proxy:3128\"\n",
                "uplink.proxy_user",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nproxy = \"socks5://p:1\"\nproxy_user = \"u\"\n",
                "uplink.proxy_user and uplink.proxy_password_file belong together",
            ),
            ("[routers.r1]\naddress = \"127.0.0.1:7571\"\n[uplink]\nproxy = \"socks5h://p:1080/\"\n", ""),
            ("[routers.r1]\naddress = \"r:1\"\n[uplink]\nbandwidth = \"100Mbit/s\"\n", ""),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nbandwidth = \"2MiB\"\n",
                "`2MiB` has no unit of a bandwidth: give bandwidth such as",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nqueueing = \"1ms\"\n",
                "uplink.queueing is given, and uplink.bandwidth is not",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nbandwidth = \"100Mbit/s\"\nbulk_bandwidth = \"100Mbit/s\"\n",
                "uplink.bulk_bandwidth is 100Mbit/s, and uplink.bandwidth 100Mbit/s",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nbandwidth = \"100Mbit/s\"\nqueueing = \"21ms\"\n",
                "uplink.queueing is 21ms, and the class `cloud` of uplink.link has 20ms",
            ),
            (
                "[routers.r1]\naddress = \"r:1\"\n[uplink]\nbandwidth = \"1Mbit/s\"\n",
                "nothing can be promised across: the link to routers is too thin",
            ),
            ("[routers.r1]\naddress = \"r:7571\"\n[network]\nresponse = \"1ms\"\n", "from \"2ms\""),
        ] {
            let problems = problems(more);
            assert!(problems.contains(said) && problems.is_empty() == said.is_empty(), "{more}: {problems}");
        }
    }

    #[test]
    fn what_is_to_go_by_two_routers_has_two() {
        let [one, two] = ["[routers.r1]\naddress = \"r:1\"\n", "[routers.r2]\naddress = \"r:2\"\n"];
        for (more, said) in [
            (format!("{one}{two}"), ""),
            (one.to_owned(), "`a/#` is to go by two routers (paths = 2), and this site has no two"),
            (
                "[coordination]\nservers = [\"zk:2181\"]\n".to_owned(),
                "(paths = 2), and a coordination service gives each topic one",
            ),
            (
                format!("{one}{two}[uplink]\nbandwidth = \"100Mbit/s\"\n"),
                "(paths = 2), and the link to routers is thin",
            ),
            (format!("share = [\"+/b\"]\n{one}{two}"), ""),
            (
                format!("share = [\"b/#\"]\n{one}{two}"),
                "`a/#` is to go by two routers (paths = 2), and nothing of it may leave",
            ),
        ] {
            let problems = problems(&(more + TWICE));
            assert!(problems.contains(said) && problems.is_empty() == said.is_empty(), "{problems}");
        }
    }

    #[test]
    fn a_bad_address_is_one_problem() {
        let problems = problems("[routers.r1]\naddress = \"nowhere\"\n");
        assert!(
            problems.contains("routers.r1.address") && !problems.contains("has no routers"),
            "{problems}"
        );
    }
}
