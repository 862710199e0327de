//! Who listens on a port of this host, as far as this user may see.

use std::fs;
use std::net::SocketAddr;

/// A process that listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    pub(super) process: u32,
    /// Its command line.
    pub(super) command: String,
}

impl Holder {
    /// Whether it is one of our brokers.
    pub(super) fn is_broker(&self) -> bool {
        let mut words = self.command.split(' ');
        let program = words.next().unwrap_or_default();
        program.rsplit('/').next() == Some("verge") && words.any(|word| word == "broker")
    }
}

/// What the kernel calls a socket that listens.
const LISTENS: &str = "0A";
/// The columns of the kernel's table: the address here, the state, and the number of the socket.
const COLUMNS: (usize, usize, usize) = (1, 3, 9);

/// Who listens on this port, at whatever address.
pub(super) fn of(address: &SocketAddr) -> Option<Holder> {
    let port = format!(":{:04X}", address.port());
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|row| listener(row, &port))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find_map(|process: u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.find(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))?;
        let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
        Some(Holder { process, command })
    })
}

/// The socket in a row of the kernel's table, if it listens there.
fn listener(row: &str, port: &str) -> Option<String> {
    let cells: Vec<&str> = row.split_ascii_whitespace().collect();
    let (address, state, socket) = COLUMNS;
    let listens = cells.get(address)?.ends_with(port) && *cells.get(state)? == LISTENS;
    listens.then(|| cells.get(socket).map(|number| format!("socket:[{number}]"))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.4:0").unwrap();
        let address = listener.local_addr().unwrap();
        let holder = of(&address).unwrap();
        assert_eq!(holder.process, std::process::id());
        assert!(!holder.is_broker(), "{holder:?}");
        drop(listener);
        assert_eq!(of(&address), None);
    }

    #[test]
    fn a_broker_is_known_by_its_command() {
        let is_broker = |command: &str| Holder { process: 1, command: command.to_owned() }.is_broker();
        assert!(is_broker("/usr/bin/verge --config x broker a"));
        assert!(!is_broker("/usr/bin/verge status") && !is_broker("mosquitto -p 1883"));
    }
}
