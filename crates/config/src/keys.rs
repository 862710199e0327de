//! The definitions of all keys: for each its path, what it takes, its default, and what it means. What a key takes is also the type as
//! which it is read, so that a mistyped or misread key does not compile.

use crate::bandwidth::Bandwidth;
use crate::site::ProxyAddress;
use crate::typed::*;
use crate::value::VoteName;
use broker::{Policy, Severity};
use contract::{Every, LinkClass, Location, Loss, Span, TopicFilter};
use host::Place;
use host::tls::{ClientCertificates, TlsVersion};
use kv::{Mode, ResolveRule};
use mqtt::Standby;
use processing::{Join, Keep, PayloadType, RelativeSet, Violation};
use std::path::PathBuf;
use wire::limits::{PAYLOAD_BYTES_MAX, STREAMS_MAX};

/// A packet of MQTT with what belongs to it must fit a frame between the brokers.
const PACKET_BYTES_MAX: i64 = 1_000_000;

/// Keys, and the table of them in the order in which they are documented.
macro_rules! keys {
    ($all:ident { $($name:ident: $type:ty = $definition:expr;)* }) => {
        $(pub(crate) const $name: Typed<$type> = $definition;)*
        /// All of them.
        pub(crate) const $all: &[Key] = &[$($name.key),*];
    };
}

keys! {
    KEYS {
        BROKERS_CLIENTS: Option<Place> = key("brokers.*.clients", address(), "", "Where clients reach this broker.");
        BROKERS_PAIR: Option<Place> = key("brokers.*.pair", address(), "", "Where its partner reaches this broker.");
        BROKERS_HTTP: Option<Place> = key("brokers.*.http", address_or_none(), "\"none\"", "Where this broker shows metrics, health and status over HTTP: /metrics, /healthz, /readyz, /api/v1/status. The usual port is 7570.");
        BROKERS_START_AS: bool = key("brokers.*.start_as", choice(&["primary", "backup"], |word| word == "primary"), "\"backup\"", "Which one reigns where neither does yet. Only a preference: a broker that finds a reigning partner stands by.");
        BROKERS_CLIENTS_TLS: Option<Place> = key("brokers.*.clients_tls", address_or_none(), "\"none\"", "Where clients reach this broker over TLS.");
        BROKERS_PAIR_TLS: bool = key("brokers.*.pair_tls", switch(), "false", "Whether the partner must speak TLS at `pair`, and show the certificate of a broker: issued by tls.ca, and with the host of one of the configured `pair` addresses.");
        BROKERS_STORE: Option<PathBuf> = key("brokers.*.store", folder(), "\"\"", "Where this broker keeps sessions and retained messages, instead of in store.folder: so that one file says it for both.");
        BROKERS_MQTT: Option<Place> = key("brokers.*.mqtt", address_or_none(), "\"none\"", "Where MQTT clients reach this broker; usually port 1883.");
        BROKERS_MQTT_TLS: Option<Place> = key("brokers.*.mqtt_tls", address_or_none(), "\"none\"", "The same over TLS; usually port 8883.");
        BROKERS_MQTT_WS: Option<Place> = key("brokers.*.mqtt_ws", address_or_none(), "\"none\"", "The same over WebSocket, at the paths /mqtt and /; usually port 8083.");
        BROKERS_MQTT_WSS: Option<Place> = key("brokers.*.mqtt_wss", address_or_none(), "\"none\"", "The same over WebSocket and TLS; usually port 8084.");
        TLS_CERTIFICATE: Option<PathBuf> = key("tls.certificate", path_or_none(), "\"none\"", "Our certificate, and behind it those that lead to its issuer, in PEM. Paths are relative to the file that has them. SIGHUP loads all certificates again; connections go on.").reloadable();
        TLS_KEY: Option<PathBuf> = key("tls.key", path_or_none(), "\"none\"", "Its private key, in PEM, without a password.").reloadable();
        TLS_CA: Option<PathBuf> = key("tls.ca", path_or_none(), "\"none\"", "Who issues certificates of brokers, in PEM. Clients believe them, and so do brokers of each other.").reloadable();
        TLS_CLIENT_CA: Option<PathBuf> = key("tls.client_ca", path_or_none(), "\"none\"", "Who issues certificates of clients, in PEM.").reloadable();
        TLS_CLIENT_CERTIFICATES: ClientCertificates = key("tls.client_certificates", choice(&["none", "optional", "required"], client_certificates), "\"none\"", "Whether clients are asked for a certificate of tls.client_ca. The common name in it is the client's name.").reloadable();
        TLS_MINIMUM_VERSION: TlsVersion = key("tls.minimum_version", choice(&["1.2", "1.3"], tls_version), "\"1.2\"", "The oldest version of TLS that is spoken.").reloadable();
        NETWORK_FAILOVER: Span = key("network.failover", duration_within(Span::ZERO, Span::secs(3_600)), "\"50ms\"", "x: from the failure of the primary until every publisher sends to the backup. An upper bound.");
        NETWORK_PUBLISHER_TO_BROKER: Span = key("network.publisher_to_broker", duration_within(Span::ZERO, Span::secs(3_600)), "\"1ms\"", "dPB: from creation to arrival at the broker, jitter of the publisher included. An upper bound; at run time it is measured for each message.");
        NETWORK_BROKER_TO_BROKER: Span = key("network.broker_to_broker", duration_within(Span::ZERO, Span::secs(3_600)), "\"50us\"", "dBB: from the primary to the backup. An upper bound.");
        NETWORK_RESPONSE: Span = key("network.response", duration_within(Span::millis(2), Span::secs(3_600)), "\"5ms\"", "R: a message that goes on to other sites leaves this broker so long after it came, at most. Admission keeps that; it is a part of each way across.");
        LINK_BROKER_TO_SUBSCRIBER: Span = key("link.*.broker_to_subscriber", duration(), "", "dBS: from the broker to subscribers of this class. Messages leave by D - dBS: deadlines are kept where the way takes no longer, and brokers tell where it does (`subscriber_far`); more than that lets them be overtaken by others for nothing. `edge` (1ms) and `cloud` (20ms) exist without being configured.");
        LINK_CONFIRMATION: Span = key("link.*.confirmation", duration(), "", "From dispatch until a subscriber's confirmation is back. An upper bound, for confirmed topics. `edge` 10ms, `cloud` 100ms.");
        DETECTION_POLL: Span = key("detection.poll", duration_within(Span::millis(1), Span::secs(10)), "\"10ms\"", "The time between two polls of the primary by its backup.");
        DETECTION_MISSES: u32 = key("detection.misses", integer(1, 100), "2", "How many polls in a row may stay unanswered, while no heartbeats come either, before the backup takes over. Heartbeats are UDP \
         datagrams, two in the time of a poll, between the ports of the same numbers as the brokers' `pair` addresses.");
        DETECTION_PATIENCE_MAX: Span = key("detection.patience_max", duration_within(Span::millis(1), Span::secs(3_600)), "\"500ms\"", "How long silence is borne at most. It is borne for detection.poll x detection.misses where heartbeats come evenly; for longer \
         where many are lost or their delays differ, and after a takeover that was wrong.");
        DETECTION_STALL: Span = key("detection.stall", duration_within(Span::millis(1), Span::secs(3_600)), "\"200ms\"", "How long the primary's data thread may stand still in one turn of its work, while its process sends heartbeats, before the backup takes over.");
        DETECTION_CONNECT: Span = key("detection.connect", duration_within(Span::millis(1), Span::secs(3_600)), "\"10ms\"", "How long a broker's attempt to reach its partner may take.");
        DETECTION_RETRY: Span = key("detection.retry", duration_within(Span::millis(1), Span::secs(3_600)), "\"100ms\"", "The time between two attempts to reach the partner.");
        DETECTION_SEEK_PRIMARY: Span = key("detection.seek_primary", duration(), "\"500ms\"", "How long a broker that starts as primary looks for its partner before it reigns alone.");
        DETECTION_SEEK_BACKUP: Span = key("detection.seek_backup", duration(), "\"3s\"", "The same for a broker that starts as backup.");
        SCHEDULING_POLICY: Policy = key("scheduling.policy", choice(&["frame", "fcfs", "fcfs-minus"], policy), "\"frame\"", "frame: earliest deadline first, copies only where a contract needs them. fcfs and fcfs-minus are baselines for measurements: first come first served, everything copied, with and without pruning.");
        REPLICATION_POLICY: Copying = key("replication.policy", choice(&["eager", "lazy", "periodic", "retransmission-only"], copying), "\"lazy\"", "When messages are copied to the backup. eager: as soon as nothing more urgent waits. lazy: at the last safe moment, and only what is not dispatched by then. periodic (everything that has arrived since the last round) and retransmission-only (nothing) are baselines for measurements, which do not keep loss bounds.");
        REPLICATION_EVERY: Every = key("replication.every", choice(&["all", "loss", "max"], every), "\"all\"", "lazy: which messages are copied. all: each, as late as can be. loss: one in L. max: one in L + 1 where messages are retained. Fewer copies must leave earlier; where there is no time for so few, more are made.");
        REPLICATION_WINDOW: Span = key("replication.window", duration(), "\"40ms\"", "W, lazy: when a copy leaves, those that would have to leave within this time go along.");
        REPLICATION_BUDGET: Span = key("replication.budget", duration(), "\"40ms\"", "C_r, lazy: a copy begins so long before its deadline. It must cover everything that may come at once, which admission checks (a copy leaves when what came with it does), and what the host itself is late by. Topics whose copies have no more time than this are copied eagerly.");
        REPLICATION_PERIOD: Span = key("replication.period", duration(), "\"25ms\"", "periodic: the time between two rounds, at least 1ms.");
        REPLICATION_SKIP_DISPATCHED: bool = key("replication.skip_dispatched", switch(), "true", "periodic: whether a round leaves out what has been dispatched.");
        ADMISSION_SCHEDULABILITY: bool = key("admission.schedulability", switch(), "true", "Whether a set of topics that could not be served in time is refused.");
        ADMISSION_SUBSCRIPTIONS: bool = key("admission.subscriptions", choice(&["refuse", "best-effort"], |word| word == "best-effort"), "\"refuse\"", "What happens to a subscription for which there is no time. best-effort: unless it needs something, and unless something is promised to its client already, it is served after all others, and told so.");
        ADMISSION_SHARE: f64 = key("admission.share", share(), "0.8", "The share of one processor that all topics together may take.");
        ADMISSION_ARRIVAL_COST: Option<Span> = key("admission.arrival_cost", duration_or_auto(), "\"auto\"", "Processor time to take one message in. auto: as measured on this host, with twice that as a margin.");
        ADMISSION_DISPATCH_COST: Option<Span> = key("admission.dispatch_cost", duration_or_auto(), "\"auto\"", "Processor time to dispatch one message to one subscriber. auto: as measured.");
        ADMISSION_REPLICATION_COST: Option<Span> = key("admission.replication_cost", duration_or_auto(), "\"auto\"", "Processor time to copy one message to the backup and to take the copy back. auto: as measured.");
        ADMISSION_TURN_COST: Option<Span> = key("admission.turn_cost", duration_or_auto(), "\"auto\"", "Processor time of one turn of the data thread, whatever it brings. auto: as measured.");
        ADMISSION_READ_COST: Option<Span> = key("admission.read_cost", duration_or_auto(), "\"auto\"", "Processor time to read from one connection once, whatever there is. auto: as measured, for TCP, TLS and WebSocket each.");
        ADMISSION_WRITE_COST: Option<Span> = key("admission.write_cost", duration_or_auto(), "\"auto\"", "Processor time to write into one connection once, whatever there is. auto: as measured, for each kind.");
        ADMISSION_KIB_COST: Option<Span> = key("admission.kib_cost", duration_or_auto(), "\"auto\"", "Processor time for 1024 bytes of payload on one connection. auto: as measured, for each kind.");
        ADMISSION_PROFILE_FOLDER: Option<PathBuf> = key("admission.profile_folder", folder(), "\"\"", "Where the host's profile is kept (profile.json): what `verge calibrate` has measured, or the first command that needed it. \"\": $CACHE_DIRECTORY, or verge in the user's cache folder.");
        ADMISSION_BLOCKING: Option<Span> = key("admission.blocking", duration_or_auto(), "\"auto\"", "The longest time for which an urgent message waits because something else has begun. auto: as measured.");
        REALTIME_PRIORITY: Option<u8> = key("realtime.priority", integer_or_auto(0, 99), "\"auto\"", "Priority of the data thread under SCHED_FIFO; 0 for ordinary scheduling. auto: 50 where the host allows it.");
        REALTIME_PROCESSORS: Vec<usize> = key("realtime.processors", integers(), "[]", "Processors that the data thread stays on; empty for any.");
        REALTIME_LOCK_MEMORY: Option<bool> = key("realtime.lock_memory", switch_or_auto(), "\"auto\"", "Whether memory is kept resident. auto: where the host allows it.");
        REALTIME_AWAKE: bool = key("realtime.awake", switch(), "false", "Whether idle processors are kept from halting, for virtual machines; it costs power. The kernel does it where it has an idle state \
         in which it polls, the broker may write /dev/cpu_dma_latency (root may), and realtime.processors names none or all. Otherwise threads \
         of the lowest priority spin there (on those of realtime.processors, if there are any), which counts as processor time of the broker.");
        REALTIME_SPIN: Option<Span> = key("realtime.spin", duration_or_auto(), "\"auto\"", "For so long the data thread goes on looking for messages before it sleeps, up to 1ms, which saves the time of waking it. It does so \
         only where nearly all of its last 64 waits were that short (or twice that, with waking), no connection brings 4 KiB or more at once or is behind, and operators leave a processor. Whatever is less \
         urgent cannot have its processor meanwhile. auto: 50us, about what sleeping and waking take on a virtual machine, and none where a control group grants only a \
         part of the processors.");
        REALTIME_GATHER: Span = key("realtime.gather", duration(), "\"200us\"", "Where operators nearly always keep all processors, the data thread rests for so long at most before it looks for messages again, up \
         to 1ms, so that fewer wake-ups take processors from them. Only where there are graphs at the start; admission counts it as blocking there. 0s: never.");
        MQTT_SESSIONS: usize = key("mqtt.sessions", integer(1, 10_000_000), "65536", "Sessions of one broker, connected or not.");
        MQTT_PACKET: usize = key("mqtt.packet", bytes_within(1, PACKET_BYTES_MAX), "\"256KiB\"", "The largest packet that is taken.");
        MQTT_TOPIC_BYTES: usize = key("mqtt.topic_bytes", integer(1, contract::TOPIC_BYTES_MAX as i64), "65535", "The longest topic or filter of MQTT, in bytes.");
        MQTT_TOPIC_LEVELS: usize = key("mqtt.topic_levels", integer(1, contract::TOPIC_LEVELS_MAX as i64), "200", "The deepest topic or filter of MQTT, in levels.");
        MQTT_RECEIVE_MAXIMUM: u16 = key("mqtt.receive_maximum", integer(1, 65_535), "1024", "Messages of QoS 1 and 2 that a client may send before they are answered.");
        MQTT_TOPIC_ALIASES: u16 = key("mqtt.topic_aliases", integer(0, 65_535), "0", "Topic aliases that one client may give; 0 for none. Some clients send a number whose topic they have given on an earlier connection, and never get past it.");
        MQTT_TOPIC_ALIASES_OUT: u16 = key("mqtt.topic_aliases_out", integer(0, 65_535), "16", "Topic aliases that one client is given, if it takes any; 0 for none.");
        MQTT_INFLIGHT: u16 = key("mqtt.inflight", integer(1, 65_000), "256", "Messages of QoS 1 and 2 that are sent to one client before it answers.");
        MQTT_QUEUE_MESSAGES: usize = key("mqtt.queue_messages", integer(1, 10_000_000), "1000", "Messages that wait for one session. Above it, its oldest are dropped and counted.");
        MQTT_QUEUE: usize = key("mqtt.queue", bytes(), "\"256MiB\"", "Messages that wait for sessions, all together. Above it, further ones are dropped and counted.");
        MQTT_BACKLOG: usize = key("mqtt.backlog", bytes_within(64 << 10, 1 << 40), "\"4MiB\"", "What may wait on one connection. Above it, messages of QoS 0 are dropped and counted, others queued.");
        MQTT_SUBSCRIPTIONS_PER_SESSION: usize = key("mqtt.subscriptions_per_session", integer(1, 1_000_000), "1024", "Subscriptions of one session.");
        MQTT_SUBSCRIPTIONS: usize = key("mqtt.subscriptions", integer(1, 10_000_000), "200000", "Subscriptions of all sessions.");
        MQTT_RETAINED_MESSAGES: usize = key("mqtt.retained_messages", integer(0, 10_000_000), "65536", "Retained messages. Above it, those of further topics are not retained, and counted. Each topic is a stream as well while somebody publishes on it (limits.streams).");
        MQTT_RETAINED: usize = key("mqtt.retained", bytes(), "\"64MiB\"", "Retained messages in bytes.");
        MQTT_TOPICS_PER_SESSION: usize = key("mqtt.topics_per_session", integer(1, 1_000_000), "1024", "Topics on which one client publishes that are remembered. Above it, all are looked up anew.");
        MQTT_GREETING: Span = key("mqtt.greeting", duration_within(Span::millis(10), Span::secs(86_400)), "\"5s\"", "How long a connection may take until its CONNECT is answered.");
        MQTT_SESSION_EXPIRY: Span = key("mqtt.session_expiry", duration(), "\"168h\"", "For how long a session may outlive its connection. Clients of 3.1.1 without a clean session get this.");
        MQTT_KEEP_ALIVE: Span = key("mqtt.keep_alive", duration_within(Span::secs(1), Span::secs(65_535)), "\"1h\"", "The longest keep-alive; longer ones are shortened to it. A client of 3.1.1 cannot be told, and keeps its own.");
        MQTT_STANDBY: Standby = key("mqtt.standby", choice(&["closed", "redirect", "unavailable"], standby), "\"closed\"", "What clients meet at the broker that stands by. `closed`: its ports refuse connections until it takes over, and every client tries its other address. `redirect`: clients of MQTT 5 are told where the other one is. `unavailable`: all are told that nobody serves them there.");
        MQTT_REPEATS: u32 = key("mqtt.repeats", integer(0, 1_000_000), "3", "How often a message with QoS 1 or 2 may come that is refused each time and whose client cannot be told so (MQTT 3.1.1, or one that is too large, which may come once). After that it is acknowledged and dropped, counted, and an alarm tells of it. 0: never, and the client repeats it for ever.");
        MQTT_WHEN_FULL: bool = key("mqtt.when_full", choice(&["drop-oldest", "refuse"], |word| word == "refuse"), "\"drop-oldest\"", "What becomes of a message for a session for which as many wait as may. `drop-oldest`: it takes the place of the oldest. `refuse`: its publisher, if it is one of MQTT that asks for an answer, hears 0x97, or has its connection ended where it cannot hear that. Both are counted, and an alarm tells of them.");
        MQTT_HOLD: Span = key("mqtt.hold", duration(), "\"300ms\"", "How long a client waits that comes to the broker which stands by, before it is sent to the other one: after a crash the one that stands by reigns soon. Where its ports are closed, only those wait that come in the moment in which they are.");
        MQTT_GRACE: Span = key("mqtt.grace", duration(), "\"5s\"", "After a failover: how long sessions have to come back before their wills are published.");
        MQTT_SYS_INTERVAL: Span = key("mqtt.sys_interval", duration(), "\"10s\"", "Between two publications of `$SYS/broker/...`; 0 for none.");
        LIMITS_CONNECTIONS: usize = key("limits.connections", integer(4, 1_000_000), "16384", "Clients of one broker, of all protocols together. The partner and a few operators come in besides; fewer clients do where the host allows too few descriptors.");
        LIMITS_RELAYED: usize = key("limits.relayed", integer(0, 65_536), "1024", "Clients at once that cannot reach the primary, and pass through its backup to it. Their connections there come on top of connections. 0: none.");
        LIMITS_CONNECTIONS_PER_ADDRESS: u32 = key("limits.connections_per_address", integer(1, 1_000_000), "16384", "Connections of one broker from one address. Further ones are closed and counted.");
        LIMITS_ACCEPTS_PER_SECOND: u32 = key("limits.accepts_per_second", integer(1, 1_000_000), "5000", "Connections that one listener takes in a second. Further ones wait in the system's queue.");
        LIMITS_HANDSHAKES: usize = key("limits.handshakes", integer(1, 65_536), "1024", "Handshakes of TLS and WebSocket under way at once. Above it, the oldest is given up. Each may take limits.greeting.");
        LIMITS_STREAMS: usize = key("limits.streams", integer(1, STREAMS_MAX as i64), "65536", "Streams of one broker: one per topic and publisher.");
        LIMITS_SESSIONS: usize = key("limits.sessions", integer(1, 1_000_000), "4096", "Subscribing clients of one broker.");
        LIMITS_FILTERS_PER_SESSION: usize = key("limits.filters_per_session", integer(1, 65_536), "256", "Filters of one subscribing client.");
        LIMITS_JOBS: usize = key("limits.jobs", integer(16, 100_000_000), "1048576", "Jobs that may wait. Above it, arriving messages are dropped and counted as overrun.");
        LIMITS_RING_SLOTS_MIN: usize = key("limits.ring_slots_min", integer(2, 65_536), "8", "Messages kept per stream at least.");
        LIMITS_RING_SLOTS_MAX: usize = key("limits.ring_slots_max", integer(2, 131_072), "4096", "Messages kept per stream at most. A contract that needs more is refused.");
        LIMITS_BACKUP_SLOTS: usize = key("limits.backup_slots", integer(2, 65_536), "10", "Copies kept per replicated stream at least.");
        LIMITS_MEMORY: Option<usize> = key("limits.memory", bytes_or_auto(16 << 20, 1 << 42), "\"auto\"", "Memory of one broker: half of it at most is for messages, three eighths are for subscribers that do not read as fast as is \
         sent and for sessions and retained messages of MQTT, a sixteenth is for filters of subscriptions, the rest for what serves them. \"auto\": half of what the host or the \
         broker's control group has, whichever is less, and no more \
         than three quarters of what can be had when it starts.");
        LIMITS_STORE: usize = key("limits.store", bytes_within(64 << 10, 1 << 42), "\"2GiB\"", "Memory for messages. A contract has what its messages may take reserved when it is admitted, and is refused where that is not \
         left; what has no loss bound shares the rest by its real size, the oldest going first, and what its streams need at least is a quarter of all \
         at most. At most half of limits.memory.");
        LIMITS_SIZE_ASSUMED: usize = key("limits.size_assumed", bytes_within(1, PAYLOAD_BYTES_MAX as i64), "\"4KiB\"", "The payload for which memory is reserved where a contract does not state its size. Longer messages are taken as long as more \
         can be reserved, and are otherwise lost, counted and told of.");
        LIMITS_SUBSCRIBER_BACKLOG: usize = key("limits.subscriber_backlog", bytes_within(4 << 10, 1 << 40), "\"4MiB\"", "What may wait on a subscriber's connection before its messages are deferred.");
        LIMITS_SUBSCRIBER_DELAY: Span = key("limits.subscriber_delay", duration(), "\"1s\"", "How long messages wait for a subscriber that reads slower than its topics publish, or until their deadline if that is later. Then they are dropped for it, so that it gets the newest.");
        LIMITS_DEFERRED_PER_SUBSCRIBER: usize = key("limits.deferred_per_subscriber", integer(1, 10_000_000), "16384", "Messages deferred for one subscriber. Above it, its oldest are dropped and counted as its losses.");
        LIMITS_SYNC_BACKLOG: usize = key("limits.sync_backlog", bytes_within(4 << 10, 1 << 40), "\"128KiB\"", "What may wait for the partner while it is brought up to date.");
        LIMITS_GREETING: Span = key("limits.greeting", duration_within(Span::millis(10), Span::secs(86_400)), "\"2s\"", "How long a new connection may take to say who it is.");
        LIMITS_SILENCE: Span = key("limits.silence", duration_within(Span::millis(10), Span::secs(86_400)), "\"5s\"", "How long a client may be silent before its connection is taken for dead.");
        LIMITS_SESSION_LINGER: Span = key("limits.session_linger", duration(), "\"5s\"", "How long a subscriber without connection is remembered.");
        LIMITS_STREAM_LINGER: Span = key("limits.stream_linger", duration(), "\"1min\"", "How long a stream is remembered whose publisher is gone.");
        LIMITS_DRAIN: Span = key("limits.drain", duration_within(Span::ZERO, Span::secs(3_600)), "\"2s\"", "How long a broker that ends waits for its publishers to move to the partner.");
        METRICS_CLASSES_MAX: usize = key("metrics.classes_max", integer(0, 1_000), "32", "Filters of [[topic]] that are measured each by itself, in their order. Messages of the others are measured together, as `other`.");
        LOG_FORMAT: bool = key("log.format", choice(&["text", "json"], |word| word == "json"), "\"text\"", "text: lines for people. json: one object per line, with every value as a field.").reloadable();
        LOG_LEVEL: Severity = key("log.level", choice(&["error", "warn", "info", "debug"], severity), "\"info\"", "What is less grave is not written. debug: also which clients of MQTT come and go, and why.").reloadable();
        STORE_FOLDER: Option<PathBuf> = key("store.folder", folder(), "\"\"", "Where sessions and retained messages are kept across restarts; made with access for the broker's user only. Each broker needs its own. \"\": nothing is kept.");
        STORE_COMMIT_EVERY: Span = key("store.commit_every", duration(), "\"5ms\"", "The time from one commit to the next while there is anything to write. Several changes of one record in between are one.");
        STORE_QUEUE: usize = key("store.queue", bytes(), "\"64MiB\"", "What may wait to be written. A disk that is slower than this lasts is given up, and the broker says so.");
        PROCESSING_LEVELS: u8 = key("processing.levels", integer(1, 16), "3", "How many levels of urgency operators have. Level 0 is the most urgent.");
        PROCESSING_WORKERS: Option<usize> = key("processing.workers", integer_or_auto(1, 256), "\"auto\"", "Threads of each level. auto: as many as the data thread leaves processors.");
        PROCESSING_EVENTS: usize = key("processing.events", integer(16, 16_000_000), "65536", "Messages that may be under way through operators at once. Above it, further ones are not processed, and counted.");
        PROCESSING_INBOX: usize = key("processing.inbox", integer(16, 16_000_000), "16384", "Events that may wait for the operators of one level. As many again wait in front of it: an input that keeps the latest has one place there, and of all others the oldest is dropped and counted.");
        PROCESSING_SNAPSHOTS: Span = key("processing.snapshots", duration(), "\"100ms\"", "How often what an operator remembers is copied to the backup, while it is given something. A message counts as processed when such a copy has it, so brokers keep messages for twice as long in addition; a shorter time takes more processor time and bytes.");
        PROCESSING_SHARING: bool = key("processing.sharing", switch(), "true", "Whether outputs share the operators that they have in common. false, for comparison: each output has its own.");
        PROCESSING_PRIORITIZATION: bool = key("processing.prioritization", switch(), "true", "Whether outputs have the levels that are configured. false, for comparison: all have level 0.");
        KV_FAULTS: usize = key("kv.faults", integer(0, 21), "1", "f: how many nodes of the key-value store may be faulty. 3f + 1 nodes are needed, or f + 1 where they only crash.");
        KV_MODE: Mode = key("kv.mode", choice(&["byzantine", "crash"], mode), "\"byzantine\"", "What a faulty node may do: anything (byzantine), or only stop (crash).");
        KV_RESOLVE: ResolveRule = key("kv.resolve", choice(&["majority", "all-but-faulty"], resolve_rule), "\"majority\"", "When the words of those who pass something on count: if more than half of them say the same, or all but f. Both are correct.");
        KV_START_WAIT: Span = key("kv.start_wait", duration(), "\"10s\"", "How long a node waits for all others before it begins with those that there are.");
        KV_DELAY_MAX: Span = key("kv.delay_max", duration(), "\"500us\"", "The longest that a frame is on its way from one node to another.");
        KV_CLOCK_ERROR: Span = key("kv.clock_error", duration(), "\"100us\"", "How far the clocks of two correct nodes may be apart.");
        KV_SEND: Span = key("kv.send", duration(), "\"200us\"", "The longest that a node takes to make and send the frames of one round.");
        KV_RECEIVE: Span = key("kv.receive", duration(), "\"200us\"", "The longest that a node takes to read and check the frames of one round.");
        KV_BANDWIDTH: u64 = key("kv.bandwidth", bytes(), "\"125MB\"", "What the link of a node carries in a second, for `verge kv check`.");
        KV_TREE_MEMORY: usize = key("kv.tree_memory", bytes(), "\"256MiB\"", "What one lane may take for what nodes have told each other in one job.");
        KV_STORE_MEMORY: usize = key("kv.store_memory", bytes(), "\"256MiB\"", "What one lane may take for published values.");
        KV_NODES_ADDRESS: Option<Place> = key("kv.nodes.*.address", address(), "", "Where the other nodes of the store reach this one.");
        KV_NODES_HTTP: Option<Place> = key("kv.nodes.*.http", address_or_none(), "\"none\"", "Where this node shows metrics, health and status over HTTP: /metrics, /healthz, /readyz, /api/v1/status. The usual port is 7590.");
        KV_NODES_SOCKET: Option<PathBuf> = key("kv.nodes.*.socket", path(), "\"\"", "The Unix socket for the node's tasks and tools. Empty: /run/verge/kv-NAME.sock.");
        KV_NODES_SECRETS: Option<PathBuf> = key("kv.nodes.*.secrets", path_or_none(), "\"none\"", "The keys of the node's links, made by `verge kv secrets`. none: only where all nodes are on one host.");
        SECURITY_USERS: Option<PathBuf> = key("security.users", path(), "\"\"", "The user file, which says who may do what; a relative path starts at the file that has this key. `verge user` and `verge acl` use it. Empty: none. See users.md.");
        SECURITY_LOGINS_PER_MINUTE: u64 = key("security.logins_per_minute", integer(1, 1_000_000), "20", "Failed logins from one address, and for one name from one address. Above it, logins are refused without looking at the password.");
        SECURITY_PASSWORD_THREADS: usize = key("security.password_threads", integer(1, 64), "1", "Threads that check passwords. Each check takes one of them for tens of milliseconds.");
        SECURITY_PASSWORDS_PENDING: usize = key("security.passwords_pending", integer(1, 65_536), "256", "Passwords that may wait for their check. Above it, the answer to a login is \"busy\" at once.");
        SECURITY_PASSWORDS_REMEMBERED: usize = key("security.passwords_remembered", integer(0, 1_000_000), "16384", "Logins that are remembered as right, so that clients that connect again need not wait.");
        SECURITY_PASSWORD_MEMORY: Span = key("security.password_memory", duration(), "\"15min\"", "How long they are remembered.");
        SECURITY_PAIR_SECRET_FILE: Option<PathBuf> = key("security.pair_secret_file", path(), "\"\"", "A file with a secret of at least 16 bytes in its first line, the same on both brokers, by which they know each other. Required for a pair with security.users. It is sent as it is: put the link between the brokers on a network of its own.");
        SITE_NAME: Option<String> = key("site.name", site(), "\"\"", "The name of this site, which no other site has. With it, and with [routers.*], the broker that reigns joins the site to others; see sites.md. Empty: the site stands alone.");
        SITE_SHARE: Vec<TopicFilter> = key("site.share", filters(), "[\"#\"]", "Topics that may leave the site. They do where another site wants them, and only then.");
        SITE_WANT: Vec<TopicFilter> = key("site.want", filters(), "[\"#\"]", "Topics of other sites that may come. They do where somebody here subscribes them.");
        SITE_USER: Option<String> = key("site.user", user(), "\"\"", "Who the uplink is at this site's own brokers, where they have users. It needs the rights to publish, subscribe and give contracts on what is shared and wanted, and `admin sites`.");
        SITE_PASSWORD_FILE: Option<PathBuf> = key("site.password_file", path(), "\"\"", "A file with that user's password in its first line.");
        SITE_JOURNAL: Option<PathBuf> = key("site.journal", folder(), "\"\"", "The folder of the site's journal, on a disk of this host; each broker has its own below it. In it is what [[topic]] says to `keep`, and how far the site has come in the journals of others. Without it nothing is kept, and what this site misses does not come afterwards. Empty: none.");
        SITE_JOURNAL_BYTES: u64 = key("site.journal_bytes", bytes_within(64 << 20, 1 << 44), "\"4GiB\"", "Bytes that the journal of each broker may take of the disk. Then the oldest messages are given up, of those that are ranked last (topic.keep_rank).");
        SITE_HISTORY: Span = key("site.history", duration(), "\"0s\"", "How much of what was published before is wanted of another site's topics that are met for the first time. 0s: what is published from then on.");
        UPLINK_USER: Option<String> = key("uplink.user", user(), "\"\"", "Who the site is at routers, where they have users. It needs the same rights there: to publish below its own name, and to subscribe below those of others.");
        UPLINK_PASSWORD_FILE: Option<PathBuf> = key("uplink.password_file", path(), "\"\"", "A file with that user's password in its first line.");
        UPLINK_TLS: Option<bool> = key("uplink.tls", switch_or_auto(), "\"auto\"", "Whether routers are spoken to over TLS, with tls.certificate and tls.key. auto: where tls.ca is given.");
        UPLINK_PROXY: Option<ProxyAddress> = key("uplink.proxy", proxy(), "\"none\"", "A proxy through which routers, and what names them, are reached. It looks up their names. none: they are reached directly.");
        UPLINK_PROXY_USER: Option<String> = key("uplink.proxy_user", user(), "\"\"", "Who this is at the proxy, where that wants to know.");
        UPLINK_PROXY_PASSWORD_FILE: Option<PathBuf> = key("uplink.proxy_password_file", path(), "\"\"", "A file with that user's password in its first line.");
        UPLINK_LINK: Option<LinkClass> = key("uplink.link", link(), "\"cloud\"", "The link class by which routers reckon the way to this site.");
        UPLINK_RETAIN: u32 = key("uplink.retain", integer(0, 65_536), "0", "How many messages of each stream are retained at least, to be sent again when a router fails. 0: as many as the contract says.");
        UPLINK_BACKLOG_RATE: u64 = key("uplink.backlog_rate", bytes_within(16 << 10, 1 << 32), "\"1MiB\"", "Bytes in a second that each broker of this site sends to others at most of what they missed, so that it holds up nothing live.");
        UPLINK_BANDWIDTH: Option<Bandwidth> = key("uplink.bandwidth", bandwidth(), "\"none\"", "What the link between this site and its routers carries at least, each way, where that is little. Best effort then goes by a connection of its own, no faster than uplink.bulk_bandwidth, and contracts are promised only as far as there is room. none: the link is taken to be wide enough for everything.");
        UPLINK_BULK_BANDWIDTH: Option<Bandwidth> = key("uplink.bulk_bandwidth", bandwidth(), "\"none\"", "What best effort may take of it, each way, with what was missed. none: half of it.");
        UPLINK_QUEUEING: Option<Span> = key("uplink.queueing", duration_or_auto(), "\"auto\"", "How long messages with contracts may wait for each other on that link, as a part of the time that the class of uplink.link has. auto: half of that.");
        ROUTERS_ADDRESS: Option<Place> = key("routers.*.address", address(), "", "Where a router is reached: the `clients` of its broker, or `clients_tls` with uplink.tls.");
        ROUTERS_PARTNER: Option<Place> = key("routers.*.partner", address_or_none(), "\"none\"", "The same of the other broker, where the router is a pair.");
        ROUTERS_TOPICS: Vec<TopicFilter> = key("routers.*.topics", filters(), "[]", "Topics of this site that go by this router before all others, while no others do. Where it is away, they go by another one; and others go by it where there is no other. Empty: it is there for any.");
        COORDINATION_SERVERS: Vec<Place> = key("coordination.servers", places(), "[]", "The servers of the Apache ZooKeeper ensemble that names the routers, and says which topic goes by which. Empty: routers are those of [routers.*].");
        COORDINATION_NAMESPACE: String = key("coordination.namespace", namespace(), "\"/verge\"", "The node below which everything stands there; made where it is missing. The same for all sites and routers that are to know of each other.");
        COORDINATION_SESSION: Span = key("coordination.session", duration_within(Span::secs(1), Span::secs(3_600)), "\"5s\"", "Of whom the service has not heard for so long is gone: topics of a router that is alone go to another one then. The service may settle on another time.");
        COORDINATION_TLS: bool = key("coordination.tls", switch(), "false", "Whether the servers are spoken to over TLS (ZooKeeper's `secureClientPort`, often 2281): their certificates are issued by tls.ca and have the names or addresses of coordination.servers, and tls.certificate is shown.");
        COORDINATION_LOGIN: bool = key("coordination.login", choice(&["digest", "sasl"], is_sasl), "\"digest\"", "How the user is made known: by the digest scheme, for which the service takes any password, and a wrong one is seen by what it forbids; or by SASL with DIGEST-MD5.");
        COORDINATION_USER: Option<String> = key("coordination.user", user(), "\"\"", "Who this is to the service. What is created there is then this user's alone; all sites and routers need the same one. Empty: nobody, and anybody may change what stands there.");
        COORDINATION_PASSWORD_FILE: Option<PathBuf> = key("coordination.password_file", path(), "\"\"", "A file with that user's password in its first line.");
        COORDINATION_TOPICS: usize = key("coordination.topics", integer(1, 1_000_000), "10000", "Topics that the site may share with others at most.");
        ROUTER_NAME: Option<String> = key("router.name", site(), "\"\"", "The name of the router that these brokers are, which no other one has; with [coordination]. Empty: they are none, or one that sites list in their files.");
        ROUTER_ADDRESS: Option<Place> = key("router.address", address_or_none(), "\"none\"", "Where sites reach the first broker. none: its `clients`, or `clients_tls` where tls.certificate is given.");
        ROUTER_PARTNER: Option<Place> = key("router.partner", address_or_none(), "\"none\"", "The same of the second broker.");
        ROUTER_POLICY: federation::Policy = key("router.policy", choice(&["least-topics", "least-traffic", "least-connections", "least-processor", "hash"], giving), "\"least-topics\"", "To which router a topic is given: the one with the fewest topics, from which the fewest bytes leave, with links to the fewest sites, with the least processor time, or by its name. That of the router counts that has been there for longest.");
        ROUTER_TOPICS: Vec<TopicFilter> = key("router.topics", filters(), "[]", "Topics that go by this router before all others, while no others do: say, those that are to take the direct path to the site where it stands. Where it is away or full, they go by another one; and others go by it where there is no other. Empty: it is there for any.");
        ROUTER_TOPICS_MAX: usize = key("router.topics_max", integer(1, 1_000_000), "1000000", "Topics that this router is given at most.");
        SPACE_DIMENSIONS: Vec<String> = key("space.dimensions", dimensions(), "[\"kind\", \"sensor\"]", "What is said of things that peers offer and want: one to six names, in the order in which values without a name are taken. A range makes a dimension one of numbers.");
        SPACE_CLOSED: bool = key("space.closed", switch(), "false", "Whether profiles have no other attributes than these.");
        OVERLAY_SOUTH_WEST: Option<Location> = key("overlay.south_west", location(), "\"-90, -180\"", "The corner in the south-west of the area that peers cover. It is quartered where many of them are; what lies outside counts with the border.");
        OVERLAY_NORTH_EAST: Option<Location> = key("overlay.north_east", location(), "\"90, 180\"", "The corner in the north-east.");
        OVERLAY_LEAST: usize = key("overlay.least", integer(1, 16), "3", "How many peers a region has at least: one that has fewer for long joins a neighbour.");
        OVERLAY_CAPACITY: usize = key("overlay.capacity", integer(1, 1_024), "4", "How many peers a region may have before it is split, where each of its quarters would have overlay.least.");
        OVERLAY_ALIVE: Span = key("overlay.alive", duration_within(Span::millis(50), Span::secs(60)), "\"1500ms\"", "How often a peer and the master of its region tell each other that they live. Who is silent for three times as long is taken for dead.");
        OVERLAY_CONTACTS: Vec<Place> = key("overlay.contacts", places(), "[]", "Further peers that are asked where others are, besides those of [peers.*].");
        OVERLAY_TLS: bool = key("overlay.tls", switch(), "false", "Whether peers speak TLS with each other and show certificates: tls.certificate, issued by tls.ca, and for the host of the peer's `address`. The files are read again for each connection.");
        PEERS_ADDRESS: Option<Place> = key("peers.*.address", address(), "", "Where this peer listens for others, and they reach it.");
        PEERS_HTTP: Option<Place> = key("peers.*.http", address_or_none(), "\"none\"", "Where programs of its host offer and want things over HTTP, and it shows how it is. See peers.md.");
        PEERS_ROLE: bool = key("peers.*.role", choice(&["edge", "core"], |role| role == "core"), "\"edge\"", "What kind of host it is: near devices, or one that has much room. Functions may say at which kind they run.");
        PEERS_LOCATION: Option<Location> = key("peers.*.location", location(), "\"0, 0\"", "Where it is.");
        PEERS_STORE: Option<PathBuf> = key("peers.*.store", folder(), "\"\"", "The folder where it keeps what programs put (`verge store`), on a disk of its host. Empty: in memory, where it is gone with its process; other peers have copies.");
        PEERS_STORE_BYTES: u64 = key("peers.*.store_bytes", bytes_within(1 << 20, 1 << 44), "\"256MiB\"", "Bytes of keys and values that it keeps. Without `store` they are in memory.");
        PEERS_OFFERS: Vec<String> = key("peers.*.offers", profiles(), "[]", "Profiles that it offers by itself, of devices that know nothing of peers: \"drone, lidar; topic=plant/7/lidar\". They are where the peer is, unless they say lat and long.");
        CLIENT_USER: Option<String> = key("client.user", user(), "\"\"", "Who the commands are that connect to brokers (pub, sub, status and so on); --user wins. Empty: nobody, which brokers with users call `anonymous`.");
        CLIENT_PASSWORD_FILE: Option<PathBuf> = key("client.password_file", path(), "\"\"", "A file with that user's password in its first line. The environment variable VERGE_PASSWORD wins over it, and --password-file over both.");
    }
}

/// The keys of one `[[topic]]`.
pub(crate) mod topic {
    use super::*;

    keys! {
        KEYS {
            FILTER: Option<TopicFilter> = key("filter", filter(), "", "The topics meant: `+` for one level, `#` for all that follow. The first filter that matches governs.");
            PERIOD: Span = key("period", duration(), "", "T: the shortest time between two messages of one publisher. \"inf\" for a rare message.");
            DEADLINE: Span = key("deadline", duration(), "the period", "D: from creation to arrival at every subscriber.");
            LOSS: Option<Loss> = key("loss", loss(), "0", "L: how many messages in a row may be lost. For results only where each message has one: of one input that keeps all, marked and not shed, by an operator that answers each message. Elsewhere it is refused: say \"unbounded\".");
            RETAIN: u32 = key("retain", integer(0, 65_536), "1", "N: how many of its newest messages a publisher keeps, to send them again after a failover.");
            LINK: Option<LinkClass> = key("link", link(), "\"edge\"", "Where the subscribers are.");
            PRIORITY: u8 = key("priority", integer(0, 255), "0", "Decides between equal deadlines; the higher goes first.");
            STREAMS: u32 = key("streams", integer(1, 4_000_000), "1", "How many streams these topics will have together. `verge check` counts with it and `verge sim` simulates so \
         many; brokers take whatever comes and is admitted.");
            SUBSCRIBERS: u32 = key("subscribers", integer(1, 65_536), "1", "How many subscribers each of these topics is expected to have, each on a connection of its own. `verge check` and `verge graph` count \
         with them; brokers count those that are there.");
            SIZE: u32 = key("size", bytes_within(1, PAYLOAD_BYTES_MAX as i64), "limits.size_assumed", "The largest payload of its messages. Brokers reserve memory for so much; where it is left out, for limits.size_assumed.");
            KEEP: Span = key("keep", duration(), "\"0s\"", "How long messages are kept in the site's journal, for sites that miss them; \"72h\". 0s: not at all. Needs site.journal.");
            KEEP_BYTES: Option<u64> = key("keep_bytes", bytes_or_auto(1 << 20, 1 << 44), "\"auto\"", "Bytes that these messages may take in the journal of each broker, with what belongs to each; then the oldest of them are given up. auto: as many as the journal has room for.");
            KEEP_RANK: u8 = key("keep_rank", integer(0, 3), "3", "Which messages a full journal gives up: the oldest of those with the highest number. Where only lower numbers are left, what has a higher one is not kept.");
            PATHS: u8 = key("paths", integer(1, 2), "1", "By how many routers these topics go to other sites at once. 2: each message goes by two, and the first copy counts, so that the death of a router is not noticed. For routers that are listed (`[routers.*]`), two at least, over a link that is not thin.");
            GAP: Span = key("gap", duration(), "\"inf\"", "The longest time between two messages of one publisher: after it the topic is silent, which is told, shown and an alarm. inf: that follows from the contract and from what is usual; best effort and rare messages are not judged then.");
            CONFIRM: bool = key("confirm", switch(), "false", "Whether a message counts as dispatched only when its subscribers have confirmed it: survives the power loss of a host, not only the death of a process.");
        }
    }
}

/// The keys of one `[[source]]`.
pub(crate) mod source {
    use super::*;

    keys! {
        KEYS {
            TOPIC: Option<TopicFilter> = key("topic", filter(), "", "The topic, as operators name it among their inputs.");
            TYPE: PayloadType = key("type", payload(), "\"bytes\"", "What its payloads are: numbers side by side, or one in a document.");
            VALIDITY: Span = key("validity", duration(), "\"inf\"", "A: how long a reading is true after its creation.");
            PERIOD: Span = key("period", duration(), "that of the topic", "T: the shortest time between two readings. Left out: the period of the first [[topic]] whose filter covers it.");
        }
    }
}

/// The keys of one `[[operator]]`.
pub(crate) mod operator {
    use super::*;

    keys! {
        KEYS {
            NAME: String = key("name", name(), "", "Its name, unique among operators.");
            KIND: String = key("kind", name(), "", "What it does.");
            INPUTS: Vec<String> = key("inputs", names(), "", "What feeds it: operators by name, everything else is a topic. 1 to 16.");
            JOIN: Join = key("join", choice(&["all", "any"], join), "\"all\"", "When it runs: when all inputs are there, each used once, or on each input by itself.");
            KEEP: Option<Keep> = key("keep", keep(), "by inputs", "Which events an input keeps until they are used: the latest, or so many (all: 1024). Left out: all for one \
         input and for a join of any, the latest where several are joined.");
            VIOLATION: Violation = key("violation", choice(&["mark", "shed"], violation), "\"mark\"", "What happens to events that are out of date or too far apart: results made of them say so, or they are dropped. Under mark, a join of several topics that was once held up by more than a period uses partners a period apart from then on; shed brings them together again.");
            TOGETHER: Vec<RelativeSet> = key("together", sets(), "[]", "Inputs whose readings must have been created within a span of each other.");
            COST: Span = key("cost", duration(), "measured", "How long a run takes at most, and saying what it remembers, for `verge check`.");
            OUTPUT: Option<TopicFilter> = key("output", filter(), "none", "The topic on which its results are published, with as many `+` as its sources have.");
            LEVEL: u8 = key("level", level(), "the last level", "How urgent that output is. What it needs becomes as urgent.");
            DEADLINE: Span = key("deadline", duration(), "none", "When a result is due at that output, counted from the creation of the newest reading that it is made of.");
        }
    }
}

/// The keys of one `[[lane]]`.
pub(crate) mod lane {
    use super::*;

    keys! {
        KEYS {
            KEYS_OF: Vec<String> = key("keys", store_keys(), "", "What its tasks read and write. `name/{0..99}` stands for a hundred keys.");
            PERIOD: Span = key("period", duration(), "\"50ms\"", "T: that of its fastest task. There is one job of the store in each.");
            OFFSET: Option<Span> = key("offset", duration_or_auto(), "\"auto\"", "O: from the beginning of a period to its job. Tasks run before. auto: what the tasks of the lane take, or a tenth of the period if \
         there are none, and for several lanes a share of the period each.");
            SLOWEST: Span = key("slowest", duration(), "the period", "The period of the slowest task that writes.");
            ROUND: Span = key("round", duration(), "half of the rest of the period by rounds", "How long a round lasts at most: (T - O) / 2(f + 1), which is also the longest possible. A node that is silent costs so much in every job.");
            HORIZON: Span = key("horizon", duration(), "ten times the slowest period", "H: how far after its job a publishing time may be.");
            BATCH_TUPLES_MAX: usize = key("batch_tuples_max", integer(1, 65_536), "the next hundred above the number of keys", "How many values a node may write for one job, all its tasks together.");
            VALUE_BYTES_MAX: usize = key("value_bytes_max", integer(1, 4_096), "16", "The longest value.");
            HISTORY: usize = key("history", integer(1, 255), "20", "How many values of each key are kept, by publishing time.");
            VECTORS: usize = key("vectors", integer(0, 255), "0", "Of so many of the newest values of each key a node keeps what they were made of: who proposed what. At most `history`.");
            PROCESSOR: Option<usize> = key("processor", integer_or_auto(0, 4_095), "\"auto\"", "The processor that the lane's thread stays on. auto: any.");
            PRIORITY: Option<u8> = key("priority", integer_or_auto(1, 99), "1", "Its priority under SCHED_FIFO; tasks should have higher ones. auto: ordinary scheduling.");
        }
    }
}

/// The keys of one `[[vote]]`.
pub(crate) mod vote {
    use super::*;

    keys! {
        KEYS {
            FILTER: Option<TopicFilter> = key("filter", filter(), "", "Which keys. The first [[vote]] that matches a key counts.");
            VOTE: Option<VoteName> = key("vote", vote(), "\"majority\"", "How what several nodes write becomes one value.");
            WEIGHTS: Vec<usize> = key("weights", integers(), "[]", "For a weighted mean: a weight for each node, in the order of their names.");
            MODULE: Option<PathBuf> = key("module", path(), "\"\"", "Instead of `vote`: a WebAssembly module that makes one value of what several nodes write. See kv.md.");
            BUDGET: Span = key("budget", duration(), "\"200us\"", "What a vote of a module may take.");
            WRITERS: Vec<String> = key("writers", nodes(), "all nodes", "Who may write; what others write is ignored.");
            SINGLE_SOURCE: bool = key("single_source", switch(), "false", "Whether there may be so few writers that one that lies can make the value up. All nodes still read the same.");
        }
    }
}

/// The keys of one `[[task]]`.
pub(crate) mod task {
    use super::*;

    keys! {
        KEYS {
            NAME: String = key("name", name(), "", "Its name, for reports.");
            LANE: usize = key("lane", integer(0, 255), "0", "The lane that it reads and writes, by its place among [[lane]].");
            PERIOD: Span = key("period", duration(), "", "T: how often it runs.");
            COST: Span = key("cost", duration(), "", "C: the longest that it runs.");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::{KEYS, REPEATED};
    use crate::value::{Raw, understand};

    #[test]
    fn every_default_is_what_its_key_takes_or_said_in_words() {
        for key in KEYS.iter().chain(REPEATED.iter().flat_map(|section| section.keys)) {
            let plain = ["true", "false"].contains(&key.default);
            let is_words = key.default.starts_with(char::is_alphabetic) && !plain;
            let understood = understand(key.kind, &Raw::from_plain(key.default));
            assert!(key.default.is_empty() || is_words || understood.is_ok(), "{}: {understood:?}", key.path);
        }
    }
}
