//! Messages between a broker and whoever serves clients of other protocols, as both name them: what is published there, and what is given to
//! subscribers there. Both borrow.

use crate::MessageFlags;
use contract::{Contract, StreamId, Time};

/// A message that a client of another protocol publishes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Posting<'a> {
    /// The client.
    pub publisher: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The contract that it asks for.
    pub asked: Option<Contract>,
    /// The contract where none is asked for or configured.
    pub fallback: Contract,
    /// The stream that the last message of this client and topic had.
    pub hint: Option<StreamId>,
    /// What it carries, with its trailer.
    pub payload: &'a [u8],
    /// How it came: [`MessageFlags::TRUTHS`].
    pub truths: MessageFlags,
    /// Whether the client waits for word that it is covered.
    pub asks: bool,
}

/// Where a message comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin<'a> {
    /// Who published it.
    pub publisher: &'a str,
    /// In which life.
    pub incarnation: u64,
    /// Its number.
    pub seq: u64,
}

/// A message on its way to subscribers of other protocols.
#[derive(Clone, Copy, Debug)]
pub struct Routed<'a> {
    /// Its stream.
    pub stream: StreamId,
    /// Where it comes from.
    pub origin: Origin<'a>,
    /// When it was created.
    pub created: Time,
    /// Whether its subscribers may have it already: the primary before may have dispatched it.
    pub again: bool,
    /// What its topic promises.
    pub contract: &'a Contract,
    /// How it came, if through another protocol: [`MessageFlags::TRUTHS`].
    pub truths: MessageFlags,
    /// What is wrong with it in time, if operators made it: [`MessageFlags::OUT_OF_DATE`], [`MessageFlags::APART`].
    pub marks: MessageFlags,
    /// What belongs to it besides the payload.
    pub trailer: &'a [u8],
    /// What it carries.
    pub payload: &'a [u8],
}
