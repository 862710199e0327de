//! Four nodes of the store as processes on this host, one of which may be told to lie.

use super::{FAULTS, LIAR, NAMES, REPLICAS, keys};
use crate::crash::{Folder, Process, free_ports};
use console::Trouble;
use contract::Span;
use node::talk;
use node::talk::At;
use rustix::process::Signal;
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How long a node may take to end when it is asked to.
const END: Duration = Duration::from_secs(5);

/// The nodes that run.
pub struct Cluster<'a> {
    folder: &'a Folder,
    nodes: [Option<Process>; REPLICAS],
}

impl<'a> Cluster<'a> {
    pub fn start(folder: &'a Folder, period: Span) -> Result<Cluster<'a>, Trouble> {
        let sockets = NAMES.map(|name| folder.file(&socket_name(name)));
        std::fs::write(folder.file(CONFIG), configuration(free_ports()?, &sockets, period))?;
        let mut cluster = Cluster { folder, nodes: [const { None }; REPLICAS] };
        (0..REPLICAS).try_for_each(|place| cluster.begin(place))?;
        Ok(cluster)
    }

    /// Starts a node, also once more.
    pub fn begin(&mut self, place: usize) -> Result<(), Trouble> {
        let config = self.folder.file(CONFIG).display().to_string();
        let mut words: Vec<String> =
            ["--config", &config, "--while-input", "kv", "node", NAMES[place]].map(str::to_owned).into();
        if place == LIAR {
            words.push("--may-lie".to_owned());
        }
        self.nodes[place] = Some(Process::start(&words, &self.folder.file(&log_name(NAMES[place])))?);
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self, place: usize) -> Result<(), Trouble> {
        self.nodes[place].take().map_or(Ok(()), |mut node| node.kill())
    }

    /// Makes the liar lie, or ends that.
    pub fn lie(&self, lies: bool) {
        if let Some(node) = &self.nodes[LIAR] {
            node.signal(if lies { Signal::USR1 } else { Signal::USR2 });
        }
    }

    pub fn socket(&self, place: usize) -> PathBuf {
        self.folder.file(&socket_name(NAMES[place]))
    }

    /// What a node says of itself, if it does.
    pub fn status(&self, place: usize) -> Option<Value> {
        let at = At { socket: Some(self.socket(place)), ..At::default() };
        let none = |_: Option<&std::path::Path>| Err(Trouble("no configuration is needed".to_owned()));
        talk::reach(&at, none).ok()?.nodes.first()?.status().ok()
    }

    /// Ends all nodes.
    pub fn end(self) -> Result<(), Trouble> {
        for node in self.nodes.iter().flatten() {
            node.signal(Signal::TERM);
        }
        for mut node in self.nodes.into_iter().flatten() {
            node.terminate(END)?;
        }
        Ok(())
    }
}

const CONFIG: &str = "verge.toml";

fn socket_name(node: &str) -> String {
    format!("{node}.sock")
}

/// The file with what a node says.
pub fn log_name(node: &str) -> String {
    format!("{node}.log")
}

/// What all nodes read. Replicas have a fifth of the period to write.
fn configuration(ports: [u16; REPLICAS], sockets: &[PathBuf; REPLICAS], period: Span) -> String {
    let mut text = format!("[kv]\nfaults = {FAULTS}\ndelay_max = \"1ms\"\n");
    for ((name, port), socket) in NAMES.iter().zip(ports).zip(sockets) {
        let socket = socket.display();
        let _ = writeln!(text, "[kv.nodes.{name}]\naddress = \"127.0.0.1:{port}\"\nsocket = '{socket}'");
    }
    let keys: Vec<String> = keys().map(|key| format!("\"{key}\"")).collect();
    let _ = write!(
        text,
        "[[lane]]\nkeys = [{}]\nperiod = \"{period}\"\noffset = \"{}\"\nvalue_bytes_max = 8\n\
         [[vote]]\nfilter = \"measured/#\"\nvote = \"median f64\"\n",
        keys.join(", "),
        Span(period.0 / 5)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::FLOATS;
    use super::*;
    use config::testing::load;

    #[test]
    fn the_configuration_is_valid_at_each_period_that_is_allowed() {
        let sockets = NAMES.map(PathBuf::from);
        for period in [20, 50, 100] {
            let text = configuration([7601, 7602, 7603, 7604], &sockets, Span::millis(period));
            let store = load("kv-demo", &text).kv.unwrap();
            assert_eq!((store.nodes.len(), store.lanes[0].setup.keys()), (REPLICAS, FLOATS));
            assert_eq!(store.lanes[0].setup.faults(), FAULTS);
        }
    }
}
