//! A whole broker: from its settings to its last farewell.

use crate::clock::now;
use crate::driver::Driver;
use crate::network::HostError;
use crate::poller::Ready;
use contract::Span;
use engine::{BrokerNode, Reporter};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

/// Where a broker is reached, and where its partner is.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where clients connect.
    pub clients: SocketAddr,
    /// Where the partner connects.
    pub pair: SocketAddr,
    /// The partner, if there is one.
    pub partner: Option<SocketAddr>,
}

/// How long the last bytes may take to leave.
const FLUSH_TIME: Span = Span::secs(1);

/// Runs a broker until it is asked to end (SIGTERM, SIGINT); then hands over, drains, and returns. A second signal ends
/// it at once. `listening` hears the addresses in fact, before the first connection is taken.
pub fn serve<R: Reporter>(
    node: BrokerNode<R>,
    serving: &Serving,
    listening: impl FnOnce(SocketAddr, SocketAddr),
) -> Result<(), HostError> {
    let mut signals =
        signals().map_err(|_| HostError::System { what: "cannot watch signals", reason: Errno::IO })?;
    let mut driver = Driver::new(node, serving.partner.into_iter().collect())?;
    let clients = driver.listen(serving.clients)?;
    let pair = driver.listen(serving.pair)?;
    driver.wake_on(&signals)?;
    listening(clients, pair);

    let mut ready = Vec::new();
    let mut asked = 0;
    while !driver.node().has_left(now()) && asked < 2 {
        driver.wait_and_turn(&mut ready)?;
        if !ready.iter().any(Ready::is_waker) {
            continue;
        }
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
    let (receiver, sender) = UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(receiver)
}
