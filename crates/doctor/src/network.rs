//! The network: how much a socket may hold, how many clients may connect at
//! once, and whether the brokers' ports are free.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};

use super::holder::{self, Holder};
use super::{Finding, Host, Unknown, number, settle, size};

const PORT: &str = "port";

const RECEIVE: &str = "/proc/sys/net/core/rmem_max";
const SEND: &str = "/proc/sys/net/core/wmem_max";
const BACKLOG: &str = "/proc/sys/net/core/somaxconn";

/// A buffer that holds what 1 MiB/s brings while a subscriber pauses for a second.
const WANTED_BUFFER: u64 = 1 << 20;

/// The buffer to ask for, with room above the wanted one.
const ADVISED_BUFFER: u64 = 4 << 20;

/// Clients that may knock at once when they all turn to the backup broker.
const WANTED_BACKLOG: u64 = 1024;

/// The backlog to ask for, which newer kernels have by default.
const ADVISED_BACKLOG: u64 = 4096;

/// Examines the network settings of the host.
pub(super) fn examine(host: &Host) -> Vec<Finding> {
    vec![
        settle("socket buffers", buffers(host)),
        settle("connection backlog", host.parse(BACKLOG, number::<u64>).map(judge_backlog)),
    ]
}

/// Examines whether a broker can listen on each of `addresses`.
pub(super) fn examine_ports(addresses: &[SocketAddr]) -> Vec<Finding> {
    let examine = |(index, address): (usize, &SocketAddr)| {
        if address.port() != 0 && addresses.iter().take(index).any(|earlier| earlier == address) {
            return judge_repeated(address);
        }
        judge_port(address, TcpListener::bind(address).map(drop), holder::of)
    };
    addresses.iter().enumerate().map(examine).collect()
}

fn buffers(host: &Host) -> Result<Finding, Unknown> {
    let receive = host.parse(RECEIVE, number::<u64>)?;
    let send = host.parse(SEND, number::<u64>)?;
    Ok(judge_buffers(receive, send))
}

fn judge_buffers(receive: u64, send: u64) -> Finding {
    const NAME: &str = "socket buffers";
    let state = format!("sockets may hold {} to receive and {} to send", size(receive), size(send));
    let least = receive.min(send);
    if least >= WANTED_BUFFER {
        return Finding::good(NAME, state);
    }
    Finding::fair(
        NAME,
        state,
        format!("a broker that asks for larger buffers gets {}, so bursts stall sooner", size(least)),
        format!(
            "put `net.core.rmem_max = {ADVISED_BUFFER}` and `net.core.wmem_max = {ADVISED_BUFFER}` into \
             /etc/sysctl.d/90-verge.conf, then sudo sysctl --system"
        ),
    )
}

fn judge_backlog(connections: u64) -> Finding {
    const NAME: &str = "connection backlog";
    let state = format!("{connections} connections may wait to be accepted");
    if connections >= WANTED_BACKLOG {
        return Finding::good(NAME, state);
    }
    Finding::fair(
        NAME,
        state,
        "when many clients turn to the backup at once, those beyond it try again only after 1 s",
        format!(
            "put `net.core.somaxconn = {ADVISED_BACKLOG}` into /etc/sysctl.d/90-verge.conf, then \
             sudo sysctl --system"
        ),
    )
}

fn judge_port(
    address: &SocketAddr,
    outcome: io::Result<()>,
    holder: impl FnOnce(&SocketAddr) -> Option<Holder>,
) -> Finding {
    let Err(error) = outcome else {
        return Finding::good(PORT, format!("{address} is free"));
    };
    let port = address.port();
    let (state, remedy) = match error.kind() {
        ErrorKind::AddrInUse => match holder(address) {
            Some(broker) if broker.is_broker() => {
                return Finding::good(
                    PORT,
                    format!("{address} is served by a running broker (process {})", broker.process),
                );
            }
            Some(Holder { process, command }) => (
                format!("{address} is taken by process {process} ({command})"),
                "stop it, or choose another port".to_owned(),
            ),
            None => (
                format!("{address} is taken"),
                format!(
                    "see by whom with sudo ss -ltnp 'sport = :{port}', then stop it or choose another port"
                ),
            ),
        },
        ErrorKind::AddrNotAvailable => (
            format!("{} is not an address of this host", address.ip()),
            "choose one of those that ip -brief address shows, or 0.0.0.0 for all".to_owned(),
        ),
        ErrorKind::PermissionDenied => (
            format!("this user may not listen on {address}"),
            "choose a port of 1024 or above, or sudo setcap cap_net_bind_service=+ep /path/to/verge"
                .to_owned(),
        ),
        _ => (
            format!("{address} cannot be opened ({error})"),
            "compare the address with those that ip -brief address shows".to_owned(),
        ),
    };
    Finding::poor(PORT, state, "a broker cannot start there", remedy)
}

fn judge_repeated(address: &SocketAddr) -> Finding {
    Finding::poor(
        PORT,
        format!("{address} is named more than once"),
        "only the first broker can start there",
        "give each broker an address of its own",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    const ADDRESS: &str = "127.0.0.1:7400";

    fn refused(kind: ErrorKind) -> Finding {
        judge_port(&ADDRESS.parse().unwrap(), Err(kind.into()), |_| None)
    }

    #[test]
    fn buffers_are_judged_by_the_smaller_of_the_two() {
        assert_eq!(judge_buffers(4 << 20, 4 << 20).health, Health::Good);
        let finding = judge_buffers(4 << 20, 212_992);
        assert_eq!(finding.health, Health::Fair);
        assert!(finding.state.contains("4 MiB to receive and 208 KiB to send"));
    }

    #[test]
    fn a_short_backlog_is_fair() {
        assert_eq!(judge_backlog(128).health, Health::Fair);
        assert_eq!(judge_backlog(4096).health, Health::Good);
    }

    #[test]
    fn each_reason_against_a_port_has_its_own_remedy() {
        assert!(refused(ErrorKind::AddrInUse).remedy.contains("ss -ltnp 'sport = :7400'"));
        assert!(refused(ErrorKind::AddrNotAvailable).state.contains("127.0.0.1 is not an address"));
        assert!(refused(ErrorKind::PermissionDenied).remedy.contains("cap_net_bind_service"));
        assert_eq!(refused(ErrorKind::Other).health, Health::Poor);
    }

    #[test]
    fn a_port_on_which_someone_listens_is_taken_until_released() {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        let findings = examine_ports(&[address]);
        assert_eq!(findings[0].health, Health::Poor);
        assert!(findings[0].state.contains("is taken by process"), "{}", findings[0].state);
        drop(listener);
        assert_eq!(examine_ports(&[address])[0].health, Health::Good);
    }

    #[test]
    fn a_port_of_a_running_broker_is_as_it_should_be() {
        let broker = Holder { process: 7, command: "/usr/bin/verge broker a".to_owned() };
        let taken = Err(ErrorKind::AddrInUse.into());
        let finding = judge_port(&ADDRESS.parse().unwrap(), taken, |_| Some(broker));
        assert_eq!(finding.health, Health::Good);
        assert!(finding.state.contains("process 7"));
    }

    #[test]
    fn an_address_named_twice_serves_only_once() {
        let listener = TcpListener::bind("127.0.0.3:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let findings = examine_ports(&[address, address]);
        assert_eq!(findings[0].health, Health::Good);
        assert_eq!(findings[1].health, Health::Poor);
        let any = "127.0.0.1:0".parse().unwrap();
        assert!(examine_ports(&[any, any]).iter().all(|finding| finding.health == Health::Good));
    }
}
