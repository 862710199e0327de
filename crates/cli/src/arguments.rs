//! What may be typed. Flags that mosquitto's users know mean the same here.

pub mod dds;
pub mod function;
pub mod kv;
pub mod operator;
pub mod peer;
pub mod rule;
pub mod sim;
pub mod user;

use crate::commands::context::ContextCommand;
use crate::commands::subscribe::Pattern;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use console::Format;
use contract::{Contract, LinkClass, Loss, Span};
use demos::crash::DemoArguments;
use demos::sites::SitesDemoArguments;
use demos::worker::WorkerRole;
use node::client::Wanted;
use recording::{DateOrder, TimeUnit};
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// How the order of dates is said.
fn date_orders() -> impl TypedValueParser<Value = DateOrder> {
    let orders = [
        PossibleValue::new("month-first").help("As in the United States"),
        PossibleValue::new("day-first").help("As in most countries"),
    ];
    PossibleValuesParser::new(orders)
        .map(|order| if order == "day-first" { DateOrder::DayFirst } else { DateOrder::MonthFirst })
}

const ABOUT: &str = "Industrial data on time, and within a stated number of losses.";

const EXAMPLES: &str = "\
Examples:
  verge broker a                              start one broker of the pair (and `verge broker b`)
  verge sub -t 'turbine/#' -v                 print what comes
  verge pub -t turbine/7/speed -m 12.5        publish one message
  verge status --watch                        who reigns, are contracts kept
  verge check verge.toml                      can these contracts be kept on this host
  verge graph verge.toml --svg graph.svg      what operators cost, and when their results are there
  verge sim verge.toml                        what a crash costs these contracts, on invented time
  verge operator test my.wasm --input my.csv  what an operator of your own makes of a table
  verge demo                                  see a broker being killed, and nothing lost

Exit codes: 0 yes or done, 1 no (not admitted, broken, unprotected), 2 trouble (bad input, nobody there).";

/// Industrial data on time, and within a stated number of losses.
#[derive(Parser, Debug)]
#[command(name = "verge", version, about = ABOUT, before_help = EXAMPLES, arg_required_else_help = true, disable_help_flag = true)]
pub struct Arguments {
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help, global = true)]
    help: Option<bool>,

    /// The configuration file [default: ./verge.toml, then /etc/verge/verge.toml].
    #[arg(long, short = 'c', global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Overrides one key of the configuration, as in --set detection.poll=5ms.
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// The context whose brokers are meant (`verge context`), or '' for none [default: VERGE_CONTEXT, else the one in use].
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// How to print results.
    #[arg(long, short = 'o', global = true, value_enum, default_value_t)]
    pub format: Format,

    /// End as by SIGTERM when standard input ends, for processes that shall not outlive who started them.
    #[arg(long, global = true, hide = true)]
    pub while_input: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum SecurityCommand {
    /// Protect the configured pair: makes the folder `security` beside the configuration, and `conf.d/security.toml`, which uses it.
    Init(InitArguments),
}

/// By what topics are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Sort {
    /// Broken ones first, then those at risk.
    #[default]
    State,
    /// By name.
    Topic,
    /// Those with the most late messages first.
    Late,
    /// Those with the most lost messages first.
    Lost,
    /// Those with the most messages first.
    Arrived,
    /// The slowest first.
    Latency,
}

#[derive(Args, Debug)]
pub struct StatusArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    /// Show it again every second.
    #[arg(long, short = 'w')]
    pub watch: bool,
    /// List every topic and every operator.
    #[arg(long, short = 'a')]
    pub all: bool,
    /// Show all columns, also where they do not fit the terminal.
    #[arg(long)]
    pub wide: bool,
    /// What topics are sorted by.
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,
}

/// What clients are sorted by.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientColumn {
    /// By name.
    #[default]
    Client,
    /// Those for whom most waits first.
    Queued,
    /// Those that have not answered most first.
    InFlight,
    /// Those that have lost most first.
    Dropped,
    /// Those that came last first.
    Since,
    /// By address.
    Address,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ClientsArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    /// What they are sorted by.
    #[arg(long, value_enum, default_value_t)]
    pub sort: ClientColumn,
    /// Show all columns, also where they do not fit the terminal.
    #[arg(long)]
    pub wide: bool,
    #[command(subcommand)]
    pub command: Option<ClientsCommand>,
}

#[derive(Subcommand, Debug)]
pub enum ClientsCommand {
    /// Disconnect a client. It may come back.
    Drop {
        /// Its identifier.
        client: String,
        /// End its session as well, with everything that waits for it.
        #[arg(long)]
        end_session: bool,
        #[command(flatten)]
        brokers: BrokerArguments,
    },
}

impl ClientsArguments {
    fn brokers_mut(&mut self) -> &mut BrokerArguments {
        match &mut self.command {
            Some(ClientsCommand::Drop { brokers, .. }) => brokers,
            None => &mut self.brokers,
        }
    }
}

#[derive(Args, Debug)]
pub struct BundleArguments {
    /// The file, which must not be there yet [default: verge-bundle-TIME.json].
    pub file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct InitArguments {
    /// The first user, who may do everything.
    #[arg(long, value_name = "NAME", default_value = "admin")]
    pub user: String,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run one broker of the pair, until SIGTERM.
    Broker {
        /// Which of the configured brokers; without a configuration there are `a` and `b`.
        name: Option<String>,
        /// Listen beyond this host although whoever reaches the broker may publish and subscribe.
        #[arg(long)]
        insecure: bool,
    },
    /// Publish messages.
    #[command(alias = "publish")]
    Pub(PublishArguments),
    /// Print the messages of topics; as numbers where the configuration declares numbers ([[source]]).
    #[command(alias = "subscribe")]
    Sub(SubscribeArguments),
    /// Publish a recording: every column of a CSV or Parquet file as a topic.
    Replay(ReplayArguments),
    /// Record topics into a CSV or Parquet file that `replay` reads: one column for each topic.
    Record(RecordArguments),
    /// Say whether the configured contracts can be kept on this host.
    Check {
        /// The configuration to check.
        file: Option<PathBuf>,
        /// Show the formulas of each topic, with its numbers in them.
        #[arg(long)]
        explain: bool,
    },
    /// Measure what work costs on this host, and keep it for brokers, check, graph and sim.
    Calibrate,
    /// Show the configured operators: levels, types, costs, and when their results are there at worst.
    Graph {
        /// The configuration to show.
        file: Option<PathBuf>,
        /// Draw the graphs into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// The same as --format json.
        #[arg(long)]
        json: bool,
    },
    /// Let the configured deployment run on invented time, with faults, and see whether its contracts are kept.
    #[command(after_help = sim::EXAMPLES)]
    Sim(sim::SimArguments),
    /// Load running brokers, and measure latencies and losses where subscribers are.
    Bench(BenchArguments),
    /// Show both brokers, whether contracts are kept, and what operators do.
    Status(StatusArguments),
    /// Show the same live, sorted and filtered by keys; `?` lists them.
    Top {
        #[command(flatten)]
        brokers: BrokerArguments,
    },
    /// List the metrics that a broker shows, as Markdown.
    Metrics,
    /// Write what somebody who helps has to see into one file: configuration, status, this host, logs; without what is secret.
    Bundle(BundleArguments),
    /// Print what completes commands in a shell, as in `verge completion bash > /etc/bash_completion.d/verge`.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command, as in `verge man /usr/local/share/man/man1`.
    Man {
        /// Where to.
        folder: PathBuf,
    },
    /// Examine this host: what would delay messages, and how to mend it.
    Doctor,
    /// Try a client of your own against the native protocol: this plays both brokers, and says which rules of docs/protocol.md it breaks.
    #[command(after_help = CONFORM)]
    Conform(ConformArguments),
    /// Who is connected, and whose sessions wait: what waits for each, since when, and from where. Or drop one.
    Clients(ClientsArguments),
    /// Give the reign to the backup, with nothing lost.
    Handover {
        #[command(flatten)]
        brokers: BrokerArguments,
    },
    /// Kill a broker under load and see what is lost.
    Demo(DemoArguments),
    /// Operators that process events: those that there are, and those of your own.
    Operator {
        #[command(subcommand)]
        command: operator::OperatorCommand,
    },
    /// Certificates, the secret of the pair and the first user, made in one go.
    Security {
        #[command(subcommand)]
        command: SecurityCommand,
    },
    /// Users: who may connect, and how they prove it.
    #[command(after_help = user::EXAMPLES)]
    User {
        #[command(flatten)]
        file: user::FileArguments,
        #[command(subcommand)]
        command: user::UserCommand,
    },
    /// Rules: who may do what.
    Acl {
        #[command(flatten)]
        file: user::FileArguments,
        #[command(subcommand)]
        command: user::AclCommand,
    },
    /// The key-value store: its nodes, what is in it, and whether they agree.
    #[command(after_help = kv::EXAMPLES)]
    Kv {
        #[command(subcommand)]
        command: kv::KvCommand,
    },
    /// A peer: where programs offer and want things by what they are and where.
    #[command(after_help = peer::EXAMPLES)]
    Peer {
        #[command(subcommand)]
        command: peer::PeerCommand,
    },
    /// What there is now that is as said: asks a peer, and ends.
    Find(peer::FindArguments),
    /// Want something, by what it is and where, and hear when it is there and when it goes, until Ctrl-C. Or print its messages.
    Interest(peer::InterestArguments),
    /// Offer something, and hear when somebody wants it and when nobody does, until Ctrl-C. Or publish it while somebody wants it.
    Announce(peer::AnnounceArguments),
    /// What peers keep: put, get, query and delete values by what they are.
    #[command(after_help = peer::STORE_EXAMPLES)]
    Store {
        #[command(subcommand)]
        command: peer::StoreCommand,
    },
    /// Functions that peers run: operators and rules over what is found by what it is.
    #[command(after_help = function::EXAMPLES)]
    Function {
        #[command(subcommand)]
        command: function::FunctionCommand,
    },
    /// Rules that peers run: what to do when a message says so.
    #[command(after_help = rule::EXAMPLES)]
    Rule {
        #[command(subcommand)]
        command: rule::RuleCommand,
    },
    /// Domains of DDS, bridged by brokers and between sites.
    Dds {
        #[command(subcommand)]
        command: dds::DdsCommand,
    },
    /// Routers that a coordination service names.
    Router {
        #[command(subcommand)]
        command: RouterCommand,
    },
    /// This site, and how it is joined to others.
    Site {
        #[command(subcommand)]
        command: SiteCommand,
    },
    /// Names for pairs, so that nobody types addresses, users and files again and again.
    Context {
        #[command(subcommand)]
        command: ContextCommand,
    },
    /// The configuration itself.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// One of the demo's clients.
    #[command(hide = true)]
    Worker {
        #[command(flatten)]
        brokers: BrokerArguments,
        #[command(subcommand)]
        role: WorkerRole,
    },
}

impl Command {
    /// The brokers that it is for, where it speaks to some.
    pub fn brokers_mut(&mut self) -> Option<&mut BrokerArguments> {
        match self {
            Command::Pub(arguments) => Some(&mut arguments.brokers),
            Command::Sub(arguments) => Some(&mut arguments.brokers),
            Command::Replay(arguments) => Some(&mut arguments.brokers),
            Command::Record(arguments) => Some(&mut arguments.brokers),
            Command::Bench(arguments) => Some(&mut arguments.brokers),
            Command::Status(arguments) => Some(&mut arguments.brokers),
            Command::Clients(arguments) => Some(arguments.brokers_mut()),
            Command::Announce(arguments) => Some(&mut arguments.brokers),
            Command::Interest(arguments) => Some(&mut arguments.brokers),
            Command::Dds { command } => Some(command.brokers_mut()),
            Command::Top { brokers } | Command::Handover { brokers } => Some(brokers),
            _ => None,
        }
    }
}

#[derive(Subcommand, Debug)]
pub enum RouterCommand {
    /// Have a router that a coordination service names give its topics to others, one by one and without loss. Waits until it has none.
    /// Exit code 0 then; 1 if some are left after --within. It gets none until --undo.
    Drain {
        /// The router's name.
        router: String,
        /// It is to have topics again.
        #[arg(long)]
        undo: bool,
        /// How long to wait until it has none.
        #[arg(long, default_value = "60s")]
        within: Span,
    },
}

#[derive(Subcommand, Debug)]
pub enum SiteCommand {
    /// Show which uplink carries, which routers are reached, and what crosses. Exit code 0 only if all is well.
    Status {
        /// Show all columns, also where they do not fit the terminal.
        #[arg(long)]
        wide: bool,
    },
    /// Show each second what crosses, and how long what was missed still takes.
    Top {
        /// Show all columns, also where they do not fit the terminal.
        #[arg(long)]
        wide: bool,
    },
    /// Show what stands in the coordination service: routers, sites, and which topic goes where. Exit code 0 only if every topic that
    /// one site publishes and another wants has a router.
    Tree,
    /// Test whether the whole way to another site keeps the contracts of the file, and its journal what is to be kept. Exit code 0 only if it does.
    Check,
    /// See three sites: primaries and a router are killed, a link is cut, a site moves, and nothing is lost.
    Demo(SitesDemoArguments),
}

#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Print every effective value and where it came from.
    Show,
    /// Print a commented configuration with all defaults.
    Default,
    /// Say what is wrong with a configuration.
    Check {
        /// The configuration to check.
        file: Option<PathBuf>,
    },
    /// Print the reference of all keys, as Markdown.
    Reference,
}

/// Of brokers for clients.
const DEFAULT_PORT: u16 = 7571;

/// An address as others are written: with a port, and brackets around what is of version 6.
fn with_port(host: &str, port: u16) -> String {
    if host.parse::<Ipv6Addr>().is_ok() {
        return format!("[{host}]:{port}");
    }
    match host.rsplit_once(':') {
        Some((before, own))
            if own.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']')) =>
        {
            host.to_owned()
        }
        _ => format!("{host}:{port}"),
    }
}

/// Where the brokers are.
#[derive(Args, Debug, Clone, Default)]
pub struct BrokerArguments {
    /// A broker's host, or host:port; give it twice for a pair [default: this host with --port, else the configured brokers].
    #[arg(long, short = 'h', value_name = "HOST")]
    pub host: Vec<String>,

    /// The port where the host has none [default: 7571].
    #[arg(long, short = 'p', value_name = "PORT")]
    pub port: Option<u16>,

    /// Speak TLS, and believe brokers whose certificates were issued by these [default: tls.ca where brokers have clients_tls].
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// The certificate to show to brokers [default: tls.certificate].
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,

    /// Its private key [default: tls.key].
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,

    /// Who to be; the password is in VERGE_PASSWORD or in a file [default: the key client.user].
    #[arg(long, short = 'u', value_name = "NAME")]
    pub user: Option<String>,

    /// The password itself, which everybody on this host can read meanwhile; VERGE_PASSWORD and files keep it.
    #[arg(long = "pw", short = 'P', value_name = "PASSWORD", conflicts_with = "password_file")]
    pub password: Option<String>,

    /// A file with the password in its first line [default: VERGE_PASSWORD, or the key client.password_file].
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl BrokerArguments {
    /// The addresses given, if any. A port alone means this host.
    pub fn addresses(&self) -> Option<String> {
        let given = self.host.iter().flat_map(|hosts| hosts.split(',')).map(str::trim);
        let mut hosts: Vec<&str> = given.filter(|host| !host.is_empty()).collect();
        if hosts.is_empty() && self.port.is_some() {
            hosts.push("localhost");
        }
        let port = self.port.unwrap_or(DEFAULT_PORT);
        let all: Vec<String> = hosts.iter().map(|host| with_port(host, port)).collect();
        (!all.is_empty()).then(|| all.join(","))
    }

    /// Which brokers that means, and who asks.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            addresses: self.addresses(),
            ca: self.ca.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            password_file: self.password_file.clone(),
            subscriptions: None,
        }
    }
}

/// A contract in flags. Without any, the brokers' configuration has it.
#[derive(Args, Debug, Clone, Default)]
pub struct ContractArguments {
    /// The shortest time between two messages.
    #[arg(long, value_name = "SPAN")]
    pub period: Option<Span>,
    /// From creation to arrival [default: the period].
    #[arg(long, value_name = "SPAN")]
    pub deadline: Option<Span>,
    /// How many in a row may be lost, or `unbounded` [default: 0].
    #[arg(long, value_name = "N", value_parser = parse_loss)]
    pub loss: Option<Loss>,
    /// How many of its newest messages the publisher keeps [default: 1].
    #[arg(long, value_name = "N")]
    pub retain: Option<u32>,
    /// Where the subscribers are [default: edge].
    #[arg(long, value_name = "CLASS")]
    pub link: Option<LinkClass>,
    /// Count a message as dispatched only when subscribers have confirmed it.
    #[arg(long)]
    pub confirm: bool,
    /// The largest payload of its messages in bytes, for which brokers reserve memory [default: what they assume].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub size: Option<u32>,
}

impl ContractArguments {
    /// Whether any flag was given.
    pub fn is_given(&self) -> bool {
        let terms = self.period.is_some() || self.deadline.is_some() || self.loss.is_some();
        let others = self.link.is_some() || self.confirm || self.size.is_some();
        terms || self.retain.is_some() || others
    }

    /// The contract, with this period where none was given.
    pub fn contract(&self, period: Span) -> Contract {
        let mut contract = Contract::every(self.period.unwrap_or(period));
        contract.deadline = self.deadline.unwrap_or(contract.deadline);
        contract.loss = self.loss.unwrap_or(contract.loss);
        contract.retain =
            self.retain.unwrap_or(if contract.loss == Loss::Unbounded { 0 } else { contract.retain });
        contract.link = self.link.unwrap_or(contract.link);
        contract.confirm = self.confirm;
        contract.size = self.size.unwrap_or(0);
        contract
    }
}

/// A span; a bare number is seconds, as for mosquitto_sub.
fn seconds_or_span(text: &str) -> Result<Span, String> {
    let bare = text.trim().ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let span: Result<Span, _> = if bare { format!("{text}s").parse() } else { text.parse() };
    match span.map_err(|error| error.to_string())? {
        span if span < Span::ZERO => Err("a time to wait cannot be negative".to_owned()),
        span => Ok(span),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e6).contains(rate));
    rate.ok_or_else(|| "a number from 0.001 to 1000000".to_owned())
}

fn parse_loss(text: &str) -> Result<Loss, String> {
    match text {
        "unbounded" | "inf" => Ok(Loss::Unbounded),
        number => number.parse().map(Loss::AtMost).map_err(|_| "a number, or `unbounded`".to_owned()),
    }
}

#[derive(Args, Debug)]
pub struct PublishArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    #[command(flatten)]
    pub contract: ContractArguments,
    /// The topic.
    #[arg(long, short = 't', value_name = "TOPIC")]
    pub topic: String,
    /// The message.
    #[arg(long, short = 'm', value_name = "TEXT", group = "content")]
    pub message: Option<String>,
    /// A file with the message.
    #[arg(long, short = 'f', value_name = "FILE", group = "content")]
    pub file: Option<PathBuf>,
    /// All of the standard input is the message.
    #[arg(long, short = 's', group = "content")]
    pub stdin: bool,
    /// The message is empty.
    #[arg(long, short = 'n', group = "content")]
    pub null_message: bool,
    /// Every line of the standard input is a message.
    #[arg(long, short = 'l', group = "content")]
    pub lines: bool,
    /// How often to publish the message.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub repeat: u64,
    /// The time between two repetitions [default: the contract's period].
    #[arg(long, value_name = "SPAN")]
    pub repeat_delay: Option<Span>,
    /// The publisher's name, which must be its own [default: made up].
    #[arg(long, short = 'i', value_name = "NAME")]
    pub id: Option<String>,
}

#[derive(Args, Debug)]
pub struct SubscribeArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    /// Topics, with `+` for one level and `#` for all that follow.
    #[arg(long, short = 't', value_name = "FILTER", required = true)]
    pub topic: Vec<String>,
    /// Print the topic before each message.
    #[arg(long, short = 'v')]
    pub verbose: bool,
    /// Print each message so: %t its topic, %p what it carries, %x that in hexadecimal, %l its bytes, %U when it came, in seconds since 1970, %I
    /// the same as a date, %j all of it as JSON, %% a percent sign.
    #[arg(long = "print", short = 'F', value_name = "FORMAT", conflicts_with = "verbose")]
    pub pattern: Option<Pattern>,
    /// End after so many messages.
    #[arg(long, short = 'C', value_name = "N")]
    pub count: Option<u64>,
    /// End after so long (`2` and `2s` are seconds); exit code 1 if nothing came.
    #[arg(long, short = 'W', value_name = "SECONDS", value_parser = seconds_or_span)]
    pub wait: Option<Span>,
    /// The subscriber's name, which must be its own [default: made up].
    #[arg(long, short = 'i', value_name = "NAME")]
    pub id: Option<String>,
    /// Messages are needed sooner than their contracts say: from creation to arrival.
    #[arg(long, value_name = "SPAN")]
    pub deadline: Option<Span>,
    /// Fewer may be missed in a row than their contracts say.
    #[arg(long, value_name = "N")]
    pub loss: Option<u32>,
    /// The link class of the way to here [default: as the contracts say].
    #[arg(long, value_name = "CLASS")]
    pub link: Option<LinkClass>,
    /// Nothing is promised: messages come when there is time, the newest if there is too little, and take none from others.
    #[arg(long, conflicts_with_all = ["deadline", "loss", "link"])]
    pub best_effort: bool,
}

#[derive(Args, Debug)]
pub struct RecordArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    /// The file to write: CSV, or Parquet where its name ends in `.parquet`.
    pub file: PathBuf,
    /// Topics, with `+` for one level and `#` for all that follow.
    #[arg(long, short = 't', value_name = "FILTER", required_unless_present = "finish")]
    pub topic: Vec<String>,
    /// End after so many messages [default: when stopped, by Ctrl-C or SIGTERM].
    #[arg(long, short = 'C', value_name = "N")]
    pub count: Option<u64>,
    /// End after so long (`2` and `2s` are seconds).
    #[arg(long, short = 'W', value_name = "SECONDS", value_parser = seconds_or_span)]
    pub wait: Option<Span>,
    /// Make the table of a recording that was killed, from FILE.part.
    #[arg(long, conflicts_with_all = ["topic", "count", "wait"])]
    pub finish: bool,
    /// The subscriber's name, which must be its own [default: made up].
    #[arg(long, short = 'i', value_name = "NAME")]
    pub id: Option<String>,
}

#[derive(Args, Debug)]
pub struct BenchArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    #[command(flatten)]
    pub contract: ContractArguments,
    /// How many topics.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub topics: u32,
    /// Messages in a second, over all topics.
    #[arg(long, short = 'r', default_value_t = 1_000.0, value_name = "N", value_parser = parse_rate)]
    pub rate: f64,
    /// Bytes of each message.
    #[arg(long, default_value_t = 64, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(16..=1 << 20))]
    pub payload: u32,
    /// How many subscribers, each of all topics.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub subscribers: u32,
    /// How long it is measured (`2` and `2s` are seconds).
    #[arg(long, short = 'd', default_value = "10s", value_name = "SECONDS", value_parser = seconds_or_span)]
    pub duration: Span,
    /// For how long messages are sent before that.
    #[arg(long, default_value = "1s", value_name = "SECONDS", value_parser = seconds_or_span)]
    pub warm_up: Span,
    /// Keep what was measured in this file.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Compare with what was kept in this file.
    #[arg(long, value_name = "FILE")]
    pub before: Option<PathBuf>,
}

const CONFORM: &str = "\
The command has both brokers in VERGE_BROKERS (host:port,host:port) and what to publish or subscribe in VERGE_TOPIC. A publisher
sends a message every 60 ms, with a contract that retains 3, or with none: only then is it tried whether it takes over a contract that
changes. A subscriber prints a line for each message: its topic, a blank, its payload. Both go on until SIGTERM. Each is one command; write a
script for pipes and assignments. A run takes 20 s.

  verge conform --publisher 'verge pub -h $VERGE_BROKERS -t $VERGE_TOPIC -m 1 --repeat 100000 --period 50ms --deadline 100ms --retain 3' \\
    --subscriber 'verge sub -h $VERGE_BROKERS -t $VERGE_TOPIC -v'";

#[derive(Args, Debug)]
pub struct ConformArguments {
    /// A command that publishes.
    #[arg(long, value_name = "COMMAND", required_unless_present = "subscriber")]
    pub publisher: Option<String>,
    /// A command that subscribes.
    #[arg(long, value_name = "COMMAND")]
    pub subscriber: Option<String>,
}

#[derive(Args, Debug)]
pub struct ReplayArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    #[command(flatten)]
    pub contract: ContractArguments,
    /// The recording: CSV, also packed with gzip or zstd, or Parquet.
    pub file: PathBuf,
    /// The topic of a column; `{column}` and `{file}` are replaced, and `{topic}` by a column's name that is a topic.
    #[arg(long, short = 't', default_value = "replay/{file}/{column}", value_name = "PATTERN")]
    pub topic: String,
    /// The column with the time [default: recognised by its name].
    #[arg(long, value_name = "NAME")]
    pub time_column: Option<String>,
    /// The columns to publish [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// The character between cells [default: recognised].
    #[arg(long, value_name = "CHAR")]
    pub delimiter: Option<char>,
    /// Which number of a date is the day, where the year comes last [default: the whole column decides].
    #[arg(long, value_name = "ORDER", value_parser = date_orders())]
    pub dates: Option<DateOrder>,
    /// What numbers in the time column count: s, ms, us, ns, or days as in spreadsheets [default: by their magnitude].
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
    /// Show what would be published, and how the file was understood, and do nothing.
    #[arg(long)]
    pub plan: bool,
    /// How many times faster than recorded.
    #[arg(long, short = 's', default_value_t = 1.0, value_name = "FACTOR")]
    pub speed: f64,
    /// Begin again at the end, until stopped.
    #[arg(long = "loop")]
    pub again: bool,
    /// End after so long.
    #[arg(long, value_name = "SPAN")]
    pub seconds: Option<Span>,
    /// End when the standard input closes.
    #[arg(long, hide = true)]
    pub until_input_closes: bool,
    /// The publisher's name, which must be its own [default: made up].
    #[arg(long, short = 'i', value_name = "NAME")]
    pub id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(host: &[&str], port: Option<u16>) -> Option<String> {
        let host = host.iter().map(|host| (*host).to_owned()).collect();
        BrokerArguments { host, port, ..BrokerArguments::default() }.addresses()
    }

    #[test]
    fn hosts_and_ports_are_understood_as_people_write_them() {
        assert_eq!(addresses(&[], None), None, "the configured brokers");
        assert_eq!(addresses(&[], Some(9999)).as_deref(), Some("localhost:9999"), "nobody else's pair");
        assert_eq!(addresses(&["a", "b:7581"], None).as_deref(), Some("a:7571,b:7581"));
        assert_eq!(addresses(&["a,b", " c "], Some(1)).as_deref(), Some("a:1,b:1,c:1"));
        for host in ["::1", "fe80::1", "2001:db8::7571"] {
            assert_eq!(addresses(&[host], Some(7581)), Some(format!("[{host}]:7581")));
        }
        assert_eq!(addresses(&["[::1]"], Some(7581)).as_deref(), Some("[::1]:7581"));
        assert_eq!(addresses(&["[::1]:7582"], Some(7581)).as_deref(), Some("[::1]:7582"));
    }

    /// Words as a shell parts them, quotes taken off.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for letter in command.chars() {
            match (letter, quote) {
                (letter, Some(mark)) if letter == mark => quote = None,
                ('\'' | '"', None) => quote = Some(letter),
                (' ', None) => words.push(std::mem::take(&mut word)),
                _ => word.push(letter),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    /// Commands of a page: those between backticks, and those of indented or fenced blocks. What stands for something else is left out.
    fn commands(page: &str) -> Vec<String> {
        let ticked = page.split('`').skip(1).step_by(2).map(str::to_owned);
        let lines =
            page.lines().map(str::trim).map(|line| line.split("  #").next().unwrap_or(line).to_owned());
        let stands = |word: &str| {
            word.contains(['…', '|', '<', '[', '&', ';', '$'])
                || word.starts_with(|c: char| c.is_ascii_uppercase())
                    && word.chars().all(|c| c.is_ascii_uppercase() || matches!(c, '_' | '=' | '-'))
        };
        let is = |command: &String| {
            let mut words = command.split_whitespace();
            let named = words.next() == Some("verge") && words.clone().next().is_some();
            named && !words.any(stands) && !command.contains('\n')
        };
        ticked.chain(lines).filter(is).collect()
    }

    #[test]
    fn commands_of_the_manual_can_be_typed() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders =
            [".", "docs", "docs/internals", "packaging", "examples/mqtt", "examples/recordings", "bench"];
        let pages = folders
            .iter()
            .flat_map(|folder| std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten());
        let pages =
            pages.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
        // History may speak of what is no more.
        let pages = pages.filter(|path| !path.ends_with("CHANGELOG.md"));
        let (mut seen, mut wrong) = (0, Vec::new());
        for path in pages {
            let page = std::fs::read_to_string(&path).unwrap();
            for command in commands(&page) {
                seen += 1;
                // A page may name a command without what it needs.
                let error = Arguments::try_parse_from(words(&command)).err().map(|error| error.kind());
                use clap::error::ErrorKind::{
                    DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
                    MissingRequiredArgument, MissingSubcommand,
                };
                let named = [
                    DisplayHelp,
                    DisplayVersion,
                    DisplayHelpOnMissingArgumentOrSubcommand,
                    MissingRequiredArgument,
                    MissingSubcommand,
                ];
                if let Some(kind) = error.filter(|kind| !named.contains(kind)) {
                    wrong.push(format!("{}: {command} ({kind})", path.display()));
                }
            }
        }
        assert!(seen > 60, "{seen} commands");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
