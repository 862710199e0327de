//! Contracts across several brokers: a message goes from hop to hop, and each hop may fail.
//!
//! The problem: a promise is made once, to the last subscriber, and kept by brokers of several sites, none of which sees the whole way or
//! shares a clock with the others. The idea: every hop is a contract of its own. Whoever sends to a hop is its publisher and retains the newest
//! `N_h` messages for it; a message counts as handed on when the next hop has it. A hop's deadline follows from the age that a message has
//! when it comes, and from what the way behind it still takes.
//!
//! The invariant, **path lemma**: let the message of number `i` be created at `a_i`, at least `T` after the one before, and let it pass the sender
//! of a hop in order, no earlier than `a_i + m` and no later than `a_i + M`; call `J = M - m` the jitter there. The hop dies at `c`, and the
//! sender sends its newest `N` again at some moment until `c + x`. What has been made safe within `S` of passing the sender (copied to the hop's
//! backup, or handed on) does not depend on the hop any more. Then no more than `L` in a row are lost if
//!
//! `S ≤ (N + L)·T - J - x`
//!
//! and if `S` is one nanosecond longer, `L + 1` in a row may be.
//!
//! Why: let `n` be the newest that has passed the sender when it sends again, and `q` the newest that was safe at `c`. Those from `q + 1` to `n - N`
//! are lost; they are more than `L` only if `n - q ≥ N + L + 1`, so that the creations of `n` and `q + 1` are `(N + L)·T` apart or more, and their passings
//! at least `(N + L)·T - J`. But `q + 1` was not safe at `c`, so it passed after `c - S`; and `n` passed by `c + x`. So their passings are less
//! than `S + x` apart.
//!
//! At the first hop `J = 0` and `S = ΔPB + D^r + ΔBB`, which is F1 of [`crate::timing`]. The jitter is what F1 has no need of: a publisher sends
//! evenly, a broker that forwards may send in one moment what came in ten.
//!
//! Where deadlines of jobs are reckoned from creation (F7), a hop needs to know no more of the way before it than how old messages are when they come at
//! most, which stands for `ΔPB`, and of the way behind it than what it takes, which goes with `ΔBS`: then F1 and F2 are the lemma. For a
//! message that was created at `a` is safe by `a + (N + L)·T - x`, whenever it came.
//!
//! What it leaves to others: `L` is one number for the whole way, so what a crash costs is charged to the hop that died alone. That is so while at
//! least one message of the stream arrives between two crashes, see [`Path::apart`].
//!
//! Sources: FRAME, lemmas 1 and 2; PubSubCoord has no deadlines.

use crate::{Contract, Delays, Span};
use std::fmt;

/// Until what comes by other brokers comes by another one, where one dies that has no partner: that is noticed after a second at most. An upper
/// bound, where the sites have another router.
pub const REASSIGNED_WITHIN: Span = Span::millis(1_500);

/// What happens when a hop's broker dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// Its partner takes over.
    Pair {
        /// `x`: until the sender sends to the partner. An upper bound.
        failover: Span,
        /// `ΔBB`: from one broker of the pair to the other. An upper bound.
        broker_to_broker: Span,
    },
    /// Another router is given the topic: the time-out of the session, and until the sites have linked to the other. An upper bound.
    Alone {
        /// `x`: until the sender sends to the other.
        reassigned: Span,
    },
}

impl Guard {
    fn silence(self) -> Span {
        match self {
            Guard::Pair { failover, .. } => failover,
            Guard::Alone { reassigned } => reassigned,
        }
    }
}

/// A broker on the way, or a pair of them, and the way to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// From the sender to here. An upper bound; to the first hop it is `ΔPB`.
    pub link: Span,
    /// The same. A lower bound.
    pub link_least: Span,
    /// `R`: from arrival to handing on. An upper bound, as admission there gives it.
    pub response: Span,
    /// What happens when it dies.
    pub guard: Guard,
    /// `N_h`: messages that the sender keeps for it. For the first hop it is the contract's own.
    pub retain: u32,
}

/// The way from a publisher to the subscribers of one site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// The hops, first the publishing site's pair.
    pub hops: Vec<Hop>,
    /// `ΔBS`: from the last hop to its subscribers. An upper bound.
    pub to_subscriber: Span,
}

/// What a hop has to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopPlan {
    /// A message must be handed on before it is so old: `D` less what the way behind still takes. That is its deadline here, whatever any clock
    /// says, or `R` after it came if that is earlier: jitter and what is safe when are reckoned with `R`.
    pub age_at_dispatch: Span,
    /// `D^r`: from arrival until its copy has to leave for the backup. [`Span::FOREVER`] where any number may be lost; where the hop is alone,
    /// until it must be handed on, so that the sender's retention covers it.
    pub cover: Span,
    /// Whether messages have to be copied to the backup here.
    pub copies: bool,
}

/// Which hop cannot keep a contract, and what would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathRefusal {
    /// The whole way takes longer than the deadline.
    TooLong {
        /// What it takes.
        takes: Span,
        /// The hop that takes most of it, its link included; from zero.
        slowest: usize,
    },
    /// More may be lost at a hop than is tolerated.
    TooThin {
        /// The hop, from zero.
        hop: usize,
        /// By how much.
        short: Span,
        /// The smallest number of messages that its sender would have to keep.
        retain: u64,
    },
}

impl fmt::Display for PathRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathRefusal::TooLong { takes, slowest } => {
                write!(f, "the way takes up to {takes}, most of it at hop {}", slowest + 1)
            }
            PathRefusal::TooThin { hop, short, retain } => write!(
                f,
                "hop {}: what is sent again after its death comes {short} too late; keep at least {retain} messages for it",
                hop + 1
            ),
        }
    }
}

impl Path {
    /// The longest that a message takes from creation to the last subscriber while nothing fails: `Σ (link + R) + ΔBS`.
    pub fn takes(&self) -> Span {
        self.age_at_passing(self.hops.len()) + self.to_subscriber
    }

    /// `M`: the age at which a message has passed the sender of a hop at the latest.
    fn age_at_passing(&self, hop: usize) -> Span {
        self.hops.iter().take(hop).fold(Span::ZERO, |age, hop| age + hop.link + hop.response)
    }

    /// `J`: by how much more or less time messages take to pass the sender of a hop.
    pub fn jitter(&self, hop: usize) -> Span {
        let least = self.hops.iter().take(hop).fold(Span::ZERO, |age, hop| age + hop.link_least);
        self.age_at_passing(hop) - least
    }

    /// What follows a hop: until a message that it has handed on is with the last subscriber.
    fn behind(&self, hop: usize) -> Span {
        let rest = self.hops.iter().skip(hop + 1);
        rest.fold(self.to_subscriber, |takes, hop| takes + hop.link + hop.response)
    }

    /// The way from a hop to whoever is next, at most.
    fn onward(&self, hop: usize) -> Span {
        self.hops.get(hop + 1).map_or(self.to_subscriber, |next| next.link)
    }

    /// The longest `S` that the path lemma allows at a hop; [`Span::FOREVER`] where any number may be lost.
    fn safe_within(&self, contract: &Contract, hop: usize) -> Span {
        let Some(at) = self.hops.get(hop) else { return Span::FOREVER };
        let cover = Contract { retain: at.retain, ..*contract }.cover();
        if cover.is_forever() { cover } else { cover - self.jitter(hop) - at.guard.silence() }
    }

    /// What each hop has to keep, or why the contract cannot be given. Whether each can keep it beside all else is for its own admission.
    pub fn plan(&self, contract: &Contract) -> Result<Vec<HopPlan>, PathRefusal> {
        let takes = self.takes();
        if takes > contract.deadline {
            let slowest =
                (0..self.hops.len()).max_by_key(|hop| self.hops[*hop].link + self.hops[*hop].response);
            return Err(PathRefusal::TooLong { takes, slowest: slowest.unwrap_or(0) });
        }
        (0..self.hops.len()).map(|hop| self.plan_hop(contract, hop)).collect()
    }

    fn plan_hop(&self, contract: &Contract, hop: usize) -> Result<HopPlan, PathRefusal> {
        let at = &self.hops[hop];
        let age_at_dispatch = contract.deadline - self.behind(hop);
        let within = self.safe_within(contract, hop);
        if within.is_forever() {
            return Ok(HopPlan { age_at_dispatch, cover: Span::FOREVER, copies: false });
        }
        // Handed on means that the next one has it.
        let handed_on = at.link + at.response + self.onward(hop);
        let (cover, copies, needed) = match at.guard {
            Guard::Alone { .. } => (within - at.link - self.onward(hop), false, handed_on),
            Guard::Pair { broker_to_broker, .. } => {
                (within - at.link - broker_to_broker, handed_on > within, at.link + broker_to_broker)
            }
        };
        if needed.min(handed_on) > within {
            let short = needed.min(handed_on) - within;
            return Err(PathRefusal::TooThin { hop, short, retain: self.retention(contract, hop, short) });
        }
        Ok(HopPlan { age_at_dispatch, cover, copies })
    }

    /// The smallest `N_h` with which nothing is short.
    fn retention(&self, contract: &Contract, hop: usize, short: Span) -> u64 {
        let more = short.as_nanos_u64().div_ceil(contract.period.as_nanos_u64().max(1));
        u64::from(self.hops[hop].retain) + more
    }

    /// How far apart crashes of two hops have to be at least, so that what each costs is charged to it alone: everything that the first one
    /// cost was created by then, and nothing that the second one costs. A message of the stream must also have come between.
    pub fn apart(&self, contract: &Contract) -> Span {
        let longest = |of: &dyn Fn(usize) -> Span| (0..self.hops.len()).map(of).max().unwrap_or(Span::ZERO);
        let first = longest(&|hop| self.hops[hop].guard.silence());
        let second = longest(&|hop| {
            let safe = self.safe_within(contract, hop);
            let handed_on = self.hops[hop].link + self.hops[hop].response + self.onward(hop);
            self.age_at_passing(hop) + if safe.is_forever() { handed_on } else { safe.max(handed_on) }
        });
        first + second
    }
}

/// What a broker plans with where messages come by other brokers, or go on by them. All zero where their publishers send them themselves, and
/// subscribers are the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtHop {
    /// How old messages are at most when they come, see [`Crossing::age`]; it stands for `ΔPB`.
    pub age: Span,
    /// What stands for `x` where that is longer: the broker has no partner, and messages come by another one when it dies.
    pub silence: Span,
    /// From dispatch until the next broker has said that it has a message, at most; for topics that are confirmed.
    pub handing_on: Span,
}

impl AtHop {
    /// `ΔPB`, or what stands for it.
    pub fn upstream(&self, delays: &Delays) -> Span {
        self.age.max(delays.publisher_to_broker)
    }

    /// The delays of the deployment, with what stands for `x`.
    pub(crate) fn delays(&self, delays: &Delays) -> Delays {
        Delays { failover: self.silence.max(delays.failover), ..*delays }
    }
}

/// A contract as a broker plans it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The contract: what is stated, or the strictest of that and of what subscribers need; with `N_h` for `N` where messages come by other
    /// brokers.
    pub contract: Contract,
    /// Where the broker is on their way.
    pub hop: AtHop,
}

impl Planned {
    /// The same where any number may be lost, see [`Contract::best_effort`].
    #[must_use]
    pub fn best_effort(self) -> Planned {
        Planned { contract: self.contract.best_effort(), ..self }
    }
}

impl From<Contract> for Planned {
    /// From their publishers to subscribers.
    fn from(contract: Contract) -> Planned {
        Planned { contract, hop: AtHop::default() }
    }
}

impl From<&Contract> for Planned {
    fn from(contract: &Contract) -> Planned {
        Planned::from(*contract)
    }
}

/// What is known of a stream's messages where they come by other brokers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// How old they are at most. Zero where their publisher sends them itself.
    pub age: Span,
    /// `N_h`: so many of its newest messages are kept by whoever sends them here, at least as many as the contract says.
    pub retain: u32,
    /// Their age is known so exactly: the error of all clocks on their way. An upper bound.
    pub within: Span,
    /// Whether the whole way keeps the contract. Where it does not, messages go when there is time, and nothing is promised.
    pub promised: bool,
}

impl Crossing {
    /// A stream of the broker's own site.
    pub const NONE: Crossing = Crossing { age: Span::ZERO, retain: 0, within: Span::ZERO, promised: true };
}

impl Default for Crossing {
    fn default() -> Crossing {
        Crossing::NONE
    }
}

/// How old a message is where no two clocks agree: what was measured, and how far the truth may be from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Age {
    /// As measured: times at hops, and half of each round trip.
    pub measured: Span,
    /// The truth is no further from that.
    pub within: Span,
}

/// Whether a message came in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeliness {
    /// It did, whatever the error.
    InTime,
    /// It did not, whatever the error.
    Late,
    /// The error is larger than what is between it and the deadline.
    CannotBeJudged,
}

impl Age {
    /// Oscillators differ by no more than this from true time: one part in so many.
    const DRIFT: i64 = 5_000;

    /// The age after so much time at a hop, by the hop's own clock.
    #[must_use]
    pub fn after_residence(self, residence: Span) -> Age {
        let residence = residence.max(Span::ZERO);
        // Rounded up: an error is never told too small.
        let drift = Span(residence.0 / Self::DRIFT + 1);
        Age { measured: self.measured + residence, within: self.within + drift }
    }

    /// The age after a link. Its two ways together took at least `round_trip` when that was measured last, and the way there may have been any part of
    /// it between `least` and all but `least`.
    #[must_use]
    pub fn after_link(self, round_trip: Span, least: Span) -> Age {
        let half = Span((round_trip.max(Span::ZERO).0 + 1) / 2);
        let within = (half - least).max(Span::ZERO);
        Age { measured: self.measured + half, within: self.within + within }
    }

    /// Whether a message of this age is late.
    pub fn judge(self, deadline: Span) -> Timeliness {
        if self.measured - self.within > deadline {
            Timeliness::Late
        } else if self.measured + self.within <= deadline {
            Timeliness::InTime
        } else {
            Timeliness::CannotBeJudged
        }
    }
}

#[cfg(test)]
mod tests;
