//! How a site is joined to others.

use serde::{Deserialize, Serialize};

/// An uplink as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SiteReport {
    /// The site.
    pub site: String,
    /// Whether this uplink carries; else that beside the other broker does, or none.
    pub carries: bool,
    /// Payload bytes of what was published at the site since its broker began, backlog and what came from other sites aside; `None`: this is not
    /// known just now.
    #[serde(default)]
    pub published_bytes: Option<u64>,
    /// Filters that are subscribed here.
    pub wanted_here: usize,
    /// The routers.
    pub routers: Vec<RouterReport>,
    /// Streams that are not carried.
    pub refused: Vec<RefusedStream>,
    /// Streams that cross without a promise, since the whole way does not keep their contracts.
    pub unpromised: Vec<RefusedStream>,
    /// Filters that are wanted on the other side, and could not be subscribed.
    pub unwished: Vec<UnwishedFilter>,
    /// Topics that are to go by two routers at once, and go by one.
    #[serde(default)]
    pub by_one_router: Vec<String>,
    /// How coordination is, where a service names the routers.
    pub coordination: Option<CoordinationReport>,
    /// How the link to routers is used by what is promised, where its bandwidth is stated.
    #[serde(default)]
    pub link: Option<LinkReport>,
    /// What is kept, and what was missed, where the site has a journal.
    #[serde(default)]
    pub keeper: Option<KeeperReport>,
}

/// What the keeper beside a broker keeps, and what its site missed of others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeeperReport {
    /// Whether it asks for what was missed: that beside the broker that reigns does.
    pub asks: bool,
    /// Filters below `$backlog/` that are subscribed at the site.
    #[serde(default)]
    pub wanted: usize,
    /// What is wrong with its journal; empty: nothing.
    pub trouble: String,
    /// Bytes of the journal's files.
    pub bytes: u64,
    /// Bytes that they may have.
    pub bytes_max: u64,
    /// Messages that were kept since it began.
    pub kept: u64,
    /// Messages that should have been, and were not.
    pub not_kept: u64,
    /// Messages that were given up before their time, since there was no room.
    pub given_up: u64,
    /// What was missed of each site.
    pub missed: Vec<MissedReport>,
    /// What was given to each site that missed it.
    pub given: Vec<GivenReport>,
}

/// What was missed of a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MissedReport {
    /// The site.
    pub site: String,
    /// Whether its keepers are heard.
    pub heard: bool,
    /// Whether something is being asked for.
    pub asks: bool,
    /// Messages that have not been looked at yet, at most; those that came live are among them.
    pub left: u64,
    /// Messages that came as backlog.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Messages that were missed, and are there no more.
    pub gone: u64,
}

/// What was given to a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GivenReport {
    /// The site.
    pub site: String,
    /// Messages.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

/// A link of stated bandwidth, and how it is used by what is promised.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// Bytes in a second that it carries, each way.
    pub bandwidth: u64,
    /// Those that best effort may take.
    pub bulk: u64,
    /// How long messages may wait for each other there, in nanoseconds.
    pub queueing_ns: i64,
    /// What leaves.
    pub outward: LinkUse,
    /// What comes.
    pub inward: LinkUse,
    /// Why nothing that comes is promised; empty: it is.
    pub trouble: String,
}

/// One direction of such a link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkUse {
    /// Bytes in a second that are promised to be carried.
    pub promised: u64,
    /// How long the last waits if all come at once, in nanoseconds.
    pub waits_ns: i64,
}

/// How a site is coordinated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoordinationReport {
    /// Whether the service knows the site by its name.
    pub holds: bool,
    /// What is wrong; empty: nothing.
    pub trouble: String,
    /// Topics that are published here, and may leave.
    pub offered: usize,
    /// Topics of other sites that are asked for.
    pub asked: usize,
    /// Topics that have a router.
    pub routed: usize,
}

/// A router as it is seen from the site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouterReport {
    /// Its name.
    pub name: String,
    /// Whether it is reached.
    pub reached: bool,
    /// Why not, as far as that is known.
    pub why: String,
    /// By how many nanoseconds our clock is ahead of its; negative if it is behind.
    pub clock_ahead_ns: Option<i64>,
    /// How exactly that is known: half of the quickest way there and back.
    pub clock_within_ns: Option<i64>,
    /// How long the way there is reckoned to be, in nanoseconds: deadlines are planned with it.
    pub reckoned_ns: i64,
    /// Filters that other sites subscribe.
    pub wanted_elsewhere: usize,
    /// What goes there.
    pub outward: FlowReport,
    /// What comes from there.
    pub inward: FlowReport,
}

/// Messages in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowReport {
    /// Streams.
    pub streams: usize,
    /// Messages since the uplink began.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Messages that were not handed on, since too much waited on the connection.
    pub dropped: u64,
    /// Messages that came once more, after another router had brought them.
    #[serde(default)]
    pub repeated: u64,
}

/// A filter that is wanted on the other side, and could not be subscribed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnwishedFilter {
    /// The router that refuses it; `None`: the site's own broker.
    pub router: Option<String>,
    /// The filter.
    pub filter: String,
    /// Why.
    pub why: String,
}

/// A stream that is not carried, or without a promise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusedStream {
    /// The router at which that is so; `None`: the site's own broker.
    pub router: Option<String>,
    /// The topic, as it is called there.
    pub topic: String,
    /// Why.
    pub why: String,
}
