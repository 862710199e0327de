//! Asking nodes on this host, through their sockets.

use crate::Trouble;
use config::KvConfig;
use kv_shared::{Answer, LINE_BYTES_MAX, Request, decode, encode};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which node of the store is asked.
#[derive(Clone, Debug, Default)]
pub struct At {
    /// This configured one; all of them on this host where neither is said.
    pub node: Option<String>,
    /// The one with this socket.
    pub socket: Option<PathBuf>,
    /// The lane.
    pub lane: u16,
}

/// A node that answers.
pub struct Talk {
    /// The name of the node, or the path of its socket.
    pub name: String,
    /// Where it is reached.
    pub socket: PathBuf,
    stream: Mutex<BufReader<UnixStream>>,
}

/// Nodes that answer, and the lane that is asked about.
pub struct Reached {
    /// The nodes.
    pub nodes: Vec<Talk>,
    /// The lane.
    pub lane: u16,
}

/// Connects to the nodes that were named; at least to one.
pub fn reach(at: &At, load: impl Fn(Option<&Path>) -> Result<KvConfig, Trouble>) -> Result<Reached, Trouble> {
    let wanted: Vec<(String, PathBuf)> = match (&at.socket, &at.node) {
        (Some(path), _) => vec![(path.display().to_string(), path.clone())],
        (None, Some(name)) => {
            let config = load(None)?;
            let node = config.node(name).map(|place| &config.nodes[place]);
            let missing = || format!("there is no node `{name}`: nodes are {}", config.names().join(", "));
            let node = node.ok_or_else(|| Trouble(missing()))?;
            vec![(node.name.clone(), node.socket.clone())]
        }
        (None, None) => load(None)?.nodes.into_iter().map(|node| (node.name, node.socket)).collect(),
    };
    let mut troubles = Vec::new();
    let mut nodes = Vec::new();
    for (name, path) in wanted {
        match connect(&path) {
            Ok(stream) => {
                nodes.push(Talk { name, socket: path, stream: Mutex::new(BufReader::new(stream)) });
            }
            Err(error) => troubles.push(format!("{} ({error})", path.display())),
        }
    }
    if nodes.is_empty() {
        return Err(Trouble(format!(
            "no node answers at {}: start one with `verge kv node NAME`, or name its socket with --socket",
            troubles.join(", ")
        )));
    }
    Ok(Reached { nodes, lane: at.lane })
}

fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

impl Talk {
    /// Asks, and waits for the answer; what the node refuses is the trouble.
    pub fn ask(&self, request: &Request) -> Result<Answer, Trouble> {
        match self.try_ask(request)? {
            Answer::Error(text) => Err(Trouble(format!("{}: {text}", self.name))),
            answer => Ok(answer),
        }
    }

    /// Asks, and waits for the answer, which may be a refusal.
    pub fn try_ask(&self, request: &Request) -> Result<Answer, Trouble> {
        let silent = |error| Trouble(format!("{} does not answer: {error}", self.name));
        let mut stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let bytes = encode(request).map_err(|error| Trouble(error.to_string()))?;
        stream.get_mut().write_all(&bytes).map_err(silent)?;
        let mut line = Vec::new();
        let limited = &mut stream.by_ref().take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line).map_err(silent)?;
        if line.is_empty() {
            return Err(Trouble(format!("{} has ended the connection", self.name)));
        }
        decode(&line).map_err(|error| Trouble(format!("{} answers nonsense: {error}", self.name)))
    }

    /// What it says of itself.
    pub fn status(&self) -> Result<serde_json::Value, Trouble> {
        match self.ask(&Request::Status {})? {
            Answer::Status(status) => Ok(status),
            other => Err(Trouble(format!("{} answers something else: {other:?}", self.name))),
        }
    }
}
