//! A whole broker: from its settings to its last farewell.

use crate::clock::now;
use crate::descriptors::Shares;
use crate::doors::{Door, DoorLimits};
use crate::driver::Driver;
use crate::error::HostError;
use crate::handshake::Handshakes;
use crate::heart::Heart;
use crate::helpers::Helpers;
use crate::network::Network;
use crate::place::Whereabouts;
use crate::poller::Ready;
use crate::target::Target;
use crate::troubles::Troubles;
use crate::workers::Occupancy;
use contract::Span;
use engine::{BrokerNode, Operators, Reporter, Rules};
use rustls::pki_types::ServerName;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

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
    /// Sends and hears heartbeats, where there is a partner.
    pub heart: Option<Heart>,
    /// Makes handshakes, where doors or the partner need them.
    pub handshakes: Option<Handshakes>,
    /// What wakes the data thread besides sockets: whoever runs operators, whoever wants something changed, whoever asks it to end.
    pub wakers: Vec<OwnedFd>,
    /// How often it was asked to end. One of the wakers is rung with it.
    pub asked_to_end: Arc<AtomicU32>,
    /// Descriptors that others of this process open and close as they go: clients do not get them.
    pub later: u64,
    /// What operators take of the processors that the data thread shares with them, and how long it rests for that at most; see
    /// [`Driver::share`].
    pub shares: Option<(Occupancy, Span)>,
    /// For so long the data thread looks for work before it sleeps, where that is likely to pay; see [`Driver::busy_poll`].
    pub busy_poll: Span,
    /// The threads that help. When one is lost, the broker hands over and ends.
    pub helpers: Helpers,
}

/// The other broker of the pair.
pub struct Partner {
    /// Where it is, as far as that is known.
    pub whereabouts: Whereabouts,
    /// What its certificate must have, if the connection to it is encrypted.
    pub name: Option<ServerName<'static>>,
}

/// How long the last bytes may take to leave.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// Runs a broker until it is asked to end; then hands over, drains, and returns. Asked a second time, it ends at once. `listening` hears
/// the doors with their addresses in fact, and how many clients may come in, before the first connection is taken; `woken` is called
/// when one of the wakers is ready, and has to see to it.
pub fn serve<R: Reporter, O: Operators, G: Rules>(
    node: BrokerNode<R, O, G>,
    serving: Serving,
    listening: impl FnOnce(&[Door], &Shares),
    mut woken: impl FnMut(&mut BrokerNode<R, O, G>, &mut Network),
) -> Result<(), HostError> {
    let mut driver = Driver::new(node, Vec::new())?;
    driver.limit(serving.limits, serving.troubles);
    if let Some(handshakes) = serving.handshakes {
        driver.employ(handshakes)?;
    }
    if let Some(Partner { whereabouts, name }) = serving.partner {
        let target = Target { whereabouts, name, tunnel: None };
        driver.with_unsent(|_, net| net.set_peer(wire::PeerIndex(0), target));
    }
    let mut doors = serving.doors;
    for door in &mut doors {
        door.address = driver.open(*door)?;
    }
    if let Some(heart) = serving.heart {
        driver.beat(heart);
    }
    driver.wake_with(serving.helpers.bell())?;
    for waker in &serving.wakers {
        driver.wake_with(waker)?;
    }
    if let Some((load, rest)) = serving.shares {
        driver.share(load, rest);
    }
    driver.busy_poll(serving.busy_poll);
    driver.breathe();
    let shares = Shares::of_this_process(serving.limits.clients, serving.later)?;
    driver.limit_clients(shares.clients);
    listening(&doors, &shares);

    let mut ready = Vec::new();
    let mut asked = 0;
    loop {
        // It may have been asked before the wakers were listened to.
        // Where a thread is lost, its partner has everything that this one lacks now.
        let lost = u32::from(serving.helpers.loss().is_some());
        let before = std::mem::replace(&mut asked, serving.asked_to_end.load(Ordering::Acquire) + lost);
        if before == 0 && asked > 0 {
            driver.with(|node, net| node.leave(now(), net));
        }
        // Nobody leaves unasked, and to look whether it has left takes its time.
        if asked > 1 || (asked > 0 && driver.node().has_left(now())) {
            break;
        }
        driver.wait_and_turn(&mut ready)?;
        if ready.iter().any(Ready::is_waker) {
            driver.with_work(&mut woken);
        }
    }
    driver.with(|node, net| node.say_farewell(net));
    let since = Instant::now();
    while !driver.is_flushed() && since.elapsed() < FLUSH_TIME {
        driver.wait_and_turn(&mut ready)?;
    }
    match serving.helpers.loss() {
        Some(loss) => Err(HostError::ThreadEnded(loss.clone())),
        None => Ok(()),
    }
}
