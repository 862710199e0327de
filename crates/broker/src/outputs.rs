//! What a broker asks of the world around it, in five traits: who reports, who processes, who serves other protocols, who remembers, and who
//! lets clients through.
//!
//! Nothing has a default, so that whoever stands in for the world says of each what it does. One that does nothing of a kind says so
//! in a line: [`ProcessesNothing`], [`RoutesNowhere`], [`RemembersNothing`], [`RelaysNothing`].

use crate::steps::posting::Route;
use crate::steps::process::Processed;
use crate::store::results::Processing;
use crate::watch::events::Event;
use crate::watch::status::Survey;
use contract::{StreamId, Time};
use std::ops::Range;
use wire::{ClientRow, Effects, Frame, Knowledge, LinkId, Routed, StoreState};

/// What a broker asks of the world: frames sent, links opened and closed, and all that the traits of this module name.
pub trait Outputs: Effects + Reports + Processes + Routes + Remembers + Relays {}

impl<T: Effects + Reports + Processes + Routes + Remembers + Relays> Outputs for T {}

/// Who tells whoever operates the broker.
pub trait Reports {
    /// Tells the admin.
    fn report(&mut self, event: &Event<'_>);

    /// Somebody wants to see what operators do: these of their rows, and levels with the first. It must not wait for them.
    fn survey(&mut self, wanted: Range<u32>) -> Survey;
}

/// The operators, as a broker sees them.
pub trait Processes {
    /// A topic has come, or the graphs of operators have changed. `Some`: its messages are to be processed.
    fn bind(&mut self, topic: &str) -> Option<Processing>;

    /// A topic has gone, or has been bound anew.
    fn unbind(&mut self, handle: u32);

    /// A message for the operators that its topic feeds. `false`: they cannot take it.
    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool;

    /// Whether there still is an output of this number.
    fn has_output(&mut self, output: u32) -> bool;

    /// A result has been dispatched, or never will be.
    fn release(&mut self, lineage: u32);

    /// A result has been sent to everybody who reads; it waits for those who do not.
    fn offered(&mut self, lineage: u32);
}

/// Whoever serves clients of other protocols.
pub trait Routes {
    /// A topic has come. `Some`: its messages are given to whoever serves other protocols, under this number.
    fn route(&mut self, topic: &str) -> Option<Route>;

    /// The topic has gone.
    fn unroute(&mut self, route: u32);

    /// A message for the subscribers of other protocols.
    fn deliver(&mut self, now: Time, route: u32, message: &Routed<'_>);

    /// A message is covered whose publisher waits for word of it.
    fn covered(&mut self, stream: StreamId, seq: u64);

    /// A message whose publisher waits for word is lost for want of memory.
    fn given_up(&mut self, stream: StreamId, seq: u64);

    /// Hands over clients with names after this one, so many at most. Returns the last name where there are more.
    fn list_clients(
        &mut self,
        after: &str,
        most: usize,
        hear: &mut dyn FnMut(&ClientRow<'_>),
    ) -> Option<String>;

    /// Disconnects a client, and ends its session if that is wanted. Says whether there was one.
    fn drop_client(&mut self, now: Time, client: &str, ends: bool) -> bool;
}

/// What is remembered besides messages: sessions and retained messages of other protocols, and what operators remember.
pub trait Remembers {
    /// The primary tells what is to be remembered of other protocols.
    fn learn(&mut self, now: Time, records: &[u8]);

    /// Another broker will tell everything. What this one remembers is forgotten: at once, or, where the other `knows` all of it, as far as
    /// it is not told again until [`Remembers::told_everything`].
    fn begin_learning(&mut self, now: Time, knows: bool);

    /// The other broker has told everything.
    fn told_everything(&mut self);

    /// Tells a backup some of what is remembered, from this place on. Returns the place to go on with.
    fn tell(&mut self, link: LinkId, from: u64) -> Option<u64>;

    /// Tells the backup on this link at once of what has changed and was not told yet, before it takes the reign.
    fn tell_rest(&mut self, link: LinkId);

    /// Tells a backup that remembers more what has been changed since this broker began to reign. `false`: that is not known any more.
    fn tell_changes(&mut self, link: LinkId) -> bool;

    /// How far what is remembered of other protocols is. `None`: nothing is.
    fn knowledge(&self) -> Option<&Knowledge>;

    /// What is remembered is about to be forgotten, and nobody else has all of it: it is kept aside. Returns where.
    fn set_aside(&mut self) -> Option<String>;

    /// What keeps what is remembered on a disk, and why it does not.
    fn store(&self) -> (StoreState, &str);

    /// The primary tells what an instance of operators remembers. `ours`: our streams for its numbers.
    fn recall(&mut self, now: Time, instance: &str, picture: &[u8], ours: &dyn Fn(u32) -> Option<StreamId>);

    /// Whether the backup on this link has been told what operators remember.
    fn has_told_memories(&self, backup: LinkId) -> bool;
}

/// Who lets clients through to the primary that cannot reach it themselves.
pub trait Relays {
    /// The other broker sends something of such a client, or for one. `most`: so many may there be.
    fn relay(&mut self, now: Time, from: LinkId, frame: &Frame<'_>, most: usize);
}

/// Says that there are no operators.
pub trait ProcessesNothing {}

impl<T: ProcessesNothing> Processes for T {
    fn bind(&mut self, _topic: &str) -> Option<Processing> {
        None
    }
    fn unbind(&mut self, _handle: u32) {}
    fn process(&mut self, _handle: u32, _message: &Processed<'_>) -> bool {
        false
    }
    fn has_output(&mut self, _output: u32) -> bool {
        false
    }
    fn release(&mut self, _lineage: u32) {}
    fn offered(&mut self, _lineage: u32) {}
}

/// Says that nobody serves other protocols.
pub trait RoutesNowhere {}

impl<T: RoutesNowhere> Routes for T {
    fn route(&mut self, _topic: &str) -> Option<Route> {
        None
    }
    fn unroute(&mut self, _route: u32) {}
    fn deliver(&mut self, _now: Time, _route: u32, _message: &Routed<'_>) {}
    fn covered(&mut self, _stream: StreamId, _seq: u64) {}
    fn given_up(&mut self, _stream: StreamId, _seq: u64) {}
    fn list_clients(
        &mut self,
        _after: &str,
        _most: usize,
        _hear: &mut dyn FnMut(&ClientRow<'_>),
    ) -> Option<String> {
        None
    }
    fn drop_client(&mut self, _now: Time, _client: &str, _ends: bool) -> bool {
        false
    }
}

/// Says that nothing is remembered besides messages.
pub trait RemembersNothing {}

impl<T: RemembersNothing> Remembers for T {
    fn learn(&mut self, _now: Time, _records: &[u8]) {}
    fn begin_learning(&mut self, _now: Time, _knows: bool) {}
    fn told_everything(&mut self) {}
    fn tell(&mut self, _link: LinkId, _from: u64) -> Option<u64> {
        None
    }
    fn tell_rest(&mut self, _link: LinkId) {}
    fn tell_changes(&mut self, _link: LinkId) -> bool {
        false
    }
    fn knowledge(&self) -> Option<&Knowledge> {
        None
    }
    fn set_aside(&mut self) -> Option<String> {
        None
    }
    fn store(&self) -> (StoreState, &str) {
        (StoreState::None, "")
    }
    fn recall(
        &mut self,
        _now: Time,
        _instance: &str,
        _picture: &[u8],
        _ours: &dyn Fn(u32) -> Option<StreamId>,
    ) {
    }
    fn has_told_memories(&self, _backup: LinkId) -> bool {
        true
    }
}

/// Says that nobody is let through.
pub trait RelaysNothing {}

impl<T: RelaysNothing> Relays for T {
    fn relay(&mut self, _now: Time, _from: LinkId, _frame: &Frame<'_>, _most: usize) {}
}
