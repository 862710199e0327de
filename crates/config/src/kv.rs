//! The key-value store: `[kv]`, `[[lane]]`, `[[vote]]` and `[[task]]`.

use super::Row;
use super::Understanding;
use super::keys::{self, lane, task, vote};
use super::layers::Table;
use super::schema;
use super::value::VoteName;
use crate::votes::{self, ModuleVote};
use contract::{Span, TopicFilter};
use host::Place;
use kv::admission::{self, Task};
use kv::{Config, Key, LinkTimes, NodeSet, Setup, Vote};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The whole store.
#[derive(Clone, Debug)]
pub struct KvConfig {
    /// In the order of their names, which is that of their numbers.
    pub nodes: Vec<KvNode>,
    /// By number.
    pub lanes: Vec<KvLane>,
    /// How long nodes wait for each other when they start.
    pub start_wait: Span,
    /// What a link carries, in bytes per second.
    pub bandwidth: u64,
}

/// A node of the store.
#[derive(Clone, PartialEq, Debug)]
pub struct KvNode {
    /// Its name.
    pub name: String,
    /// Where other nodes connect.
    pub address: SocketAddr,
    /// Where it shows metrics, if anywhere.
    pub http: Option<Place>,
    /// The socket for applications on its host.
    pub socket: PathBuf,
    /// The file with the keys of its links.
    pub secrets: Option<PathBuf>,
}

/// A lane of the store, and the tasks beside it.
#[derive(Clone, Debug)]
pub struct KvLane {
    /// What the lane is.
    pub setup: Arc<Setup>,
    /// Tasks that use it, for admission.
    pub tasks: Vec<Task>,
    /// The processor of its thread.
    pub processor: Option<usize>,
    /// The priority of its thread.
    pub priority: Option<u8>,
    /// Of so many of the newest values of each key it is kept who proposed what.
    pub vectors: usize,
}

/// How its keys vote.
enum RuleVote {
    BuiltIn(Vote),
    /// Each lane has an instance of its own.
    Module {
        file: String,
        bytes: Arc<[u8]>,
        budget: Span,
    },
}

impl RuleVote {
    /// What a vote may take, if it is a module's.
    fn budget(&self) -> Option<Span> {
        match self {
            RuleVote::BuiltIn(_) => None,
            RuleVote::Module { budget, .. } => Some(*budget),
        }
    }

    fn build(&self, nodes: usize) -> Result<Vote, String> {
        match self {
            RuleVote::BuiltIn(vote) => Ok(vote.clone()),
            RuleVote::Module { file, bytes, budget } => {
                Ok(Vote::Custom(Arc::new(ModuleVote::new(bytes, file, nodes, *budget)?)))
            }
        }
    }
}

/// Why votes of modules with these budgets, one for each key, do not fit into what is left of a period when all rounds are over.
fn refuse_votes(setup: &Setup, budgets: &[Span]) -> Option<String> {
    // An instance is begun, and runs.
    let needs = budgets.iter().fold(Span::ZERO, |sum, budget| sum + *budget * 2);
    let left = setup.period() - setup.config().offset - setup.round() * setup.rounds() as u64;
    (needs > Span::ZERO && needs > left).then(|| {
        let keys = budgets.len();
        format!("votes of modules for {keys} keys may take {needs}, and {left} of the period are left when all rounds are over")
    })
}

/// Why so many vectors of each key cannot be kept.
fn refuse_vectors(setup: &Setup, kept: usize) -> Option<(String, &'static str)> {
    if kept > setup.history() {
        let message = format!("vectors = {kept}, and `history` is {}", setup.history());
        return Some((message, "lower `vectors`, or raise `history`"));
    }
    let longest = kv_shared::vector_bytes_max(setup.nodes(), setup.value_bytes_max());
    let (bytes, most) =
        (setup.keys() * (kept + usize::from(kept > 0)) * longest, setup.config().store_bytes_max);
    let needs = bytes.saturating_add(setup.store_bytes());
    (kept > 0 && needs > most).then(|| {
        let message = format!("vectors = {kept} with {} keys and {} nodes need {needs} bytes with the values, and kv.store_memory is {most}", setup.keys(), setup.nodes());
        (message, "lower `vectors`, `value_bytes_max` or the number of keys, or raise kv.store_memory")
    })
}

/// One `[[vote]]`.
struct Rule {
    filter: TopicFilter,
    vote: RuleVote,
    writers: Option<NodeSet>,
    single_source: bool,
}

impl Understanding {
    /// `None` if no nodes are configured, or something about them is wrong.
    pub(super) fn kv(&mut self) -> Option<KvConfig> {
        let nodes = self.kv_nodes();
        let (lanes, tasks) = (self.tables(&schema::LANE), self.tables(&schema::TASK));
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let rules: Vec<Option<Rule>> =
            self.tables(&schema::VOTE).iter().map(|table| self.vote(table, &names)).collect();
        let tasks: Vec<(usize, Task)> =
            tasks.iter().filter_map(|table| self.task(table, lanes.len())).collect();
        if nodes.is_empty() {
            if let Some(table) = lanes.first() {
                let message = "there are lanes, and no nodes of the key-value store".to_owned();
                self.problem(
                    &table.place,
                    message,
                    "add [kv.nodes.NAME] with `address` for each node".to_owned(),
                );
            }
            return None;
        }
        if lanes.is_empty() {
            let source = self.source(&keys::KV_NODES_ADDRESS.path_of(&names[0]));
            let message = "there are nodes of the key-value store, and no lanes".to_owned();
            self.problem(&source, message, "add a [[lane]] with `keys`".to_owned());
            return None;
        }
        let rules: Vec<Rule> = rules.into_iter().collect::<Option<_>>()?;
        let count = lanes.len();
        let lanes = lanes.iter().enumerate().map(|(number, table)| {
            let tasks =
                tasks.iter().filter(|(lane, _)| *lane == number).map(|(_, task)| task.clone()).collect();
            self.lane(table, number, count, &names, &rules, tasks)
        });
        let lanes = lanes.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?;
        let bandwidth = self.get(&keys::KV_BANDWIDTH);
        Some(KvConfig { nodes, lanes, start_wait: self.get(&keys::KV_START_WAIT), bandwidth })
    }

    fn kv_nodes(&mut self) -> Vec<KvNode> {
        let names = self.names(&keys::KV_NODES_ADDRESS);
        let mut unknown = Vec::new();
        let node = |name: String| {
            let place = self.of(&keys::KV_NODES_ADDRESS, &name)??;
            let path = keys::KV_NODES_ADDRESS.path_of(&name);
            let address = place
                .resolve_one()
                .map_err(|reason| unknown.push((path, format!("`{place}` does not resolve ({reason})"))));
            let usual = || PathBuf::from(format!("/run/verge/kv-{name}.sock"));
            Some(KvNode {
                address: address.ok()?,
                http: self.of(&keys::KV_NODES_HTTP, &name).flatten(),
                socket: self.of(&keys::KV_NODES_SOCKET, &name).flatten().unwrap_or_else(usual),
                secrets: self.of(&keys::KV_NODES_SECRETS, &name).flatten(),
                name,
            })
        };
        let nodes: Vec<KvNode> = names.into_iter().filter_map(node).collect();
        for (path, message) in unknown {
            let source = self.source(&path);
            self.problem(&source, message, "correct the name, or write an IP address".to_owned());
        }
        self.refuse_shared_places(&nodes);
        nodes
    }

    /// No two nodes have one address or one socket.
    fn refuse_shared_places(&mut self, nodes: &[KvNode]) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for node in nodes {
            let http = node.http.as_ref().map(|place| ("http", place.to_string()));
            let places =
                [("address", node.address.to_string()), ("socket", node.socket.display().to_string())];
            for (key, place) in places.into_iter().chain(http) {
                let path = format!("kv.nodes.{}.{key}", node.name);
                let is_any = place.ends_with(":0");
                if let Some(other) = seen.insert(place.clone(), path.clone()).filter(|_| !is_any) {
                    let source = self.source(&path);
                    let message = format!("{path} and {other} are both {place}");
                    self.problem(&source, message, "give each its own".to_owned());
                }
            }
        }
    }

    fn vote(&mut self, table: &Table, names: &[String]) -> Option<Rule> {
        let row = self.row(table, &schema::VOTE)?;
        let filter = row.get(&vote::FILTER)?;
        let weights = || row.get(&vote::WEIGHTS).iter().map(|weight| *weight as f64).collect();
        let module = row.given(&vote::MODULE).flatten().map(|file| file.display().to_string());
        let budget = row.given(&vote::BUDGET).unwrap_or(votes::BUDGET);
        let given = row.given(&vote::VOTE).flatten();
        let has_vote = given.is_some();
        let vote = match given {
            Some(VoteName::Median(format)) => Vote::Median(format),
            Some(VoteName::TrimmedMean(format)) => Vote::TrimmedMean(format),
            Some(VoteName::WeightedMean(format)) => Vote::WeightedMean(format, weights()),
            Some(VoteName::Min(format)) => Vote::Min(format),
            Some(VoteName::Max(format)) => Vote::Max(format),
            Some(VoteName::Majority) | None => Vote::Majority,
        };
        let vote = match module {
            None => RuleVote::BuiltIn(vote),
            Some(file) => self.module_vote(table, file, budget, has_vote)?,
        };
        let writers = match row.given(&vote::WRITERS) {
            Some(writers) => Some(self.writers(&writers, table, names)?),
            None => None,
        };
        let single_source = row.get(&vote::SINGLE_SOURCE);
        Some(Rule { filter, vote, writers, single_source })
    }

    fn module_vote(&mut self, table: &Table, file: String, budget: Span, has_vote: bool) -> Option<RuleVote> {
        let read = self.kinds.module(&file, wasm::MODULE_BYTES_MAX);
        let mut refuse = |key: &str, message: String, remedy: &str| {
            let place = table.place_of(key);
            self.problem(&place, message, remedy.to_owned());
        };
        if has_vote {
            refuse(vote::VOTE.path(), "it has a `vote` and a `module`".to_owned(), "leave one of them out");
            return None;
        }
        if budget <= Span::ZERO {
            refuse(
                vote::BUDGET.path(),
                format!("a budget of {budget}"),
                "give it a time above zero, such as \"200us\"",
            );
            return None;
        }
        match read {
            Ok(bytes) => Some(RuleVote::Module { file, bytes, budget }),
            Err(error) => {
                refuse(
                    vote::MODULE.path(),
                    error,
                    "name the module's file; a relative path starts at the working directory or at this file",
                );
                None
            }
        }
    }

    /// The votes of one lane. `None`: a module cannot be used.
    fn votes(&mut self, table: &Table, rules: &[Rule], nodes: usize) -> Option<Vec<Vote>> {
        let votes: Result<Vec<Vote>, String> = rules.iter().map(|rule| rule.vote.build(nodes)).collect();
        let refuse = |error: String| {
            let remedy = "mend the module; docs/kv.md says what a vote must be".to_owned();
            self.problem(&table.place, error, remedy);
        };
        votes.map_err(refuse).ok()
    }

    fn writers(&mut self, writers: &[String], table: &Table, names: &[String]) -> Option<NodeSet> {
        let place = |writer: &String| names.iter().position(|name| name == writer).map(kv::Node::at);
        if let Some(unknown) = writers.iter().find(|writer| place(writer).is_none()) {
            let message = format!("there is no node `{unknown}`");
            self.problem(
                &table.place_of(vote::WRITERS.path()),
                message,
                format!("nodes are: {}", names.join(", ")),
            );
            return None;
        }
        Some(writers.iter().filter_map(place).collect())
    }

    fn task(&mut self, table: &Table, lanes: usize) -> Option<(usize, Task)> {
        let row = self.row(table, &schema::TASK)?;
        let lane = row.get(&task::LANE);
        if lane >= lanes {
            let message = format!("there is no lane {lane}: there are {lanes} of them, from 0");
            self.problem(
                &table.place_of(task::LANE.path()),
                message,
                "name another one, or add a [[lane]]".to_owned(),
            );
            return None;
        }
        let period = row.get(&task::PERIOD);
        if period <= Span::ZERO {
            let message = format!("a task cannot run every {period}");
            self.problem(
                &table.place_of(task::PERIOD.path()),
                message,
                "give it a period above 0".to_owned(),
            );
            return None;
        }
        Some((lane, Task { name: row.get(&task::NAME), period, cost: row.get(&task::COST) }))
    }

    fn lane(
        &mut self,
        table: &Table,
        number: usize,
        count: usize,
        names: &[String],
        rules: &[Rule],
        tasks: Vec<Task>,
    ) -> Option<KvLane> {
        let row = self.row(table, &schema::LANE)?;
        let keys = row.get(&lane::KEYS_OF);
        let votes = self.votes(table, rules, names.len())?;
        let budgets: Vec<Span> =
            keys.iter().filter_map(|name| rules[rule_of(name, rules)?].vote.budget()).collect();
        let keys = keys.iter().map(|name| key(name, rules, &votes)).collect();
        let config = self.lane_config(&row, (number, count), names, keys, &tasks);
        let setup = match Setup::new(config) {
            Ok(setup) => setup,
            Err(problems) => {
                for problem in problems {
                    let remedy = "mend this lane, or the nodes and votes that it is made of".to_owned();
                    self.problem(&table.place, problem.to_string(), remedy);
                }
                return None;
            }
        };
        if let Some(message) = refuse_votes(&setup, &budgets) {
            let remedy =
                "a longer period, shorter rounds (`round`), a smaller `budget` or fewer keys".to_owned();
            self.problem(&table.place, message, remedy);
            return None;
        }
        let shown = format!("{} keys every {}", setup.keys(), setup.period());
        self.effective.push((format!("lane {number}"), shown, self.origin(&table.place)));
        let processor = row.given(&lane::PROCESSOR).flatten();
        let priority = row.given(&lane::PRIORITY).unwrap_or(Some(1));
        let vectors = row.get(&lane::VECTORS);
        if let Some((message, remedy)) = refuse_vectors(&setup, vectors) {
            self.problem(&table.place_of(lane::VECTORS.path()), message, remedy.to_owned());
            return None;
        }
        Some(KvLane { setup, tasks, processor, priority, vectors })
    }

    fn lane_config(
        &self,
        row: &Row,
        (number, count): (usize, usize),
        names: &[String],
        keys: Vec<Key>,
        tasks: &[Task],
    ) -> Config {
        let defaults = Config::default();
        let period = row.given(&lane::PERIOD).unwrap_or(defaults.period);
        let (lane, lanes) = (number as u32, count as u32);
        // Where no tasks are described, some time is left for them.
        let auto = match tasks {
            [] => Span(period.0 / 10) + admission::offset(&[], period, lane, lanes),
            tasks => admission::offset(tasks, period, lane, lanes),
        };
        Config {
            nodes: names.to_vec(),
            faults: self.get(&keys::KV_FAULTS),
            mode: self.get(&keys::KV_MODE),
            resolve: self.get(&keys::KV_RESOLVE),
            lane: number as u16,
            period,
            offset: row.given(&lane::OFFSET).flatten().unwrap_or(auto),
            period_max: row.given(&lane::SLOWEST),
            round: row.given(&lane::ROUND),
            horizon: row.given(&lane::HORIZON),
            batch_tuples_max: row.given(&lane::BATCH_TUPLES_MAX),
            key_bytes_max: Config::KEY_BYTES_MAX,
            value_bytes_max: row.given(&lane::VALUE_BYTES_MAX).unwrap_or(defaults.value_bytes_max),
            history: row.given(&lane::HISTORY).unwrap_or(defaults.history),
            keys,
            votes: Vec::new(),
            link: LinkTimes {
                delay_max: self.get(&keys::KV_DELAY_MAX),
                clock_error: self.get(&keys::KV_CLOCK_ERROR),
                send: self.get(&keys::KV_SEND),
                receive: self.get(&keys::KV_RECEIVE),
            },
            tree_bytes_max: self.get(&keys::KV_TREE_MEMORY),
            store_bytes_max: self.get(&keys::KV_STORE_MEMORY),
        }
    }
}

/// The first rule that matches the name of a key.
fn rule_of(name: &str, rules: &[Rule]) -> Option<usize> {
    rules.iter().position(|rule| rule.filter.matches(name))
}

/// A key as its rule has it.
fn key(name: &str, rules: &[Rule], votes: &[Vote]) -> Key {
    let Some(place) = rule_of(name, rules) else { return Key::named(name) };
    let Rule { writers, single_source, .. } = rules[place];
    Key { name: name.to_owned(), vote: Some(votes[place].clone()), writers, single_source }
}

impl KvConfig {
    /// The number of a node, by its name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The names of all nodes.
    pub fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
