//! What the client's own thread hears, and those who wait for it.

use crate::places::Places;
use contract::Epoch;
use endpoint::{Delivery, PublicationState, Reigning, Unfit};
use engine::Application;
use report::{LevelReport, NodeReport, OperatorReport, StreamReport};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wire::{Farewell, FarewellReason, Frame, PeerIndex, Shortfall};

/// Called for every message of a subscription, on the client's own thread.
pub(crate) type Handler = Box<dyn FnMut(&Delivery<'_>) + Send>;
/// Called when a broker says that it dropped messages for this client.
pub(crate) type ShortfallHandler = Box<dyn FnMut(&Shortfall) + Send>;
/// Called when the primary changes.
pub(crate) type ReignHandler = Box<dyn FnMut(Reigning) + Send>;

/// Everything that would be called.
pub(crate) type Handlers = (BTreeMap<u32, Handler>, Option<ReignHandler>, Option<ShortfallHandler>);

/// Reasons that are kept until somebody asks. Further ones take the place of the last.
const DROPPED_NEEDS_MAX: usize = 64;

/// The rows of a broker's answers so far.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) streams: Vec<StreamReport>,
    pub(crate) operators: Vec<OperatorReport>,
    pub(crate) levels: Vec<LevelReport>,
}

/// The client's side of its endpoint.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) handlers: BTreeMap<u32, Handler>,
    pub(crate) on_reign: Option<ReignHandler>,
    pub(crate) on_shortfall: Option<ShortfallHandler>,
    /// Why subscriptions go on without what they need, where nobody has asked yet.
    pub(crate) dropped_needs: Vec<String>,
    pub(crate) subscribed: BTreeMap<u32, Result<String, String>>,
    /// Counts what has been heard, so that those who wait see that something has changed.
    pub(crate) heard: u64,
    pub(crate) snapshots: BTreeMap<u8, NodeReport>,
    pub(crate) rows: BTreeMap<u8, Rows>,
    /// Answers to requests for rows, counted per broker.
    pub(crate) row_answers: BTreeMap<u8, u64>,
    /// Where to go on after an answer that became too long, per broker.
    pub(crate) cut_at: BTreeMap<u8, u32>,
    /// Clients of a broker, and what to ask for next.
    pub(crate) clients: Option<(String, Vec<u8>)>,
    /// Whether there was a client that was to be dropped.
    pub(crate) dropped_client: Option<bool>,
    pub(crate) handover: Option<Result<Epoch, String>>,
    /// Brokers that last said no to this client, and why.
    pub(crate) denied: BTreeMap<u8, String>,
    /// Brokers where nobody listens.
    pub(crate) refused: BTreeSet<u8>,
    /// Brokers that would not let this client through to the primary, and why.
    pub(crate) no_way: BTreeMap<u8, String>,
    /// Where they are.
    pub(crate) places: Places,
    /// What each broker last did, for the message when none is found.
    pub(crate) troubles: BTreeMap<u8, BrokerTrouble>,
}

/// Why a broker is not connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BrokerTrouble {
    /// Nobody listens at its address.
    Refused,
    /// Its host does not answer.
    Unreachable,
    /// It closed the connection, and said why.
    Closed(String),
    /// It is none that can be used.
    Unfit(Unfit),
}

impl fmt::Display for BrokerTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokerTrouble::Refused => f.write_str("nobody listens there"),
            BrokerTrouble::Unreachable => f.write_str("does not answer"),
            BrokerTrouble::Closed(text) => write!(f, "closed the connection: {text}"),
            BrokerTrouble::Unfit(why) => write!(f, "{why}"),
        }
    }
}

impl Events {
    /// Why there is no sense in waiting for one of the brokers: all that are there say no.
    pub(crate) fn denial(&self) -> Option<String> {
        if !self.places.is_asked() {
            return None;
        }
        let hopeless = |broker| self.denied.contains_key(&broker) || self.refused.contains(&broker);
        let reason = self.denied.values().next()?;
        (0..self.places.len() as u8).all(hopeless).then(|| reason.clone())
    }

    /// Everything that would be called, so that it can be dropped where nothing is held.
    pub(crate) fn take_handlers(&mut self) -> Handlers {
        (std::mem::take(&mut self.handlers), self.on_reign.take(), self.on_shortfall.take())
    }
}

impl Application for Events {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        for subscription in delivery.subscriptions {
            if let Some(handler) = self.handlers.get_mut(subscription) {
                handler(delivery);
            }
        }
    }

    fn judged(&mut self, _publication: u32, _state: &PublicationState) {
        self.heard += 1;
    }

    fn subscribed(&mut self, subscription: u32, result: Result<&str, &str>) {
        self.heard += 1;
        let answer = result.map(str::to_owned).map_err(str::to_owned);
        let before = self.subscribed.insert(subscription, answer.clone());
        let told = before.as_ref() == Some(&answer);
        let words = match (&answer, before) {
            (Ok(words), _) => Some(words).filter(|words| !words.is_empty() && !told),
            (Err(reason), Some(Ok(_))) => Some(reason),
            (Err(_), _) => None,
        };
        if let Some(words) = words {
            self.dropped_needs.truncate(DROPPED_NEEDS_MAX - 1);
            self.dropped_needs.push(words.clone());
        }
    }

    fn reigning(&mut self, reigning: Reigning) {
        self.heard += 1;
        self.no_way.clear();
        if let Some(handler) = &mut self.on_reign {
            handler(reigning);
        }
    }

    fn fell_short(&mut self, _broker: PeerIndex, shortfall: &Shortfall) {
        self.heard += 1;
        if let Some(handler) = &mut self.on_shortfall {
            handler(shortfall);
        }
    }

    fn dismissed(&mut self, broker: PeerIndex, farewell: &Farewell<'_>) {
        self.heard += 1;
        self.refused.remove(&broker.0);
        if farewell.reason == FarewellReason::NoWay {
            // The connection to the broker itself stands.
            self.no_way.insert(broker.0, farewell.text.to_owned());
            return;
        }
        match farewell.reason {
            FarewellReason::Denied => self.denied.insert(broker.0, farewell.text.to_owned()),
            _ => self.denied.remove(&broker.0),
        };
        self.troubles.insert(broker.0, BrokerTrouble::Closed(farewell.text.to_owned()));
    }

    fn unfit(&mut self, broker: PeerIndex, why: &Unfit) {
        self.heard += 1;
        self.refused.remove(&broker.0);
        self.denied.remove(&broker.0);
        self.troubles.insert(broker.0, BrokerTrouble::Unfit(*why));
    }

    fn unreachable(&mut self, broker: PeerIndex, refused: bool) {
        self.heard += 1;
        self.denied.remove(&broker.0);
        if refused {
            self.refused.insert(broker.0);
        } else {
            self.refused.remove(&broker.0);
        }
        let trouble = if refused { BrokerTrouble::Refused } else { BrokerTrouble::Unreachable };
        self.troubles.insert(broker.0, trouble);
    }

    fn answered(&mut self, broker: PeerIndex, frame: &Frame<'_>) {
        self.heard += 1;
        match frame {
            Frame::NodeStatus(status) => {
                self.snapshots.insert(broker.0, NodeReport::new(status));
            }
            Frame::StreamStatuses(rows) => {
                let streams = &mut self.rows.entry(broker.0).or_default().streams;
                self.cut_at.extend(rows.goes_on_at().map(|stream| (broker.0, stream)));
                streams.extend(rows.map(|row| StreamReport::new(&row)));
                *self.row_answers.entry(broker.0).or_default() += 1;
            }
            Frame::LevelStatuses(rows) => {
                let levels = &mut self.rows.entry(broker.0).or_default().levels;
                levels.extend(rows.map(|row| LevelReport::new(&row)));
            }
            Frame::OperatorStatuses(rows) => {
                let operators = &mut self.rows.entry(broker.0).or_default().operators;
                operators.extend(rows.map(|row| OperatorReport::new(&row)));
            }
            Frame::Clients { next, rows } => self.clients = Some(((*next).to_owned(), rows.to_vec())),
            Frame::DropReply { found } => self.dropped_client = Some(*found),
            Frame::HandoverReply { done, epoch, text } => {
                self.handover = Some(if *done { Ok(*epoch) } else { Err((*text).to_owned()) });
            }
            _ => {}
        }
    }
}
