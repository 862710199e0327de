//! The pair: who reigns, whether the other broker lives, and what a backup is told.

use crate::membership::pair::Pair;
use crate::membership::partner::PartnerLink;
use crate::membership::reign::{Beginning, Leaving};
use crate::membership::standby::Telling;
use crate::settings::Settings;
use wire::LinkId;

pub(crate) mod guard;
pub(crate) mod liveness;
pub(crate) mod pair;
pub(crate) mod partner;
pub(crate) mod reign;
pub(crate) mod standby;

/// A broker's place in its pair: who reigns, how it came to that, and what the other one has been told.
#[derive(Clone)]
pub(crate) struct Membership {
    pub(crate) pair: Pair,
    pub(crate) partner: PartnerLink,
    /// How its reign began.
    pub(crate) beginning: Beginning,
    pub(crate) leaving: Leaving,
    /// Who asked for the handover that is under way.
    pub(crate) handover_asker: Option<LinkId>,
    /// How far the backup has been told of sessions.
    pub(crate) telling: Telling,
    /// What the partner knows this broker by; empty where it need not.
    pub(crate) secret: Box<str>,
}

impl Membership {
    /// That of a broker that has just started and has heard of nobody.
    pub(crate) fn new(settings: &Settings) -> Membership {
        let Settings { node, prefers_to_reign, has_peer, detection, started, delays, .. } = settings;
        let pair = Pair::new(*node, *prefers_to_reign, *has_peer, *detection, *started);
        Membership {
            pair: pair.keep_within(delays.failover),
            partner: PartnerLink::default(),
            beginning: Beginning::default(),
            leaving: Leaving::No,
            handover_asker: None,
            telling: Telling::default(),
            secret: Box::from(""),
        }
    }
}
