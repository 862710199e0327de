//! Every key of the configuration: its path, what it may hold, its default, and a line of documentation. The reference
//! `docs/configuration.md`, `verge config default` and the check for unknown keys all come from this table.

use contract::Span;
use wire::limits::{PAYLOAD_BYTES_MAX, STREAMS_MAX};

/// A packet of MQTT with what belongs to it must fit a frame between the brokers.
const PACKET_BYTES_MAX: i64 = 1_000_000;

/// What a key may hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A span with its unit.
    Duration,
    /// The same in this range.
    DurationWithin(Span, Span),
    /// A span, or `auto` to measure it on this host.
    DurationOrAuto,
    /// `host:port`.
    Address,
    /// `host:port`, or `none`.
    AddressOrNone,
    /// A file, or `none`.
    PathOrNone,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range.
    Integer(i64, i64),
    /// A whole number in this range, or `auto`.
    IntegerOrAuto(i64, i64),
    /// A number of bytes, plain or with a unit (`64KiB`, `1MiB`, `1GiB`).
    Bytes,
    /// The same in this range.
    BytesWithin(i64, i64),
    /// Bytes in this range, or what there is.
    BytesOrAuto(i64, i64),
    /// A number above 0 and up to 1.
    Share,
    /// `true` or `false`.
    Switch,
    /// `true`, `false` or `auto`.
    SwitchOrAuto,
    /// A list of whole numbers.
    Integers,
    /// A topic filter.
    Filter,
    /// A number of losses, or `unbounded`.
    Loss,
    /// The name of a link class.
    Link,
    /// A folder, or nothing.
    Folder,
    /// A name of the user's choice.
    Name,
    /// A list of names and topics.
    Names,
    /// What payloads are.
    Payload,
    /// Which events an input keeps.
    Keep,
    /// A level, by number or by name.
    Level,
    /// A list of relative sets.
    Sets,
    /// A file.
    Path,
    /// The name of a user, or nothing.
    User,
    /// A list of names of keys.
    StoreKeys,
    /// How several values become one.
    Vote,
    /// A list of names of nodes.
    Nodes,
}

impl Kind {
    /// What to write, for people.
    pub fn describe(self) -> String {
        match self {
            Kind::DurationWithin(least, most) => format!("duration, from \"{least}\" to \"{most}\""),
            Kind::Duration => "duration, such as \"50ms\"".to_owned(),
            Kind::DurationOrAuto => "duration, or \"auto\"".to_owned(),
            Kind::Address => "\"host:port\"".to_owned(),
            Kind::AddressOrNone => "\"host:port\", or \"none\"".to_owned(),
            Kind::PathOrNone => "path of a file, or \"none\"".to_owned(),
            Kind::Choice(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            Kind::Integer(min, max) => format!("whole number from {min} to {max}"),
            Kind::IntegerOrAuto(min, max) => format!("whole number from {min} to {max}, or \"auto\""),
            Kind::BytesWithin(least, most) => format!("bytes, such as 65536 or \"64KiB\", from {least} to {most}"),
            Kind::Bytes => "bytes, such as 65536 or \"64KiB\"".to_owned(),
            Kind::BytesOrAuto(least, most) => format!("bytes, such as \"512MiB\", from {least} to {most}, or \"auto\""),
            Kind::Share => "number above 0 and up to 1".to_owned(),
            Kind::Switch => "true or false".to_owned(),
            Kind::SwitchOrAuto => "true, false or \"auto\"".to_owned(),
            Kind::Integers => "list of whole numbers".to_owned(),
            Kind::Filter => "topic filter, such as \"turbine/+/speed\"".to_owned(),
            Kind::Loss => "whole number, or \"unbounded\"".to_owned(),
            Kind::Link => "name of a link class".to_owned(),
            Kind::Folder => "folder, or \"\"".to_owned(),
            Kind::Name => "name without `/`".to_owned(),
            Kind::Names => "list of operators' names and of topics".to_owned(),
            Kind::Payload => {
                "payload type: \"bytes\", \"i16\", \"i32\", \"f32\", \"f64\", \"text\", \"json:path\" or \"cbor:path\""
                    .to_owned()
            }
            Kind::Keep => format!("whole number from 1 to {}, \"all\" or \"latest\"", processing::Keep::MOST),
            Kind::Level => "whole number from 0, or \"high\", \"middle\" or \"low\" (0, 1, 2)".to_owned(),
            Kind::Sets => "list of sets, such as [{ inputs = [\"a\", \"b\"], within = \"5ms\" }]".to_owned(),
            Kind::Path => "path of a file".to_owned(),
            Kind::User => "name of a user, or \"\"".to_owned(),
            Kind::StoreKeys => "list of names of keys, such as [\"pendulum/angle\", \"sensor/{0..99}\"]".to_owned(),
            Kind::Vote => {
                "\"majority\", or \"median\", \"trimmed-mean\", \"weighted-mean\", \"min\" or \"max\" with \"f64\", \"i64\" or \
                 \"decimal\", as in \"median f64\""
                    .to_owned()
            }
            Kind::Nodes => "list of names of nodes".to_owned(),
        }
    }
}

/// One key.
pub struct Key {
    /// Its path; `*` stands for a name that the user chooses.
    pub path: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default as it would be written, or nothing where it must be given.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

/// All keys, in the order in which they are documented.
pub const KEYS: &[Key] = &[
    key("brokers.*.clients", Kind::Address, "", "Where clients reach this broker."),
    key("brokers.*.pair", Kind::Address, "", "Where its partner reaches this broker."),
    key(
        "brokers.*.http",
        Kind::AddressOrNone,
        "\"none\"",
        "Where this broker shows metrics, health and status over HTTP: /metrics, /healthz, /readyz, /api/v1/status. The usual port is 7570.",
    ),
    key(
        "brokers.*.start_as",
        Kind::Choice(&["primary", "backup"]),
        "\"backup\"",
        "Which one reigns where neither does yet. Only a preference: a broker that finds a reigning partner stands by.",
    ),
    key(
        "brokers.*.clients_tls",
        Kind::AddressOrNone,
        "\"none\"",
        "Where clients reach this broker over TLS.",
    ),
    key(
        "brokers.*.pair_tls",
        Kind::Switch,
        "false",
        "Whether the partner must speak TLS at `pair`, and show the certificate of a broker: issued by tls.ca, and with the host of one of the configured `pair` addresses.",
    ),
    key(
        "brokers.*.store",
        Kind::Folder,
        "\"\"",
        "Where this broker keeps sessions and retained messages, instead of in store.folder: so that one file says it for both.",
    ),
    key(
        "brokers.*.mqtt",
        Kind::AddressOrNone,
        "\"none\"",
        "Where MQTT clients reach this broker; usually port 1883.",
    ),
    key("brokers.*.mqtt_tls", Kind::AddressOrNone, "\"none\"", "The same over TLS; usually port 8883."),
    key(
        "brokers.*.mqtt_ws",
        Kind::AddressOrNone,
        "\"none\"",
        "The same over WebSocket, at the paths /mqtt and /; usually port 8083.",
    ),
    key(
        "brokers.*.mqtt_wss",
        Kind::AddressOrNone,
        "\"none\"",
        "The same over WebSocket and TLS; usually port 8084.",
    ),
    key(
        "tls.certificate",
        Kind::PathOrNone,
        "\"none\"",
        "Our certificate, and behind it those that lead to its issuer, in PEM. Paths are relative to the file that has them. SIGHUP loads all certificates again; connections go on.",
    ),
    key("tls.key", Kind::PathOrNone, "\"none\"", "Its private key, in PEM, without a password."),
    key(
        "tls.ca",
        Kind::PathOrNone,
        "\"none\"",
        "Who issues certificates of brokers, in PEM. Clients believe them, and so do brokers of each other.",
    ),
    key("tls.client_ca", Kind::PathOrNone, "\"none\"", "Who issues certificates of clients, in PEM."),
    key(
        "tls.client_certificates",
        Kind::Choice(&["none", "optional", "required"]),
        "\"none\"",
        "Whether clients are asked for a certificate of tls.client_ca. The common name in it is the client's name.",
    ),
    key(
        "tls.minimum_version",
        Kind::Choice(&["1.2", "1.3"]),
        "\"1.2\"",
        "The oldest version of TLS that is spoken.",
    ),
    key(
        "network.failover",
        Kind::DurationWithin(Span::ZERO, Span::secs(3_600)),
        "\"50ms\"",
        "x: from the failure of the primary until every publisher sends to the backup. An upper bound.",
    ),
    key(
        "network.publisher_to_broker",
        Kind::DurationWithin(Span::ZERO, Span::secs(3_600)),
        "\"1ms\"",
        "dPB: from creation to arrival at the broker, jitter of the publisher included. An upper bound; at run time it is measured for each message.",
    ),
    key(
        "network.broker_to_broker",
        Kind::DurationWithin(Span::ZERO, Span::secs(3_600)),
        "\"50us\"",
        "dBB: from the primary to the backup. An upper bound.",
    ),
    key(
        "link.*.broker_to_subscriber",
        Kind::Duration,
        "",
        "dBS: from the broker to subscribers of this class. Messages leave by D - dBS: deadlines are kept where the way takes no longer, and brokers tell where it does (`subscriber_far`); more than that lets them be overtaken by others for nothing. `edge` (1ms) and `cloud` (20ms) exist without being configured.",
    ),
    key(
        "link.*.confirmation",
        Kind::Duration,
        "",
        "From dispatch until a subscriber's confirmation is back. An upper bound, for confirmed topics. `edge` 10ms, `cloud` 100ms.",
    ),
    key(
        "detection.poll",
        Kind::DurationWithin(Span::millis(1), Span::secs(10)),
        "\"10ms\"",
        "The time between two polls of the primary by its backup.",
    ),
    key(
        "detection.misses",
        Kind::Integer(1, 100),
        "2",
        "How many polls in a row may stay unanswered, while no heartbeats come either, before the backup takes over. Heartbeats are UDP \
         datagrams, two in the time of a poll, between the ports of the same numbers as the brokers' `pair` addresses.",
    ),
    key(
        "detection.patience_max",
        Kind::DurationWithin(Span::millis(1), Span::secs(3_600)),
        "\"500ms\"",
        "How long silence is borne at most. It is borne for detection.poll x detection.misses where heartbeats come evenly; for longer \
         where many are lost or their delays differ, and after a take-over that was wrong.",
    ),
    key(
        "detection.stall",
        Kind::DurationWithin(Span::millis(1), Span::secs(3_600)),
        "\"200ms\"",
        "How long the primary's data thread may stand still in one turn of its work, while its process sends heartbeats, before the backup takes over.",
    ),
    key(
        "detection.connect",
        Kind::DurationWithin(Span::millis(1), Span::secs(3_600)),
        "\"10ms\"",
        "How long a broker's attempt to reach its partner may take.",
    ),
    key(
        "detection.retry",
        Kind::DurationWithin(Span::millis(1), Span::secs(3_600)),
        "\"100ms\"",
        "The time between two attempts to reach the partner.",
    ),
    key(
        "detection.seek_primary",
        Kind::Duration,
        "\"500ms\"",
        "How long a broker that starts as primary looks for its partner before it reigns alone.",
    ),
    key("detection.seek_backup", Kind::Duration, "\"3s\"", "The same for a broker that starts as backup."),
    key(
        "scheduling.policy",
        Kind::Choice(&["frame", "fcfs", "fcfs-minus"]),
        "\"frame\"",
        "frame: earliest deadline first, copies only where a contract needs them. fcfs and fcfs-minus are baselines for measurements: first come first served, everything copied, with and without pruning.",
    ),
    key(
        "replication.policy",
        Kind::Choice(&["eager", "lazy", "periodic", "retransmission-only"]),
        "\"lazy\"",
        "When messages are copied to the backup. eager: as soon as nothing more urgent waits. lazy: at the last safe moment, and only what is not dispatched by then. periodic (everything that has arrived since the last round) and retransmission-only (nothing) are baselines for measurements, which do not keep loss bounds.",
    ),
    key(
        "replication.every",
        Kind::Choice(&["all", "loss", "max"]),
        "\"all\"",
        "lazy: which messages are copied. all: each, as late as can be. loss: one in L. max: one in L + 1 where messages are retained. Fewer copies must leave earlier; where there is no time for so few, more are made.",
    ),
    key(
        "replication.window",
        Kind::Duration,
        "\"40ms\"",
        "W, lazy: when a copy leaves, those that would have to leave within this time go along.",
    ),
    key(
        "replication.budget",
        Kind::Duration,
        "\"40ms\"",
        "C_r, lazy: a copy begins so long before its deadline. It must cover everything that may come at once, which admission checks (a copy leaves when what came with it does), and what the host itself is late by. Topics whose copies have no more time than this are copied eagerly.",
    ),
    key(
        "replication.period",
        Kind::Duration,
        "\"25ms\"",
        "periodic: the time between two rounds, at least 1ms.",
    ),
    key(
        "replication.skip_dispatched",
        Kind::Switch,
        "true",
        "periodic: whether a round leaves out what has been dispatched.",
    ),
    key(
        "admission.schedulability",
        Kind::Switch,
        "true",
        "Whether a set of topics that could not be served in time is refused.",
    ),
    key(
        "admission.subscriptions",
        Kind::Choice(&["refuse", "best-effort"]),
        "\"refuse\"",
        "What happens to a subscription for which there is no time. best-effort: unless it needs something, and unless something is promised to its client already, it is served after all others, and told so.",
    ),
    key(
        "admission.share",
        Kind::Share,
        "0.8",
        "The share of one processor that all topics together may take.",
    ),
    key(
        "admission.arrival_cost",
        Kind::DurationOrAuto,
        "\"auto\"",
        "Processor time to take one message in. auto: as measured on this host, with twice that as a margin.",
    ),
    key(
        "admission.dispatch_cost",
        Kind::DurationOrAuto,
        "\"auto\"",
        "Processor time to dispatch one message to one subscriber. auto: as measured.",
    ),
    key(
        "admission.replication_cost",
        Kind::DurationOrAuto,
        "\"auto\"",
        "Processor time to copy one message to the backup and to take the copy back. auto: as measured.",
    ),
    key(
        "admission.turn_cost",
        Kind::DurationOrAuto,
        "\"auto\"",
        "Processor time of one turn of the data thread, whatever it brings. auto: as measured.",
    ),
    key(
        "admission.read_cost",
        Kind::DurationOrAuto,
        "\"auto\"",
        "Processor time to read from one connection once, whatever there is. auto: as measured, for TCP, TLS and WebSocket each.",
    ),
    key(
        "admission.write_cost",
        Kind::DurationOrAuto,
        "\"auto\"",
        "Processor time to write into one connection once, whatever there is. auto: as measured, for each kind.",
    ),
    key(
        "admission.kib_cost",
        Kind::DurationOrAuto,
        "\"auto\"",
        "Processor time for 1024 bytes of payload on one connection. auto: as measured, for each kind.",
    ),
    key(
        "admission.profile_folder",
        Kind::Folder,
        "\"\"",
        "Where the host's profile is kept (profile.json): what `verge calibrate` has measured, or the first command that needed it. \"\": $CACHE_DIRECTORY, or verge in the user's cache folder.",
    ),
    key(
        "admission.blocking",
        Kind::DurationOrAuto,
        "\"auto\"",
        "The longest time for which an urgent message waits because something else has begun. auto: as measured.",
    ),
    key(
        "realtime.priority",
        Kind::IntegerOrAuto(0, 99),
        "\"auto\"",
        "Priority of the data thread under SCHED_FIFO; 0 for ordinary scheduling. auto: 50 where the host allows it.",
    ),
    key(
        "realtime.processors",
        Kind::Integers,
        "[]",
        "Processors that the data thread stays on; empty for any.",
    ),
    key(
        "realtime.lock_memory",
        Kind::SwitchOrAuto,
        "\"auto\"",
        "Whether memory is kept resident. auto: where the host allows it.",
    ),
    key(
        "realtime.awake",
        Kind::Switch,
        "false",
        "Whether idle processors are kept from halting, for virtual machines; it costs power. The kernel does it where it has an idle state \
         in which it polls, the broker may write /dev/cpu_dma_latency (root may), and realtime.processors names none or all. Otherwise threads \
         of the lowest priority spin there (on those of realtime.processors, if there are any), which counts as processor time of the broker.",
    ),
    key(
        "realtime.spin",
        Kind::DurationOrAuto,
        "\"auto\"",
        "For so long the data thread goes on looking for messages before it sleeps, up to 1ms, which saves the time of waking it. It does so \
         only where nearly all of its last 64 waits were that short (or twice that, with waking), no connection brings 4 KiB or more at once or is behind, and operators leave a processor. Whatever is less \
         urgent cannot have its processor meanwhile. auto: 50us, about what sleeping and waking take on a virtual machine, and none where a control group grants only a \
         part of the processors.",
    ),
    key(
        "realtime.gather",
        Kind::Duration,
        "\"200us\"",
        "Where operators nearly always keep all processors, the data thread rests for so long at most before it looks for messages again, up \
         to 1ms, so that fewer wake-ups take processors from them. Only where there are graphs at the start; admission counts it as blocking there. 0s: never.",
    ),
    key("mqtt.sessions", Kind::Integer(1, 10_000_000), "65536", "Sessions of one broker, connected or not."),
    key(
        "mqtt.packet",
        Kind::BytesWithin(1, PACKET_BYTES_MAX),
        "\"256KiB\"",
        "The largest packet that is taken.",
    ),
    key(
        "mqtt.topic_bytes",
        Kind::Integer(1, contract::TOPIC_BYTES_MAX as i64),
        "65535",
        "The longest topic or filter of MQTT, in bytes.",
    ),
    key(
        "mqtt.topic_levels",
        Kind::Integer(1, contract::TOPIC_LEVELS_MAX as i64),
        "200",
        "The deepest topic or filter of MQTT, in levels.",
    ),
    key(
        "mqtt.receive_maximum",
        Kind::Integer(1, 65_535),
        "1024",
        "Messages of QoS 1 and 2 that a client may send before they are answered.",
    ),
    key(
        "mqtt.topic_aliases",
        Kind::Integer(0, 65_535),
        "0",
        "Topic aliases that one client may give; 0 for none. Some clients send a number whose topic they have given on an earlier connection, and never get past it.",
    ),
    key(
        "mqtt.topic_aliases_out",
        Kind::Integer(0, 65_535),
        "16",
        "Topic aliases that one client is given, if it takes any; 0 for none.",
    ),
    key(
        "mqtt.inflight",
        Kind::Integer(1, 65_000),
        "256",
        "Messages of QoS 1 and 2 that are sent to one client before it answers.",
    ),
    key(
        "mqtt.queue_messages",
        Kind::Integer(1, 10_000_000),
        "1000",
        "Messages that wait for one session. Above it, its oldest are dropped and counted.",
    ),
    key(
        "mqtt.queue",
        Kind::Bytes,
        "\"256MiB\"",
        "Messages that wait for sessions, all together. Above it, further ones are dropped and counted.",
    ),
    key(
        "mqtt.backlog",
        Kind::BytesWithin(64 << 10, 1 << 40),
        "\"4MiB\"",
        "What may wait on one connection. Above it, messages of QoS 0 are dropped and counted, others queued.",
    ),
    key(
        "mqtt.subscriptions_per_session",
        Kind::Integer(1, 1_000_000),
        "1024",
        "Subscriptions of one session.",
    ),
    key("mqtt.subscriptions", Kind::Integer(1, 10_000_000), "200000", "Subscriptions of all sessions."),
    key(
        "mqtt.retained_messages",
        Kind::Integer(0, 10_000_000),
        "65536",
        "Retained messages. Above it, those of further topics are not retained, and counted. Each topic is a stream as well while somebody publishes on it (limits.streams).",
    ),
    key("mqtt.retained", Kind::Bytes, "\"64MiB\"", "Retained messages in bytes."),
    key(
        "mqtt.topics_per_session",
        Kind::Integer(1, 1_000_000),
        "1024",
        "Topics on which one client publishes that are remembered. Above it, all are looked up anew.",
    ),
    key(
        "mqtt.greeting",
        Kind::DurationWithin(Span::millis(10), Span::secs(86_400)),
        "\"5s\"",
        "How long a connection may take until its CONNECT is answered.",
    ),
    key(
        "mqtt.session_expiry",
        Kind::Duration,
        "\"168h\"",
        "For how long a session may outlive its connection. Clients of 3.1.1 without a clean session get this.",
    ),
    key(
        "mqtt.keep_alive",
        Kind::DurationWithin(Span::secs(1), Span::secs(65_535)),
        "\"1h\"",
        "The longest keep-alive; longer ones are shortened to it. A client of 3.1.1 cannot be told, and keeps its own.",
    ),
    key(
        "mqtt.standby",
        Kind::Choice(&["closed", "redirect", "unavailable"]),
        "\"closed\"",
        "What clients meet at the broker that stands by. `closed`: its ports refuse connections until it takes over, and every client tries its other address. `redirect`: clients of MQTT 5 are told where the other one is. `unavailable`: all are told that nobody serves them there.",
    ),
    key(
        "mqtt.repeats",
        Kind::Integer(0, 1_000_000),
        "3",
        "How often a message with QoS 1 or 2 may come that is refused each time and whose client cannot be told so (MQTT 3.1.1, or one that is too large, which may come once). After that it is acknowledged and dropped, counted, and an alarm tells of it. 0: never, and the client repeats it for ever.",
    ),
    key(
        "mqtt.when_full",
        Kind::Choice(&["drop-oldest", "refuse"]),
        "\"drop-oldest\"",
        "What becomes of a message for a session for which as many wait as may. `drop-oldest`: it takes the place of the oldest. `refuse`: its publisher, if it is one of MQTT that asks for an answer, hears 0x97, or has its connection ended where it cannot hear that. Both are counted, and an alarm tells of them.",
    ),
    key(
        "mqtt.hold",
        Kind::Duration,
        "\"300ms\"",
        "How long a client waits that comes to the broker which stands by, before it is sent to the other one: after a crash the one that stands by reigns soon. Where its ports are closed, only those wait that come in the moment in which they are.",
    ),
    key(
        "mqtt.grace",
        Kind::Duration,
        "\"5s\"",
        "After a failover: how long sessions have to come back before their wills are published.",
    ),
    key(
        "mqtt.sys_interval",
        Kind::Duration,
        "\"10s\"",
        "Between two publications of `$SYS/broker/...`; 0 for none.",
    ),
    key(
        "limits.connections",
        Kind::Integer(4, 1_000_000),
        "16384",
        "Clients of one broker, of all protocols together. The partner and a few operators come in besides; fewer clients do where the host allows too few descriptors.",
    ),
    key(
        "limits.relayed",
        Kind::Integer(0, 65_536),
        "1024",
        "Clients at once that cannot reach the primary, and pass through its backup to it. Their connections there come on top of connections. 0: none.",
    ),
    key(
        "limits.connections_per_address",
        Kind::Integer(1, 1_000_000),
        "16384",
        "Connections of one broker from one address. Further ones are closed and counted.",
    ),
    key(
        "limits.accepts_per_second",
        Kind::Integer(1, 1_000_000),
        "5000",
        "Connections that one listener takes in a second. Further ones wait in the system's queue.",
    ),
    key(
        "limits.handshakes",
        Kind::Integer(1, 65_536),
        "1024",
        "Handshakes of TLS and WebSocket under way at once. Above it, the oldest is given up. Each may take limits.greeting.",
    ),
    key(
        "limits.streams",
        Kind::Integer(1, STREAMS_MAX as i64),
        "65536",
        "Streams of one broker: one per topic and publisher.",
    ),
    key("limits.sessions", Kind::Integer(1, 1_000_000), "4096", "Subscribing clients of one broker."),
    key("limits.filters_per_session", Kind::Integer(1, 65_536), "256", "Filters of one subscribing client."),
    key(
        "limits.jobs",
        Kind::Integer(16, 100_000_000),
        "1048576",
        "Jobs that may wait. Above it, arriving messages are dropped and counted as overrun.",
    ),
    key("limits.ring_slots_min", Kind::Integer(2, 65_536), "8", "Messages kept per stream at least."),
    key(
        "limits.ring_slots_max",
        Kind::Integer(2, 131_072),
        "4096",
        "Messages kept per stream at most. A contract that needs more is refused.",
    ),
    key("limits.backup_slots", Kind::Integer(2, 65_536), "10", "Copies kept per replicated stream at least."),
    key(
        "limits.memory",
        Kind::BytesOrAuto(16 << 20, 1 << 42),
        "\"auto\"",
        "Memory of one broker: half of it at most is for messages, three eighths are for subscribers that do not read as fast as is \
         sent and for sessions and retained messages of MQTT, a sixteenth is for filters of subscriptions, the rest for what serves them. \"auto\": half of what the host or the \
         broker's control group has, whichever is less, and no more \
         than three quarters of what can be had when it starts.",
    ),
    key(
        "limits.store",
        Kind::BytesWithin(64 << 10, 1 << 42),
        "\"2GiB\"",
        "Memory for messages. A contract has what its messages may take reserved when it is admitted, and is refused where that is not \
         left; what has no loss bound shares the rest by its real size, the oldest going first, and what its streams need at least is a quarter of all \
         at most. At most half of limits.memory.",
    ),
    key(
        "limits.size_assumed",
        Kind::BytesWithin(1, PAYLOAD_BYTES_MAX as i64),
        "\"4KiB\"",
        "The payload for which memory is reserved where a contract does not state its size. Longer messages are taken as long as more \
         can be reserved, and are otherwise lost, counted and told of.",
    ),
    key(
        "limits.subscriber_backlog",
        Kind::BytesWithin(4 << 10, 1 << 40),
        "\"4MiB\"",
        "What may wait on a subscriber's connection before its messages are deferred.",
    ),
    key(
        "limits.subscriber_delay",
        Kind::Duration,
        "\"1s\"",
        "How long messages wait for a subscriber that reads slower than its topics publish, or until their deadline if that is later. Then they are dropped for it, so that it gets the newest.",
    ),
    key(
        "limits.deferred_per_subscriber",
        Kind::Integer(1, 10_000_000),
        "16384",
        "Messages deferred for one subscriber. Above it, its oldest are dropped and counted as its losses.",
    ),
    key(
        "limits.sync_backlog",
        Kind::BytesWithin(4 << 10, 1 << 40),
        "\"128KiB\"",
        "What may wait for the partner while it is brought up to date.",
    ),
    key(
        "limits.greeting",
        Kind::DurationWithin(Span::millis(10), Span::secs(86_400)),
        "\"2s\"",
        "How long a new connection may take to say who it is.",
    ),
    key(
        "limits.silence",
        Kind::DurationWithin(Span::millis(10), Span::secs(86_400)),
        "\"5s\"",
        "How long a client may be silent before its connection is taken for dead.",
    ),
    key(
        "limits.session_linger",
        Kind::Duration,
        "\"5s\"",
        "How long a subscriber without connection is remembered.",
    ),
    key(
        "limits.stream_linger",
        Kind::Duration,
        "\"1min\"",
        "How long a stream is remembered whose publisher is gone.",
    ),
    key(
        "limits.drain",
        Kind::DurationWithin(Span::ZERO, Span::secs(3_600)),
        "\"2s\"",
        "How long a broker that ends waits for its publishers to move to the partner.",
    ),
    key(
        "metrics.classes_max",
        Kind::Integer(0, 1_000),
        "32",
        "Filters of [[topic]] that are measured each by itself, in their order. Messages of the others are measured together, as `other`.",
    ),
    key(
        "log.format",
        Kind::Choice(&["text", "json"]),
        "\"text\"",
        "text: lines for people. json: one object per line, with every value as a field.",
    ),
    key(
        "log.level",
        Kind::Choice(&["error", "warn", "info", "debug"]),
        "\"info\"",
        "What is less grave is not written. debug: also which clients of MQTT come and go, and why.",
    ),
    key(
        "store.folder",
        Kind::Folder,
        "\"\"",
        "Where sessions and retained messages are kept across restarts; made with access for the broker's user only. Each broker needs its own. \"\": nothing is kept.",
    ),
    key(
        "store.commit_every",
        Kind::Duration,
        "\"5ms\"",
        "The time from one commit to the next while there is anything to write. Several changes of one record in between are one.",
    ),
    key(
        "store.queue",
        Kind::Bytes,
        "\"64MiB\"",
        "What may wait to be written. A disk that is slower than this lasts is given up, and the broker says so.",
    ),
    key(
        "processing.levels",
        Kind::Integer(1, 16),
        "3",
        "How many levels of urgency operators have. Level 0 is the most urgent.",
    ),
    key(
        "processing.workers",
        Kind::IntegerOrAuto(1, 256),
        "\"auto\"",
        "Threads of each level. auto: as many as the data thread leaves processors.",
    ),
    key(
        "processing.events",
        Kind::Integer(16, 16_000_000),
        "65536",
        "Messages that may be under way through operators at once. Above it, further ones are not processed, and counted.",
    ),
    key(
        "processing.inbox",
        Kind::Integer(16, 16_000_000),
        "16384",
        "Events that may wait for the operators of one level. As many again wait in front of it: an input that keeps the latest has one place there, and of all others the oldest is dropped and counted.",
    ),
    key(
        "processing.snapshots",
        Kind::Duration,
        "\"100ms\"",
        "How often what an operator remembers is copied to the backup, while it is given something. A message counts as processed when such a copy has it, so brokers keep messages for twice as long in addition; a shorter time takes more processor time and bytes.",
    ),
    key(
        "processing.sharing",
        Kind::Switch,
        "true",
        "Whether outputs share the operators that they have in common. false, for comparison: each output has its own.",
    ),
    key(
        "processing.prioritization",
        Kind::Switch,
        "true",
        "Whether outputs have the levels that are configured. false, for comparison: all have level 0.",
    ),
    key(
        "kv.faults",
        Kind::Integer(0, 21),
        "1",
        "f: how many nodes of the key-value store may be faulty. 3f + 1 nodes are needed, or f + 1 where they only crash.",
    ),
    key(
        "kv.mode",
        Kind::Choice(&["byzantine", "crash"]),
        "\"byzantine\"",
        "What a faulty node may do: anything (byzantine), or only stop (crash).",
    ),
    key(
        "kv.resolve",
        Kind::Choice(&["majority", "all-but-faulty"]),
        "\"majority\"",
        "When the words of those who pass something on count: if more than half of them say the same, or all but f. Both are correct.",
    ),
    key(
        "kv.start_wait",
        Kind::Duration,
        "\"10s\"",
        "How long a node waits for all others before it begins with those that there are.",
    ),
    key(
        "kv.delay_max",
        Kind::Duration,
        "\"500us\"",
        "The longest that a frame is on its way from one node to another.",
    ),
    key(
        "kv.clock_error",
        Kind::Duration,
        "\"100us\"",
        "How far the clocks of two correct nodes may be apart.",
    ),
    key(
        "kv.send",
        Kind::Duration,
        "\"200us\"",
        "The longest that a node takes to make and send the frames of one round.",
    ),
    key(
        "kv.receive",
        Kind::Duration,
        "\"200us\"",
        "The longest that a node takes to read and check the frames of one round.",
    ),
    key(
        "kv.bandwidth",
        Kind::Bytes,
        "\"125MB\"",
        "What the link of a node carries in a second, for `verge kv check`.",
    ),
    key(
        "kv.tree_memory",
        Kind::Bytes,
        "\"256MiB\"",
        "What one lane may take for what nodes have told each other in one job.",
    ),
    key("kv.store_memory", Kind::Bytes, "\"256MiB\"", "What one lane may take for published values."),
    key("kv.nodes.*.address", Kind::Address, "", "Where the other nodes of the store reach this one."),
    key(
        "kv.nodes.*.http",
        Kind::AddressOrNone,
        "\"none\"",
        "Where this node shows metrics, health and status over HTTP: /metrics, /healthz, /readyz, /api/v1/status. The usual port is 7590.",
    ),
    key(
        "kv.nodes.*.socket",
        Kind::Path,
        "\"\"",
        "The Unix socket for the node's tasks and tools. Empty: /run/verge/kv-NAME.sock.",
    ),
    key(
        "kv.nodes.*.secrets",
        Kind::PathOrNone,
        "\"none\"",
        "The keys of the node's links, made by `verge kv secrets`. none: only where all nodes are on one host.",
    ),
    key(
        "security.users",
        Kind::Path,
        "\"\"",
        "The user file, which says who may do what; a relative path starts at the file that has this key. `verge user` and `verge acl` use it. Empty: none. See users.md.",
    ),
    key(
        "security.logins_per_minute",
        Kind::Integer(1, 1_000_000),
        "20",
        "Failed logins from one address, and for one name from one address. Above it, logins are refused without looking at the password.",
    ),
    key(
        "security.password_threads",
        Kind::Integer(1, 64),
        "1",
        "Threads that check passwords. Each check takes one of them for tens of milliseconds.",
    ),
    key(
        "security.passwords_pending",
        Kind::Integer(1, 65_536),
        "256",
        "Passwords that may wait for their check. Above it, the answer to a login is \"busy\" at once.",
    ),
    key(
        "security.passwords_remembered",
        Kind::Integer(0, 1_000_000),
        "16384",
        "Logins that are remembered as right, so that clients that connect again need not wait.",
    ),
    key("security.password_memory", Kind::Duration, "\"15min\"", "How long they are remembered."),
    key(
        "security.pair_secret_file",
        Kind::Path,
        "\"\"",
        "A file with a secret of at least 16 bytes in its first line, the same on both brokers, by which they know each other. Required for a pair with security.users. It is sent as it is: put the link between the brokers on a network of its own.",
    ),
    key(
        "client.user",
        Kind::User,
        "\"\"",
        "Who the commands are that connect to brokers (pub, sub, status and so on); --user wins. Empty: nobody, which brokers with users call `anonymous`.",
    ),
    key(
        "client.password_file",
        Kind::Path,
        "\"\"",
        "A file with that user's password in its first line. The environment variable VERGE_PASSWORD wins over it, and --password-file over both.",
    ),
];

/// The keys of one `[[topic]]`.
pub const TOPIC_KEYS: &[Key] = &[
    key(
        "filter",
        Kind::Filter,
        "",
        "The topics meant: `+` for one level, `#` for all that follow. The first filter that matches governs.",
    ),
    key(
        "period",
        Kind::Duration,
        "",
        "T: the shortest time between two messages of one publisher. \"inf\" for a rare message.",
    ),
    key("deadline", Kind::Duration, "the period", "D: from creation to arrival at every subscriber."),
    key(
        "loss",
        Kind::Loss,
        "0",
        "L: how many messages in a row may be lost. For results only where each message has one: of one input that keeps all, marked and not shed, by an operator that answers each message. Elsewhere it is refused: say \"unbounded\".",
    ),
    key(
        "retain",
        Kind::Integer(0, 65_536),
        "1",
        "N: how many of its newest messages a publisher keeps, to send them again after a failover.",
    ),
    key("link", Kind::Link, "\"edge\"", "Where the subscribers are."),
    key("priority", Kind::Integer(0, 255), "0", "Decides between equal deadlines; the higher goes first."),
    key(
        "streams",
        Kind::Integer(1, 4_000_000),
        "1",
        "How many streams these topics will have together. `verge check` counts with it and `verge sim` simulates so \
         many; brokers take whatever comes and is admitted.",
    ),
    key(
        "subscribers",
        Kind::Integer(1, 65_536),
        "1",
        "How many subscribers each of these topics is expected to have, each on a connection of its own. `verge check` and `verge graph` count \
         with them; brokers count those that are there.",
    ),
    key(
        "size",
        Kind::BytesWithin(1, PAYLOAD_BYTES_MAX as i64),
        "limits.size_assumed",
        "The largest payload of its messages. Brokers reserve memory for so much; where it is left out, for limits.size_assumed.",
    ),
    key(
        "confirm",
        Kind::Switch,
        "false",
        "Whether a message counts as dispatched only when its subscribers have confirmed it: survives the power loss of a host, not only the death of a process.",
    ),
];

/// The keys of one `[[source]]`.
pub const SOURCE_KEYS: &[Key] = &[
    key("topic", Kind::Filter, "", "The topic, as operators name it among their inputs."),
    key(
        "type",
        Kind::Payload,
        "\"bytes\"",
        "What its payloads are: numbers side by side, or one in a document.",
    ),
    key("validity", Kind::Duration, "\"inf\"", "A: how long a reading is true after its creation."),
    key(
        "period",
        Kind::Duration,
        "that of the topic",
        "T: the shortest time between two readings. Left out: the period of the first [[topic]] whose filter covers it.",
    ),
];

/// The keys of one `[[operator]]`. Every other key is a parameter of its kind.
pub const OPERATOR_KEYS: &[Key] = &[
    key("name", Kind::Name, "", "Its name, unique among operators."),
    key("kind", Kind::Name, "", "What it does."),
    key("inputs", Kind::Names, "", "What feeds it: operators by name, everything else is a topic. 1 to 16."),
    key(
        "join",
        Kind::Choice(&["all", "any"]),
        "\"all\"",
        "When it runs: when all inputs are there, each used once, or on each input by itself.",
    ),
    key(
        "keep",
        Kind::Keep,
        "by inputs",
        "Which events an input keeps until they are used: the latest, or so many (all: 1024). Left out: all for one \
         input and for a join of any, the latest where several are joined.",
    ),
    key(
        "violation",
        Kind::Choice(&["mark", "shed"]),
        "\"mark\"",
        "What happens to events that are out of date or too far apart: results made of them say so, or they are dropped. Under mark, a join of several topics that was once held up by more than a period uses partners a period apart from then on; shed brings them together again.",
    ),
    key(
        "together",
        Kind::Sets,
        "[]",
        "Inputs whose readings must have been created within a span of each other.",
    ),
    key(
        "cost",
        Kind::Duration,
        "measured",
        "How long a run takes at most, and saying what it remembers, for `verge check`.",
    ),
    key(
        "output",
        Kind::Filter,
        "none",
        "The topic on which its results are published, with as many `+` as its sources have.",
    ),
    key(
        "level",
        Kind::Level,
        "the last level",
        "How urgent that output is. What it needs becomes as urgent.",
    ),
    key(
        "deadline",
        Kind::Duration,
        "none",
        "When a result is due at that output, counted from the creation of the newest reading that it is made of.",
    ),
];

/// The keys of one `[[lane]]`.
pub const LANE_KEYS: &[Key] = &[
    key(
        "keys",
        Kind::StoreKeys,
        "",
        "What its tasks read and write. `name/{0..99}` stands for a hundred keys.",
    ),
    key(
        "period",
        Kind::Duration,
        "\"50ms\"",
        "T: that of its fastest task. There is one job of the store in each.",
    ),
    key(
        "offset",
        Kind::DurationOrAuto,
        "\"auto\"",
        "O: from the beginning of a period to its job. Tasks run before. auto: what the tasks of the lane take, or a tenth of the period if \
         there are none, and for several lanes a share of the period each.",
    ),
    key("slowest", Kind::Duration, "the period", "The period of the slowest task that writes."),
    key(
        "round",
        Kind::Duration,
        "half of the rest of the period by rounds",
        "How long a round lasts at most: (T - O) / 2(f + 1), which is also the longest possible. A node that is silent costs so much in every job.",
    ),
    key(
        "horizon",
        Kind::Duration,
        "ten times the slowest period",
        "H: how far after its job a publishing time may be.",
    ),
    key(
        "batch_tuples_max",
        Kind::Integer(1, 65_536),
        "the next hundred above the number of keys",
        "How many values a node may write for one job, all its tasks together.",
    ),
    key("value_bytes_max", Kind::Integer(1, 4_096), "16", "The longest value."),
    key("history", Kind::Integer(1, 255), "20", "How many values of each key are kept, by publishing time."),
    key(
        "vectors",
        Kind::Integer(0, 255),
        "0",
        "Of so many of the newest values of each key a node keeps what they were made of: who proposed what. At most `history`.",
    ),
    key(
        "processor",
        Kind::IntegerOrAuto(0, 4_095),
        "\"auto\"",
        "The processor that the lane's thread stays on. auto: any.",
    ),
    key(
        "priority",
        Kind::IntegerOrAuto(1, 99),
        "1",
        "Its priority under SCHED_FIFO; tasks should have higher ones. auto: ordinary scheduling.",
    ),
];

/// The keys of one `[[vote]]`.
pub const VOTE_KEYS: &[Key] = &[
    key("filter", Kind::Filter, "", "Which keys. The first [[vote]] that matches a key counts."),
    key("vote", Kind::Vote, "\"majority\"", "How what several nodes write becomes one value."),
    key(
        "weights",
        Kind::Integers,
        "[]",
        "For a weighted mean: a weight for each node, in the order of their names.",
    ),
    key(
        "module",
        Kind::Path,
        "\"\"",
        "Instead of `vote`: a WebAssembly module that makes one value of what several nodes write. See kv.md.",
    ),
    key("budget", Kind::Duration, "\"200us\"", "What a vote of a module may take."),
    key("writers", Kind::Nodes, "all nodes", "Who may write; what others write is ignored."),
    key(
        "single_source",
        Kind::Switch,
        "false",
        "Whether there may be so few writers that one that lies can make the value up. All nodes still read the same.",
    ),
];

/// The keys of one `[[task]]`.
pub const TASK_KEYS: &[Key] = &[
    key("name", Kind::Name, "", "Its name, for reports."),
    key(
        "lane",
        Kind::Integer(0, 255),
        "0",
        "The lane that it reads and writes, by its place among [[lane]].",
    ),
    key("period", Kind::Duration, "", "T: how often it runs."),
    key("cost", Kind::Duration, "", "C: the longest that it runs."),
];

/// A section that may be there many times.
pub struct Repeated {
    /// Its name.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// Whether it may have others.
    pub open: bool,
}

/// All such sections.
pub const REPEATED: [Repeated; 6] = [
    Repeated { name: "topic", keys: TOPIC_KEYS, open: false },
    Repeated { name: "source", keys: SOURCE_KEYS, open: false },
    Repeated { name: "operator", keys: OPERATOR_KEYS, open: true },
    Repeated { name: "lane", keys: LANE_KEYS, open: false },
    Repeated { name: "vote", keys: VOTE_KEYS, open: false },
    Repeated { name: "task", keys: TASK_KEYS, open: false },
];

/// The repeated section of this name.
pub fn repeated(name: &str) -> Option<&'static Repeated> {
    REPEATED.iter().find(|section| section.name == name)
}

/// The key for a path in which names stand in the place of `*`.
pub fn find(path: &str) -> Option<&'static Key> {
    place(path).map(|place| &KEYS[place])
}

/// Where that is among [`KEYS`].
pub fn place(path: &str) -> Option<usize> {
    KEYS.iter().position(|key| matches(key.path, path))
}

/// Whether a path is one of those that a pattern means.
pub fn matches(pattern: &str, path: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == path;
    }
    let (mut wanted, mut given) = (pattern.split('.'), path.split('.'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == "*" || wanted == given => {}
            _ => return false,
        }
    }
}

/// The known name that is most like a mistyped one, if one is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|candidate| (distance(name, candidate), candidate));
    scored.min().filter(|(distance, _)| *distance <= 1 + name.len() / 4).map(|(_, candidate)| candidate)
}

/// How many letters must be changed, added or removed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_users_own_choice_are_found() {
        assert_eq!(find("brokers.a.clients").map(|key| key.path), Some("brokers.*.clients"));
        assert!(find("brokers.a").is_none() && find("brokers.a.b.clients").is_none());
    }

    #[test]
    fn a_mistyped_name_is_recognised() {
        assert_eq!(nearest("perod", ["filter", "period", "loss"]), Some("period"));
        assert_eq!(nearest("xyzzy", ["filter", "period", "loss"]), None);
    }
}
