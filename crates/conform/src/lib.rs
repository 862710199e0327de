#![doc = include_str!("../README.md")]

mod publisher;
mod stage;
mod subscriber;

use node::Trouble;
use serde::Serialize;
use stage::{A, B, Said, Stage};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The topic that a publisher publishes, one message every 50 ms.
pub const OUT: &str = "conform/out";
/// What a subscriber subscribes; it prints a line for each message, its topic, a blank, and what it carries.
pub const IN: &str = "conform/in/#";
/// How long a client may take for what it must do.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it is looked whether it does what it must not.
const QUIET: Duration = Duration::from_millis(600);
/// From a client that lives something must come in this time.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// What a rule came to that says MUST, and one that says should.
pub const BROKEN: &str = "BROKEN";
/// The same.
const MISSED: &str = "missed";
/// Lines of a client that are kept.
const LINES_MAX: usize = 100_000;

/// What one rule came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// What the client was.
    pub role: &'static str,
    /// Of docs/protocol.md.
    pub section: &'static str,
    /// What it says.
    pub rule: &'static str,
    /// What it came to.
    pub result: &'static str,
    /// What was seen instead.
    pub detail: String,
}

/// All that was found of one role.
pub struct Findings {
    role: &'static str,
    rows: Vec<Row>,
}

impl Findings {
    fn new(role: &'static str) -> Findings {
        Findings { role, rows: Vec::new() }
    }

    /// The same of what a client should do: a miss is told, and breaks nothing.
    fn advise(&mut self, section: &'static str, rule: &'static str, seen: Result<(), String>) {
        if !self.judge(section, rule, seen) {
            self.rows.iter_mut().next_back().into_iter().for_each(|row| row.result = MISSED);
        }
    }

    /// A rule was kept, or what was seen instead.
    fn judge(&mut self, section: &'static str, rule: &'static str, seen: Result<(), String>) -> bool {
        let kept = seen.is_ok();
        let (result, detail) =
            if kept { ("ok", String::new()) } else { (BROKEN, seen.err().unwrap_or_default()) };
        self.rows.push(Row { role: self.role, section, rule, result, detail });
        kept
    }
}

/// Tries a client that publishes.
pub fn publisher(command: &str) -> Result<Vec<Row>, Trouble> {
    Ok(publisher::try_it(command)?.rows)
}

/// Tries a client that subscribes.
pub fn subscriber(command: &str) -> Result<Vec<Row>, Trouble> {
    Ok(subscriber::try_it(command)?.rows)
}

/// The client that is tried.
struct Client {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Client {
    fn start(command: &str, stage: &Stage, topic: &str) -> Result<Client, Trouble> {
        let mut child = Command::new("sh");
        // The client is what is ended, and not a shell around it.
        child.arg("-c").arg(format!("exec {command}"));
        child.env("VERGE_BROKERS", stage.addresses()).env("VERGE_TOPIC", topic);
        child.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = child.spawn()?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (out, kept) = (child.stdout.take(), Arc::clone(&lines));
        let read = move || {
            for line in out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < LINES_MAX {
                    kept.push(line);
                }
            }
        };
        let reader = std::thread::Builder::new().name("conform".to_owned()).spawn(read)?;
        Ok(Client { child, lines, reader: Some(reader) })
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it as a service manager would. Whether it ended in time.
    fn end(&mut self, stage: &mut Stage) -> bool {
        let id = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let child = &mut self.child;
        stage.wait(PATIENCE, |_| child.try_wait().ok().flatten()).is_some()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// What holds for every client: it greets both brokers, once on each connection, as the same.
fn greets(stage: &mut Stage, client: &mut Client, findings: &mut Findings) -> bool {
    let child = &mut client.child;
    let mut ended = None;
    let both = stage.wait(PATIENCE, |stage| {
        ended = child.try_wait().ok().flatten();
        let both = stage.is_connected(A) && stage.is_connected(B);
        (both || ended.is_some()).then_some(())
    });
    let both = both.filter(|()| ended.is_none());
    let place = if stage.is_connected(A) { "the backup" } else { "the primary" };
    let missing = match (ended, nonsense(stage)) {
        (Some(status), _) => format!("the command ended ({status})"),
        (None, Some(why)) => format!("there is no greeting at {place}: {why}"),
        (None, None) => format!("after {} s there is no greeting at {place}", PATIENCE.as_secs()),
    };
    if !findings.judge("3", "connects to both brokers and says Hello first", both.ok_or(missing)) {
        return false;
    }
    let hellos: Vec<_> = stage
        .heard
        .iter()
        .filter_map(|heard| match &heard.said {
            Said::Hello { standing, reign, incarnation, name } => Some((standing, reign, incarnation, name)),
            _ => None,
        })
        .collect();
    let (first, second) = (hellos[0], hellos[hellos.len() - 1]);
    let same = (first.2, first.3) == (second.2, second.3);
    findings.judge(
        "3",
        "name and incarnation are the same on all connections",
        if same { Ok(()) } else { Err(format!("{:?} and {:?}", (first.3, first.2), (second.3, second.2))) },
    );
    let client = |hello: &(&wire::Standing, &contract::Reign, &u64, &String)| {
        matches!(hello.0, wire::Standing::Orphaned | wire::Standing::Following)
    };
    let right = client(&first) && client(&second) && first.1.epoch.0 == 0;
    findings.judge(
        "3",
        "its Hello says Orphaned or Following, and the highest reign that it has followed",
        if right { Ok(()) } else { Err(format!("{:?} with {:?}", first.0, first.1)) },
    );
    true
}

/// What holds for every client until its end: it is never silent for long, says nothing that is none, and takes its leave.
fn lives_and_leaves(stage: &mut Stage, client: &mut Client, findings: &mut Findings) {
    stage.listen(SILENCE_MAX + QUIET);
    let (from, end) = (stage.heard.len(), Instant::now());
    let alive: Vec<u64> = [A, B].into_iter().filter_map(|broker| stage.connection(broker)).collect();
    let ended = client.end(stage);
    // What it said last may still be on its way.
    stage.listen(QUIET / 3);
    let left = stage.heard[from..].iter().any(|heard| heard.said == Said::Farewell { reason: 0 });
    let seen = match (ended, left) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("it runs on {} s after SIGTERM", PATIENCE.as_secs())),
        (true, false) => {
            Err("it ended without Farewell 0: brokers keep its session until they miss it".to_owned())
        }
    };
    findings.advise("3", "says Farewell 0 when it ends", seen);
    findings.judge("2", "sends whole frames that a client may send", nonsense(stage).map_or(Ok(()), Err));
    let mut begun = std::collections::BTreeSet::new();
    let firsts = stage.heard.iter().filter(|heard| begun.insert(heard.connection));
    let wrong = firsts.filter(|heard| !matches!(heard.said, Said::Hello { .. } | Said::End { .. })).count();
    let seen =
        if wrong == 0 { Ok(()) } else { Err(format!("{wrong} connections began with something else")) };
    findings.judge("3", "says Hello before anything else on each connection", seen);
    let mut longest = Duration::ZERO;
    let mut last: std::collections::BTreeMap<u64, Instant> = std::collections::BTreeMap::new();
    for heard in &stage.heard[..from] {
        if let Some(before) = last.insert(heard.connection, heard.at) {
            longest = longest.max(heard.at.duration_since(before));
        }
    }
    for connection in alive {
        longest = longest.max(last.get(&connection).map_or(Duration::ZERO, |last| end.duration_since(*last)));
    }
    let silent = longest > SILENCE_MAX;
    let seen = if silent { Err(format!("nothing came for {:.1} s", longest.as_secs_f64())) } else { Ok(()) };
    findings.judge("6", "something comes from it every 5 s", seen);
}

/// What of all that was heard is nothing that a client may say.
fn nonsense(stage: &Stage) -> Option<String> {
    stage.heard.iter().find_map(|heard| match &heard.said {
        Said::End { why } => why.clone(),
        _ => None,
    })
}

/// Whether a client says this reign as one that it follows, to a broker.
fn follows(stage: &mut Stage, broker: usize, epoch: u64, from: usize) -> Result<(), String> {
    let says = |said: &Said| matches!(said, Said::Reign { reign, standing: wire::Standing::Following } if reign.epoch.0 == epoch);
    let seen = stage.wait(PATIENCE, |stage| stage.heard_by(broker, from).any(says).then_some(()));
    seen.ok_or_else(|| format!("no Reign with epoch {epoch} and standing 3 came"))
}
