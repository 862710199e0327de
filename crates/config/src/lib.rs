#![doc = include_str!("../README.md")]

mod bandwidth;
mod changes;
mod coordination;
mod keys;
mod kinds;
mod kv;
pub mod layers;
mod listeners;
mod pages;
mod peers;
mod problems;
mod processing;
pub mod schema;
mod security;
mod site;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod typed;
pub mod value;
pub mod votes;

pub use self::kv::{KvConfig, KvLane, KvNode};
pub use self::processing::ProcessingConfig;
use ::processing::SharedFactory;
pub use bandwidth::Bandwidth;
use broker::{Detection, Limits, Policy, Replication, Severity, TopicRule};
pub use changes::Running;
use contract::timing::LinkDelay;
use contract::{Contract, Delays, Lazy, LinkClass, Links, Loss, Span};
pub use coordination::{CoordinationConfig, RouterConfig};
use host::tls::TlsSettings;
use host::{DoorLimits, Place};
use keys::topic;
pub use kinds::{Kinds, WASM, working_time};
use layers::{Given, Layers, Table};
pub use layers::{main_file, read_text, unknown_problem};
pub use listeners::{Entrance, Listeners};
pub use pages::{default_text, reference};
pub use peers::{PeerConfig, PeersConfig};
pub use problems::{File, Problem, Problems, Source, Subject};
use schema::{KEYS, Repeated};
pub use security::{ClientConfig, SecurityConfig};
pub use site::{JournalConfig, Login, ProxyAddress, ROUTERS_MAX, RouterAddress, SiteConfig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use typed::{Copying, Typed};
use value::{Raw, Value, understand};

/// One broker of the pair.
#[derive(Clone, PartialEq, Debug)]
pub struct BrokerAddress {
    /// Its name.
    pub name: String,
    /// Where native clients connect.
    pub clients: Place,
    /// Where its partner connects.
    pub pair: Place,
    /// Where metrics and health are shown, if anywhere.
    pub http: Option<Place>,
    /// Whether it goes first where both are starting.
    pub starts_as_primary: bool,
    /// Where its store is, instead of where that of all brokers is.
    pub store: Option<PathBuf>,
    /// Where it listens besides.
    pub listeners: Listeners,
}

/// What admission counts with; `None` for what is measured at start.
#[derive(Clone, PartialEq, Debug)]
pub struct AdmissionConfig {
    /// Whether contracts are refused for which there is no time (`admission.schedulability`).
    pub schedulability: bool,
    /// Whether a subscriber for whom there is no time is served as best effort.
    pub best_effort_subscriptions: bool,
    /// The share of a processor that contracts may take.
    pub share: f64,
    /// To take a message in.
    pub arrival: Option<Span>,
    /// To send a message to one subscriber.
    pub dispatch: Option<Span>,
    /// To copy a message.
    pub replication: Option<Span>,
    /// A turn.
    pub turn: Option<Span>,
    /// A read.
    pub read: Option<Span>,
    /// A write.
    pub write: Option<Span>,
    /// 1024 bytes.
    pub kib: Option<Span>,
    /// For how long the data thread may be held up.
    pub blocking: Option<Span>,
    /// Where the host's profile is; `None` for the usual place.
    pub profile_folder: Option<PathBuf>,
}

/// What the data thread asks of the host; `None` for as much as it gets.
#[derive(Clone, PartialEq, Debug)]
pub struct RealtimeConfig {
    /// The priority of the data thread.
    pub priority: Option<u8>,
    /// The processors that it may use.
    pub processors: Vec<usize>,
    /// Whether memory is locked.
    pub lock_memory: Option<bool>,
    /// Whether processors are kept from halting.
    pub awake: bool,
    /// For how long it looks for messages before it sleeps.
    pub busy_poll: Option<Span>,
    /// For how long it rests before it looks again, where operators keep all processors.
    pub gather: Span,
}

/// Where records are kept across restarts.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreConfig {
    /// `None`: nothing is kept.
    pub folder: Option<PathBuf>,
    /// Between two commits.
    pub commit_every: Span,
    /// Bytes that may wait to be written.
    pub queue_bytes_max: usize,
}

/// The contract of a family of topics, and how many streams it is expected to have.
#[derive(Clone, PartialEq, Debug)]
pub struct TopicFamily {
    /// Its filter and its contract.
    pub rule: TopicRule,
    /// How many streams are planned for, in `verge check`.
    pub streams: u32,
    /// Subscribers of each topic, each on a connection of its own.
    pub subscribers: u32,
    /// How long messages are kept in the site's journal; zero: not at all.
    pub keep: Span,
    /// Bytes that they may take there; `None`: as many as it has room for.
    pub keep_bytes: Option<u64>,
    /// What a full journal gives up: what has the highest rank, see `journal::PRIORITIES`.
    pub keep_rank: u8,
    /// By how many routers they go to other sites at once.
    pub paths: u8,
}

/// What a family of topics has beside its contract, which is read when a broker starts: key and value.
fn beyond_contract(family: &TopicFamily) -> impl Iterator<Item = (String, String)> {
    let filter = &family.rule.filter;
    let limit = family.keep_bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
    let keep = format!("{}, rank {}{limit}", family.keep, family.keep_rank);
    let keep = (family.keep > Span::ZERO).then(|| (format!("topic.keep {filter}"), keep));
    let paths = (family.paths > 1).then(|| (format!("topic.paths {filter}"), family.paths.to_string()));
    keep.into_iter().chain(paths)
}

/// What a broker says of itself, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// Objects for programs, rather than lines for people.
    pub json: bool,
    /// What is less grave is not said.
    pub level: Severity,
}

/// A complete configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The brokers of the pair.
    pub brokers: Vec<BrokerAddress>,
    /// How long links delay.
    pub delays: Delays,
    /// Link classes.
    pub links: Links,
    /// How a dead partner is noticed.
    pub detection: Detection,
    /// The order of jobs.
    pub policy: Policy,
    /// When copies are made.
    pub replication: Replication,
    /// What admission counts with.
    pub admission: AdmissionConfig,
    /// What the data thread asks of the host.
    pub realtime: RealtimeConfig,
    /// Limits of a broker.
    pub limits: Limits,
    /// The log.
    pub log: LogConfig,
    /// Limits of listeners.
    pub door_limits: DoorLimits,
    /// Handshakes under way at once.
    pub handshakes: usize,
    /// Certificates.
    pub tls: TlsSettings,
    /// Limits for clients of MQTT.
    pub mqtt: mqtt::Limits,
    /// The store.
    pub store: StoreConfig,
    /// Contracts by topic.
    pub topics: Vec<TopicFamily>,
    /// Graphs of operators.
    pub processing: ProcessingConfig,
    /// The key-value store, if nodes of it are configured.
    pub kv: Option<KvConfig>,
    /// Who may do what.
    pub security: SecurityConfig,
    /// Peers, if any are configured.
    pub peers: Option<PeersConfig>,
    /// What commands use as clients.
    pub client: ClientConfig,
    /// What joins the site to others, if anything does.
    pub site: Option<SiteConfig>,
    /// The router that these brokers are, if a coordination service names them.
    pub router: Option<RouterConfig>,
    /// What names the routers, if anything does.
    pub coordination: Option<CoordinationConfig>,
    /// Sets up the operators.
    pub kinds: Arc<Kinds>,
    /// Every effective value as it would be written, with where it came from.
    pub effective: Vec<(String, String, String)>,
}

/// The pair that exists without being configured: both brokers on this host.
const DEFAULT_BROKERS: [(&str, &str); 10] = [
    ("brokers.a.clients", "\"127.0.0.1:7571\""),
    ("brokers.a.pair", "\"127.0.0.1:7573\""),
    ("brokers.a.http", "\"127.0.0.1:7570\""),
    ("brokers.a.mqtt", "\"127.0.0.1:1883\""),
    ("brokers.a.start_as", "\"primary\""),
    ("brokers.b.clients", "\"127.0.0.1:7581\""),
    ("brokers.b.pair", "\"127.0.0.1:7583\""),
    ("brokers.b.http", "\"127.0.0.1:7580\""),
    ("brokers.b.mqtt", "\"127.0.0.1:1884\""),
    ("brokers.b.start_as", "\"backup\""),
];
const DEFAULT_NAMES: [&str; 2] = ["a", "b"];
const DEFAULT_LINKS: [(&str, &str); 4] = [
    ("link.edge.broker_to_subscriber", "\"1ms\""),
    ("link.edge.confirmation", "\"10ms\""),
    ("link.cloud.broker_to_subscriber", "\"20ms\""),
    ("link.cloud.confirmation", "\"100ms\""),
];

/// Where a value is from that nobody has given.
const DEFAULT_ORIGIN: &str = "default";
/// What waits to be written is at least so much.
const STORE_QUEUE_MIN: usize = 1 << 20;
/// The data thread looks for messages at most for so long before it sleeps.
const BUSY_POLL_MAX: Span = Span::millis(1);
/// Much less than any deadline.
const GATHER_MAX: Span = Span::millis(1);

impl Config {
    /// Reads the configuration from the file that the user named (or the usual places), `conf.d`, environment and flags.
    pub fn load(file: Option<&Path>, flags: &[String]) -> Result<Config, Problems> {
        let kinds = Arc::new(Kinds::beside(file));
        let factory: SharedFactory = kinds.clone();
        let mut config = Config::load_from(file, std::env::vars(), flags, &factory, &kinds)?;
        kinds.stamp(&mut config.processing.graphs);
        config.kinds = kinds;
        Ok(config)
    }

    fn load_from(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        flags: &[String],
        factory: &SharedFactory,
        kinds: &Arc<Kinds>,
    ) -> Result<Config, Problems> {
        let layers = layers::read(file, environment, flags)?;
        let mut reader = Understanding::new(layers, Arc::clone(kinds));
        let config = reader.config(factory);
        match config {
            Some(config) if reader.layers.problems.is_empty() => Ok(config),
            _ => {
                let mut list = reader.layers.problems;
                list.sort_by_key(|problem| match &problem.source {
                    Source::File(file, span) => (*file, span.start),
                    _ => (usize::MAX, 0),
                });
                Err(Problems { subject: Subject::Configuration, files: reader.layers.files, list })
            }
        }
    }

    /// Whether somebody has given this key, and it is not just the default.
    pub fn is_given(&self, path: &str) -> bool {
        self.effective.iter().any(|(known, _, origin)| known == path && origin != DEFAULT_ORIGIN)
    }

    /// The same over TLS, with the hosts as they were written, if all brokers have one.
    pub fn secure_client_addresses(&self) -> Option<String> {
        let texts = self.brokers.iter().map(|broker| broker.listeners.clients_tls_text.as_deref());
        texts
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.into_iter().map(at_some_host).collect::<Vec<_>>().join(","))
    }

    /// The addresses of all brokers for clients, as `host:port,host:port`.
    pub fn client_addresses(&self) -> String {
        let one = |broker: &BrokerAddress| at_some_host(&broker.listeners.clients_text);
        self.brokers.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

/// An address without a host is on this one, as far as anybody knows.
fn at_some_host(address: &str) -> String {
    if address.starts_with(':') { format!("127.0.0.1{address}") } else { address.to_owned() }
}

/// Turns what was given into what it means, collecting problems.
struct Understanding {
    layers: Layers,
    values: BTreeMap<String, Value>,
    effective: Vec<(String, String, String)>,
    /// Reads modules.
    kinds: Arc<Kinds>,
}

impl Understanding {
    fn new(layers: Layers, kinds: Arc<Kinds>) -> Understanding {
        let mut this = Understanding { layers, values: BTreeMap::new(), effective: Vec::new(), kinds };
        this.fill_defaults();
        let given = this.layers.values.clone().into_iter();
        let mut given: Vec<_> =
            given.filter_map(|(path, given)| Some((schema::place(&path)?, path, given))).collect();
        // In the order of the reference, and by name where there are several.
        given.sort_by_key(|(place, ..)| *place);
        for (place, path, given) in given {
            match understand(KEYS[place].kind, &given.raw) {
                Ok(value) => {
                    this.values.insert(path.clone(), value);
                }
                Err(message) => {
                    this.problem(&given.source, format!("{path}: {message}"), KEYS[place].doc.to_owned());
                }
            }
            let origin = this.origin(&given.source);
            this.effective.push((path, given.raw.to_string(), origin));
        }
        this
    }

    /// What nobody gave has its default; names that somebody began must be complete.
    fn fill_defaults(&mut self) {
        let has = |layers: &Layers, prefix: &str| layers.values.keys().any(|path| path.starts_with(prefix));
        let given = |name: &str, key: &str| self.layers.values.contains_key(&format!("brokers.{name}.{key}"));
        let is_whole = |name: &&str| given(name, "clients") && given(name, "pair");
        let begun = DEFAULT_NAMES.iter().filter(|name| has(&self.layers, &format!("brokers.{name}.")));
        let begun: Vec<&&str> = begun.collect();
        // Who gives a few keys of the pair that exists without being configured keeps the rest of it.
        if !has(&self.layers, "brokers.") || begun.iter().any(|name| !is_whole(name)) {
            self.defaults(&DEFAULT_BROKERS);
        }
        self.defaults(&DEFAULT_LINKS);
        let names = |section: &str| -> Vec<String> {
            let mut names: Vec<String> = self
                .layers
                .values
                .keys()
                .filter_map(|path| {
                    path.strip_prefix(section)?.strip_prefix('.')?.split('.').next().map(str::to_owned)
                })
                .collect();
            names.dedup();
            names
        };
        let named =
            ["brokers", "link", "kv.nodes", "routers", "peers"].map(|section| (section, names(section)));
        for key in KEYS {
            let Some((section, name)) = key.path.split_once(".*.") else {
                self.defaults(&[(key.path, key.default)]);
                continue;
            };
            for given in named.iter().filter(|(known, _)| *known == section).flat_map(|(_, names)| names) {
                let path = format!("{section}.{given}.{name}");
                if !key.default.is_empty() {
                    self.defaults(&[(&path, key.default)]);
                } else if !self.layers.values.contains_key(&path) {
                    let place = self
                        .layers
                        .values
                        .iter()
                        .find(|(p, _)| p.starts_with(&format!("{section}.{given}.")));
                    let source = place.map_or(Source::Default, |(_, given)| given.source.clone());
                    self.problem(&source, format!("[{section}.{given}] lacks `{name}`"), key.doc.to_owned());
                }
            }
        }
    }

    fn defaults(&mut self, values: &[(&str, &str)]) {
        for (path, text) in values {
            let given = || Given { raw: Raw::from_plain(text), source: Source::Default };
            self.layers.values.entry((*path).to_owned()).or_insert_with(given);
        }
    }

    fn problem(&mut self, source: &Source, message: String, remedy: String) {
        self.layers.problems.push(Problem { source: source.clone(), message, remedy });
    }

    fn origin(&self, source: &Source) -> String {
        match source {
            Source::Default => DEFAULT_ORIGIN.to_owned(),
            Source::File(index, span) => match self.layers.files.get(*index) {
                Some(file) => format!("{}:{}", file.path.display(), file.position(span.start).0),
                None => "file".to_owned(),
            },
            Source::Environment(name) => format!("environment {name}"),
            Source::Flag(_) => "flag --set".to_owned(),
        }
    }

    fn source(&self, path: &str) -> Source {
        self.layers.values.get(path).map_or(Source::Default, |given| given.source.clone())
    }

    /// What a key holds.
    fn get<T>(&self, key: &Typed<T>) -> T {
        self.values.get(key.path()).and_then(|value| key.read(value)).unwrap_or_else(|| key.default())
    }

    /// What a key with a name in it holds; nothing where no such name is given, or its value is bad.
    fn of<T>(&self, key: &Typed<T>, name: &str) -> Option<T> {
        self.values.get(&key.path_of(name)).and_then(|value| key.read(value))
    }

    /// The names with which a key is given.
    fn names(&self, key: &Typed<impl Sized>) -> Vec<String> {
        let (before, after) = key.path().split_once('*').unwrap_or((key.path(), ""));
        let name = |path: &String| path.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
        self.values.keys().filter_map(name).collect()
    }

    /// Where a key is given.
    fn place_of(&self, key: &Typed<impl Sized>) -> Source {
        self.source(key.path())
    }

    /// A file that is named. A relative path in a file starts at that file, so that it means the same wherever a command is typed.
    fn file(&self, key: &Typed<Option<PathBuf>>) -> Option<PathBuf> {
        let path = self.get(key)?;
        Some(self.beside(&self.place_of(key), path))
    }

    /// A path that is said there: relative ones begin at the file that has them.
    fn beside(&self, source: &Source, path: PathBuf) -> PathBuf {
        let folder = match source {
            Source::File(index, _) => self.layers.files.get(*index).and_then(|file| file.path.parent()),
            _ => None,
        };
        folder.unwrap_or(Path::new("")).join(path)
    }

    fn config(&mut self, factory: &SharedFactory) -> Option<Config> {
        let links = self.links();
        let topics = self.topics(&links);
        let config = Config {
            brokers: self.brokers(),
            delays: Delays {
                failover: self.get(&keys::NETWORK_FAILOVER),
                broker_to_broker: self.get(&keys::NETWORK_BROKER_TO_BROKER),
                publisher_to_broker: self.get(&keys::NETWORK_PUBLISHER_TO_BROKER),
                response: self.get(&keys::NETWORK_RESPONSE),
            },
            detection: self.detection(),
            policy: self.get(&keys::SCHEDULING_POLICY),
            replication: self.replication(),
            admission: self.admission(),
            realtime: self.realtime(),
            limits: self.limits(),
            log: self.log(),
            door_limits: self.door_limits(),
            handshakes: self.get(&keys::LIMITS_HANDSHAKES),
            tls: self.tls(),
            mqtt: self.mqtt(),
            store: self.store(),
            processing: self.processing(&topics, factory),
            kv: self.kv(),
            security: self.security(),
            peers: self.peers(),
            client: self.client(),
            site: self.site(),
            router: self.router(),
            coordination: self.coordination(),
            kinds: Arc::default(),
            topics,
            links,
            effective: std::mem::take(&mut self.effective),
        };
        self.check_relations(&config);
        Some(config)
    }

    fn brokers(&mut self) -> Vec<BrokerAddress> {
        let broker = |name: String| {
            Some(BrokerAddress {
                clients: self.of(&keys::BROKERS_CLIENTS, &name)??,
                pair: self.of(&keys::BROKERS_PAIR, &name)??,
                http: self.of(&keys::BROKERS_HTTP, &name).flatten(),
                listeners: self.listeners(&name),
                store: self.of(&keys::BROKERS_STORE, &name).flatten(),
                starts_as_primary: self.of(&keys::BROKERS_START_AS, &name) == Some(true),
                name,
            })
        };
        self.names(&keys::BROKERS_CLIENTS).into_iter().filter_map(broker).collect()
    }

    fn links(&self) -> Links {
        let class = |name: String| {
            let class: LinkClass = name.parse().ok()?;
            let delay = LinkDelay {
                to_subscriber: self.of(&keys::LINK_BROKER_TO_SUBSCRIBER, &name).unwrap_or_default(),
                confirmation: self.of(&keys::LINK_CONFIRMATION, &name).unwrap_or_default(),
            };
            Some((class, delay))
        };
        Links::new(self.names(&keys::LINK_BROKER_TO_SUBSCRIBER).into_iter().filter_map(class))
    }

    fn detection(&self) -> Detection {
        Detection {
            poll: self.get(&keys::DETECTION_POLL),
            misses: self.get(&keys::DETECTION_MISSES),
            patience_max: self.get(&keys::DETECTION_PATIENCE_MAX),
            stall: self.get(&keys::DETECTION_STALL),
            connect: self.get(&keys::DETECTION_CONNECT),
            retry: self.get(&keys::DETECTION_RETRY),
            seek_preferred: self.get(&keys::DETECTION_SEEK_PRIMARY),
            seek_other: self.get(&keys::DETECTION_SEEK_BACKUP),
        }
    }

    fn replication(&self) -> Replication {
        match self.get(&keys::REPLICATION_POLICY) {
            Copying::Eager => Replication::Eager,
            Copying::Lazy => Replication::Lazy(Lazy {
                every: self.get(&keys::REPLICATION_EVERY),
                window: self.get(&keys::REPLICATION_WINDOW),
                budget: self.get(&keys::REPLICATION_BUDGET),
            }),
            Copying::Periodic => Replication::Periodic {
                period: self.get(&keys::REPLICATION_PERIOD),
                skip_dispatched: self.get(&keys::REPLICATION_SKIP_DISPATCHED),
            },
            Copying::RetransmissionOnly => Replication::RetransmissionOnly,
        }
    }

    fn admission(&self) -> AdmissionConfig {
        AdmissionConfig {
            schedulability: self.get(&keys::ADMISSION_SCHEDULABILITY),
            best_effort_subscriptions: self.get(&keys::ADMISSION_SUBSCRIPTIONS),
            share: self.get(&keys::ADMISSION_SHARE),
            arrival: self.get(&keys::ADMISSION_ARRIVAL_COST),
            dispatch: self.get(&keys::ADMISSION_DISPATCH_COST),
            replication: self.get(&keys::ADMISSION_REPLICATION_COST),
            turn: self.get(&keys::ADMISSION_TURN_COST),
            read: self.get(&keys::ADMISSION_READ_COST),
            write: self.get(&keys::ADMISSION_WRITE_COST),
            kib: self.get(&keys::ADMISSION_KIB_COST),
            blocking: self.get(&keys::ADMISSION_BLOCKING),
            profile_folder: self.get(&keys::ADMISSION_PROFILE_FOLDER),
        }
    }

    fn realtime(&self) -> RealtimeConfig {
        RealtimeConfig {
            priority: self.get(&keys::REALTIME_PRIORITY),
            processors: self.get(&keys::REALTIME_PROCESSORS),
            lock_memory: self.get(&keys::REALTIME_LOCK_MEMORY),
            awake: self.get(&keys::REALTIME_AWAKE),
            busy_poll: self.get(&keys::REALTIME_SPIN),
            gather: self.get(&keys::REALTIME_GATHER),
        }
    }

    fn store(&self) -> StoreConfig {
        let folder = self.get(&keys::STORE_FOLDER);
        let commit_every = self.get(&keys::STORE_COMMIT_EVERY);
        StoreConfig { folder, commit_every, queue_bytes_max: self.get(&keys::STORE_QUEUE) }
    }

    fn limits(&self) -> Limits {
        Limits {
            links: self.get(&keys::LIMITS_CONNECTIONS),
            relayed: self.get(&keys::LIMITS_RELAYED),
            streams: self.get(&keys::LIMITS_STREAMS),
            sessions: self.get(&keys::LIMITS_SESSIONS),
            filters_per_session: self.get(&keys::LIMITS_FILTERS_PER_SESSION),
            jobs: self.get(&keys::LIMITS_JOBS),
            ring_slots_min: self.get(&keys::LIMITS_RING_SLOTS_MIN),
            ring_slots_max: self.get(&keys::LIMITS_RING_SLOTS_MAX),
            backup_slots: self.get(&keys::LIMITS_BACKUP_SLOTS),
            store_bytes: self.get(&keys::LIMITS_STORE),
            // What a broker has by itself is found when it starts; elsewhere there is no bound.
            memory_bytes: self.get(&keys::LIMITS_MEMORY).unwrap_or(usize::MAX),
            size_assumed: self.get(&keys::LIMITS_SIZE_ASSUMED),
            subscriber_backlog_bytes: self.get(&keys::LIMITS_SUBSCRIBER_BACKLOG),
            subscriber_delay: self.get(&keys::LIMITS_SUBSCRIBER_DELAY),
            deferred_per_subscriber: self.get(&keys::LIMITS_DEFERRED_PER_SUBSCRIBER),
            sync_backlog_bytes: self.get(&keys::LIMITS_SYNC_BACKLOG),
            classes: self.get(&keys::METRICS_CLASSES_MAX),
            greeting: self.get(&keys::LIMITS_GREETING),
            silence: self.get(&keys::LIMITS_SILENCE),
            session_linger: self.get(&keys::LIMITS_SESSION_LINGER),
            stream_linger: self.get(&keys::LIMITS_STREAM_LINGER),
            drain: self.get(&keys::LIMITS_DRAIN),
        }
    }

    fn log(&self) -> LogConfig {
        LogConfig { json: self.get(&keys::LOG_FORMAT), level: self.get(&keys::LOG_LEVEL) }
    }

    fn topics(&mut self, links: &Links) -> Vec<TopicFamily> {
        let mut families: Vec<TopicFamily> = Vec::new();
        for table in self.tables(&schema::TOPIC) {
            let Some(family) = self.topic(&table, links) else { continue };
            let filter = &family.rule.filter;
            // The first filter that matches a topic governs it.
            if let Some(earlier) = families.iter().find(|earlier| earlier.rule.filter.covers(filter)) {
                let message = format!(
                    "an earlier filter, `{}`, matches every topic of `{filter}`",
                    earlier.rule.filter
                );
                self.problem(
                    &table.place_of(topic::FILTER.path()),
                    message,
                    "put this [[topic]] before that one, or leave it out".to_owned(),
                );
            }
            families.push(family);
        }
        families
    }

    /// The tables of a section that may be there many times.
    fn tables(&self, section: &'static Repeated) -> Vec<Table> {
        self.layers.tables.get(section.name).cloned().unwrap_or_default()
    }

    /// The values of a table by key; nothing if one is bad or lacks.
    fn row(&mut self, table: &Table, section: &'static Repeated) -> Option<Row> {
        let mut values = BTreeMap::new();
        let before = self.layers.problems.len();
        for key in section.keys {
            match table.keys.get(key.path).map(|given| (given, understand(key.kind, &given.raw))) {
                Some((_, Ok(value))) => {
                    values.insert(key.path, value);
                }
                Some((given, Err(message))) => {
                    self.problem(&given.source, format!("{}: {message}", key.path), key.doc.to_owned());
                }
                None if key.default.is_empty() => {
                    self.problem(
                        &table.place,
                        format!("this {} lacks `{}`", section.name, key.path),
                        key.doc.to_owned(),
                    );
                }
                None => {}
            }
        }
        (self.layers.problems.len() == before).then_some(Row(values))
    }

    fn topic(&mut self, table: &Table, links: &Links) -> Option<TopicFamily> {
        let row = self.row(table, &schema::TOPIC)?;
        let place = &table.place;
        let filter = row.get(&topic::FILTER)?;
        let mut contract = Contract::every(row.get(&topic::PERIOD));
        contract.deadline = row.given(&topic::DEADLINE).unwrap_or(contract.deadline);
        contract.loss = row.given(&topic::LOSS).flatten().unwrap_or(contract.loss);
        contract.retain = row.given(&topic::RETAIN).unwrap_or(contract.retain);
        contract.link = row.given(&topic::LINK).flatten().unwrap_or(contract.link);
        contract.priority = row.given(&topic::PRIORITY).unwrap_or(contract.priority);
        contract.confirm = row.given(&topic::CONFIRM).unwrap_or(contract.confirm);
        contract.size = row.given(&topic::SIZE).unwrap_or(contract.size);
        let (streams, subscribers) = (row.get(&topic::STREAMS), row.get(&topic::SUBSCRIBERS));
        if contract.loss == Loss::Unbounded && row.given(&topic::RETAIN).is_none() {
            contract.retain = 0;
        }
        if let Err(error) = contract.check() {
            self.problem(place, error.to_string(), "mend this topic".to_owned());
            return None;
        }
        if links.delay(contract.link).is_none() {
            let source = table.place_of(topic::LINK.path());
            let message = format!("the link class `{}` is not configured", contract.link);
            self.problem(&source, message, format!("add [link.{}] or use edge or cloud", contract.link));
            return None;
        }
        self.effective.push((format!("topic {filter}"), contract.to_string(), self.origin(place)));
        let keep = row.get(&topic::KEEP);
        let (keep_bytes, keep_rank) = (row.get(&topic::KEEP_BYTES), row.get(&topic::KEEP_RANK));
        if keep <= Span::ZERO
            && (row.given(&topic::KEEP_BYTES).is_some() || row.given(&topic::KEEP_RANK).is_some())
        {
            let message =
                "keep_bytes and keep_rank say how messages are kept, and keep does not say for how long"
                    .to_owned();
            self.problem(place, message, "give keep as well, such as \"72h\"".to_owned());
            return None;
        }
        let gap = row.get(&topic::GAP);
        let is_rare = contract.period.is_forever();
        if gap <= Span::ZERO || !gap.is_forever() && !is_rare && gap <= contract.period {
            let message = format!(
                "gap is {gap}, which is the longest time between two messages, and period is {}, which is the shortest",
                contract.period
            );
            let remedy = "give gap more than the period, or leave it out".to_owned();
            self.problem(&table.place_of(topic::GAP.path()), message, remedy);
            return None;
        }
        let rule = TopicRule { gap, ..TopicRule::new(filter, contract) };
        let paths = row.get(&topic::PATHS);
        let family = TopicFamily { rule, streams, subscribers, keep, keep_bytes, keep_rank, paths };
        let origin = self.origin(place);
        self.effective.extend(beyond_contract(&family).map(|(key, value)| (key, value, origin.clone())));
        Some(family)
    }

    /// How long the data thread may keep others waiting, or leave messages waiting.
    fn check_realtime(&mut self, realtime: &RealtimeConfig) {
        let RealtimeConfig { busy_poll, gather, .. } = *realtime;
        for (key, value, most, why) in [
            (
                keys::REALTIME_SPIN.key,
                busy_poll.unwrap_or(Span::ZERO),
                BUSY_POLL_MAX,
                "nothing of less priority runs meanwhile",
            ),
            (keys::REALTIME_GATHER.key, gather, GATHER_MAX, "every message may wait for so long"),
        ] {
            if value > most {
                let source = self.source(key.path);
                self.problem(
                    &source,
                    format!("{} is {value}, and {why}", key.path),
                    format!("give it at most {most}"),
                );
            }
        }
    }

    /// Values that contradict each other; both keys are named.
    fn check_relations(&mut self, config: &Config) {
        self.check_listeners(config);
        self.check_site(config);
        self.check_coordination(config);
        let detection = &config.detection;
        let detected = detection.poll * u64::from(detection.misses + 1) + detection.connect;
        if detected > config.delays.failover {
            let message = format!(
                "network.failover ({}) is shorter than a failure takes to be detected: detection.poll x \
                 (detection.misses + 1) + detection.connect = {detected}",
                config.delays.failover
            );
            let source = [self.place_of(&keys::NETWORK_FAILOVER), self.place_of(&keys::DETECTION_POLL)];
            let source =
                source.into_iter().find(|source| *source != Source::Default).unwrap_or(Source::Default);
            self.problem(&source, message, "lengthen network.failover, or poll more often".to_owned());
        }
        if config.replication != Replication::Eager && config.policy != Policy::Frame {
            let source = self.place_of(&keys::REPLICATION_POLICY);
            let message =
                "replication.policy is given, and scheduling.policy is a baseline that copies everything \
                           at once"
                    .to_owned();
            self.problem(&source, message, "use scheduling.policy = \"frame\"".to_owned());
        }
        let round = match config.replication {
            Replication::Periodic { period, .. } => Some(period),
            _ => None,
        };
        if round.is_some_and(|period| period < Span::millis(1)) {
            let source = self.place_of(&keys::REPLICATION_PERIOD);
            let message = "replication.period is below 1ms".to_owned();
            self.problem(&source, message, "copy in rounds at least 1ms apart".to_owned());
        }
        self.check_realtime(&config.realtime);
        let queue = config.store.queue_bytes_max;
        if queue < STORE_QUEUE_MIN {
            let source = self.place_of(&keys::STORE_QUEUE);
            let message = format!("store.queue is {queue} bytes, and one large record may need more");
            self.problem(&source, message, format!("give it at least {STORE_QUEUE_MIN} bytes"));
        }
        if config.limits.ring_slots_min > config.limits.ring_slots_max {
            let source = self.place_of(&keys::LIMITS_RING_SLOTS_MIN);
            let message = "limits.ring_slots_min is above limits.ring_slots_max".to_owned();
            self.problem(&source, message, "exchange them".to_owned());
        }
        if config.brokers.len() > 2 {
            let extra = keys::BROKERS_CLIENTS.path_of(&config.brokers[2].name);
            let source = self.source(&extra);
            let message = format!("{} brokers are configured, and a pair has two", config.brokers.len());
            self.problem(&source, message, "remove one".to_owned());
        }
        let mut seen: BTreeMap<(&Place, &str), String> = BTreeMap::new();
        for broker in &config.brokers {
            let http = broker.http.as_ref().map(|address| ("http", address));
            let doors = broker.entrances().into_iter().map(|entrance| (entrance.key, entrance.place));
            for (key, address) in doors.chain(http) {
                let path = format!("brokers.{}.{key}", broker.name);
                // At all addresses of its host: another broker's host is another one, as its address for the pair says.
                let host = if address.is_unspecified() { broker.pair.host() } else { "" };
                let place = (address, host);
                if let Some(other) = seen.insert(place, path.clone()).filter(|_| address.port() != 0) {
                    let source = self.source(&path);
                    let message = format!("{path} and {other} are both {address}");
                    self.problem(&source, message, "give each its own port".to_owned());
                }
            }
        }
    }
}

/// One table of a section that may be there many times, understood.
struct Row(BTreeMap<&'static str, Value>);

impl Row {
    /// What a key holds, if it is given.
    fn given<T>(&self, key: &Typed<T>) -> Option<T> {
        self.0.get(key.path()).and_then(|value| key.read(value))
    }

    /// What a key holds, given or by its default.
    fn get<T>(&self, key: &Typed<T>) -> T {
        self.given(key).unwrap_or_else(|| key.default())
    }
}

#[cfg(test)]
mod tests;
