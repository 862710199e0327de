//! A whole broker: from its settings to its last farewell.

use crate::clock::now;
use crate::doors::{Door, DoorLimits};
use crate::driver::Driver;
use crate::error::HostError;
use crate::lobby::Lobby;
use crate::network::Network;
use crate::place::Whereabouts;
use crate::poller::Ready;
use crate::troubles::Troubles;
use crate::workers::Load;
use contract::Span;
use engine::{BrokerNode, Operators, Reporter, Rules};
use rustix::io::Errno;
use rustls::pki_types::ServerName;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Where a broker is reached, and where its partner is.
pub struct Serving {
    /// Where clients and the partner connect.
    pub doors: Vec<Door>,
    /// How many may come in.
    pub limits: DoorLimits,
    /// Who is told of connections that were refused or given up.
    pub troubles: Arc<Troubles>,
    /// The partner, if there is one.
    pub partner: Option<Partner>,
    /// Makes handshakes, where doors or the partner need them.
    pub lobby: Option<Lobby>,
    /// What wakes the data thread besides sockets: whoever runs operators, whoever wants something changed.
    pub wakers: Vec<OwnedFd>,
    /// What operators take of the processors that the data thread shares with them, and how long it rests for that at most; see
    /// [`Driver::share`].
    pub shares: Option<(Load, Span)>,
    /// For so long the data thread looks for work before it sleeps, where that is likely to pay; see [`Driver::spin`].
    pub spin: Span,
}

/// The other broker of the pair.
pub struct Partner {
    /// Where it is, as far as that is known.
    pub whereabouts: Whereabouts,
    /// What its certificate must have, if the connection to it is encrypted.
    pub name: Option<ServerName<'static>>,
}

/// How long the last bytes may take to leave.
const FLUSH_TIME: Span = Span::secs(1);

/// Runs a broker until it is asked to end (SIGTERM, SIGINT); then hands over, drains, and returns. A second signal ends
/// it at once. `listening` hears the doors with their addresses in fact, before the first connection is taken; `woken` is called when one of the
/// wakers is ready, and has to see to it.
pub fn serve<R: Reporter, O: Operators, G: Rules>(
    node: BrokerNode<R, O, G>,
    serving: Serving,
    listening: impl FnOnce(&[Door]),
    mut woken: impl FnMut(&mut BrokerNode<R, O, G>, &mut Network),
) -> Result<(), HostError> {
    let mut signals =
        signals().map_err(|_| HostError::System { what: "cannot watch signals", reason: Errno::IO })?;
    let mut driver = Driver::new(node, Vec::new())?;
    driver.limit(serving.limits, serving.troubles);
    if let Some(lobby) = serving.lobby {
        driver.employ(lobby, Vec::new())?;
    }
    if let Some(Partner { whereabouts, name }) = serving.partner {
        driver.with_unsent(|_, net| net.add_peer(whereabouts, name));
    }
    let mut doors = serving.doors;
    for door in &mut doors {
        door.address = driver.listen(door.address, door.protocol, door.transport)?;
    }
    driver.wake_on(&signals)?;
    for waker in &serving.wakers {
        driver.wake_with(waker)?;
    }
    if let Some((load, rest)) = serving.shares {
        driver.share(load, rest);
    }
    driver.spin(serving.spin);
    driver.breathe();
    listening(&doors);

    let mut ready = Vec::new();
    let mut asked = 0;
    // Nobody leaves unasked, and to look whether it has left takes its time.
    while asked == 0 || (asked < 2 && !driver.node().has_left(now())) {
        driver.wait_and_turn(&mut ready)?;
        if !ready.iter().any(Ready::is_waker) {
            continue;
        }
        driver.with_work(&mut woken);
        let mut bytes = [0; 16];
        let came = signals.read(&mut bytes).unwrap_or(0);
        if came > 0 && asked == 0 {
            driver.with(|node, net| node.leave(now(), net));
        }
        asked += came;
    }
    driver.with(|node, net| node.say_farewell(net));
    let until = now() + FLUSH_TIME;
    while !driver.is_flushed() && now() < until {
        driver.wait_and_turn(&mut ready)?;
    }
    Ok(())
}

/// A socket on which a byte appears for every signal that asks the process to end.
fn signals() -> std::io::Result<UnixStream> {
    let receiver = endings()?;
    receiver.set_nonblocking(true)?;
    Ok(receiver)
}

/// The same for others who want to know; it blocks.
pub fn endings() -> std::io::Result<UnixStream> {
    told_of(&[SIGTERM, SIGINT])
}

/// A socket on which a byte appears for every SIGHUP: the configuration is to be read again.
pub fn hangups() -> std::io::Result<UnixStream> {
    told_of(&[SIGHUP])
}

fn told_of(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, sender.try_clone()?)?;
    }
    Ok(receiver)
}
