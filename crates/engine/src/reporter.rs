//! What a node asks of the process around it.

use broker::Event;
use std::net::IpAddr;
use wire::StoreState;

/// The process around a node: it hears what a broker has to tell its admin, keeps what must outlive the process, and finds
/// out who clients are.
pub trait Reporter: Keeps + Introduces {
    /// An event.
    fn report(&mut self, event: &Event<'_>);

    /// The next thing that whoever watches should know, as a JSON object appended to `out`. `false`: there is none.
    fn next_alarm(&mut self, out: &mut String) -> bool;

    /// Told about every ten seconds: memory of messages that was given back since the last time, which the process may give back in turn.
    fn tidy(&mut self, freed: usize);
}

/// Where what must outlive the process is kept.
pub trait Keeps {
    /// Whether there is a store, to which [`Keeps::keep`] leads.
    fn keeps(&self) -> bool;

    /// What has changed of what must outlive the process; see `mqtt::records`. With it, everything is there up to the change `known`;
    /// see [`wire::Knowledge::total`].
    fn keep(&mut self, records: &[u8], known: u64);

    /// What the store does, and why it was given up if it was.
    fn store(&self) -> (StoreState, &str);

    /// What the store holds is to be kept aside, and written anew from now on. Returns where.
    fn set_aside(&mut self) -> Option<String>;

    /// A store that was given up can be written again. `true`, once: everything is to be given to it, by [`Keeps::keep`] from this
    /// moment on, and then [`Keeps::kept_all`] is to be called.
    fn wants_everything(&mut self) -> bool;

    /// Whether the store can take more of that now; `None`: it was given up again, and wants no more.
    fn takes_more(&mut self) -> Option<bool>;

    /// It has been given everything.
    fn kept_all(&mut self);
}

/// Who says which clients are known.
pub trait Introduces {
    /// Where the next client comes from that wants to be known, if that is known.
    fn caller(&mut self, address: Option<IpAddr>);

    /// A client wants to be known. The answer is given with [`crate::BrokerNode::judged`].
    fn login(&mut self, login: mqtt::Login);
}

/// Says that there is no store.
pub trait KeepsNothing {}

impl<T: KeepsNothing> Keeps for T {
    fn keeps(&self) -> bool {
        false
    }
    fn keep(&mut self, _records: &[u8], _known: u64) {}
    fn store(&self) -> (StoreState, &str) {
        (StoreState::None, "")
    }
    fn set_aside(&mut self) -> Option<String> {
        None
    }
    fn wants_everything(&mut self) -> bool {
        false
    }
    fn takes_more(&mut self) -> Option<bool> {
        None
    }
    fn kept_all(&mut self) {}
}

/// Says that no client need be known.
pub trait KnowsEverybody {}

impl<T: KnowsEverybody> Introduces for T {
    fn caller(&mut self, _address: Option<IpAddr>) {}
    fn login(&mut self, _login: mqtt::Login) {}
}
