//! Whether contracts are kept across sites, as far as one site's configuration tells: the other brokers of the way are taken to be configured as
//! this one is.

use config::{Config, RouterAddress, SiteConfig, TopicFamily};
use contract::path::{Guard, Hop, Path, PathRefusal};
use contract::{Flow, LinkClass, Loss, Narrow, Span, TrafficClass};
use serde::Serialize;

/// The answer for what a configuration lets leave its site.
#[derive(Serialize)]
pub struct Crossing {
    /// Whether all of it is kept.
    pub kept: bool,
    /// The parts of the way, in their order.
    pub way: Vec<Part>,
    /// What they take together, at most.
    pub takes_ms: f64,
    /// By family of topics.
    pub topics: Vec<CrossingTopic>,
}

/// A part of the way.
#[derive(Serialize)]
pub struct Part {
    /// What it is.
    pub part: &'static str,
    /// The key that says how long it takes.
    pub key: String,
    /// That, at most.
    pub at_most_ms: f64,
}

/// The topics of one family.
#[derive(Serialize)]
pub struct CrossingTopic {
    /// Its filter.
    pub filter: String,
    /// `T`; `None`: there is none, as of what is published by hand.
    pub period_ms: Option<f64>,
    /// `D`; `None`: there is none.
    pub deadline_ms: Option<f64>,
    /// `L`.
    pub loss: String,
    /// `N` at the first broker, and at those that follow.
    pub retain: [u32; 2],
    /// What the deadline leaves over; `None`: there is none.
    pub spare_ms: Option<f64>,
    /// So many of its streams alone have room on a thin link, where something is promised of them and the link's bandwidth is stated.
    pub streams_at_most: Option<u64>,
    /// Whether the whole way keeps its contract.
    pub kept: bool,
    /// Why not, and what would do.
    pub reason: String,
}

/// How the hops are called in a refusal.
const HOPS: [&str; 3] = ["this site's broker", "the router", "the other site's broker"];

/// Where there is nothing to go by.
const LONELY: &str = "the only router is alone: what it misses while it is away is kept only as far as uplink.retain goes; give it a partner, or the sites another router";

/// Plans the way of every family of topics that may leave the site. `None`: the site is not joined to others.
pub fn crossing(config: &Config) -> Option<Crossing> {
    let site = config.site.as_ref()?;
    let way = way(config, site);
    let shared =
        |family: &&TopicFamily| site.share.iter().any(|share| share.common(&family.rule.filter).is_some());
    let topics: Vec<CrossingTopic> =
        config.topics.iter().filter(shared).map(|family| topic(config, site, family)).collect();
    let takes: f64 = way.iter().map(|part| part.at_most_ms).sum();
    Some(Crossing { kept: topics.iter().all(|topic| topic.kept), way, takes_ms: takes, topics })
}

fn way(config: &Config, site: &SiteConfig) -> Vec<Part> {
    let [near, far] = config.ways(site);
    let (response, edge) = ("network.response", "link.edge.broker_to_subscriber");
    let (class, beside) =
        (format!("link.{}.broker_to_subscriber", site.link), "the larger of the first and the last");
    let parts: [(&str, &str, Span); 9] = [
        ("publisher to its broker", "network.publisher_to_broker", config.delays.publisher_to_broker),
        (HOPS[0], response, config.delays.response),
        ("to the uplink beside it", beside, near),
        ("to the router", &class, far),
        (HOPS[1], response, config.delays.response),
        ("to the other site's uplink", &class, far),
        ("to the broker beside that", beside, near),
        (HOPS[2], response, config.delays.response),
        ("to its subscribers", edge, config.way(LinkClass::EDGE)),
    ];
    let part = |(part, key, span): (&'static str, &str, Span)| Part {
        part,
        key: key.to_owned(),
        at_most_ms: span.as_millis_f64(),
    };
    parts.into_iter().map(part).collect()
}

/// The same as hops. Where a site may have several routers, the one with the longest silence counts.
fn path(config: &Config, site: &SiteConfig, retain: [u32; 2]) -> Path {
    let [near, far] = config.ways(site);
    let pair = |failover| Guard::Pair { failover, broker_to_broker: config.delays.broker_to_broker };
    // What a service names is taken to be as this site is.
    let lonely = config.brokers.len() < 2;
    let listed = site.routers.iter().any(|router: &RouterAddress| router.places.len() < 2);
    let alone = if config.coordination.is_some() { lonely } else { listed };
    let router =
        if alone { Guard::Alone { reassigned: config.reassigned() } } else { pair(config.delays.failover) };
    let hop = |link, guard, retain| Hop {
        link,
        link_least: Span::ZERO,
        response: config.delays.response,
        guard,
        retain,
    };
    let first = hop(config.delays.publisher_to_broker, pair(config.delays.failover), retain[0]);
    // What a publisher itself sends again it keeps for a broker that is back; a site's uplink, for another one.
    let last =
        if lonely { Guard::Alone { reassigned: config.reassigned() } } else { pair(config.delays.failover) };
    let last = hop(far + near, last, retain[1]);
    Path {
        hops: vec![first, hop(near + far, router, retain[1]), last],
        to_subscriber: config.way(LinkClass::EDGE),
    }
}

fn topic(config: &Config, site: &SiteConfig, family: &TopicFamily) -> CrossingTopic {
    let contract = &family.rule.contract;
    let retain = [contract.retain, contract.retain.max(site.retain)];
    let path = path(config, site, retain);
    let refusal = path.plan(contract).err().map(|refusal| in_words(&refusal));
    let lonely = site.is_lonely() && contract.loss != Loss::Unbounded;
    let refusal = refusal.or_else(|| lonely.then(|| LONELY.to_owned()));
    let spare = contract.deadline - path.takes();
    let thin = site.thin.filter(|_| TrafficClass::promises(contract));
    // They are as old when they come to the link as the broker before it may make them.
    let age = config.delays.publisher_to_broker + config.delays.response + config.ways(site)[0];
    let [flow, _] = Flow::of_stream(contract, age);
    let room = thin.map(|thin| if contract.size == 0 { 0 } else { thin.holds(&flow) });
    let narrow = thin.and_then(|thin| match contract.size {
        0 => Some(Narrow::Size),
        _ => thin.carries(&flow.times(family.streams)).err(),
    });
    let refusal = refusal.or_else(|| narrow.map(|narrow| narrow.to_string()));
    CrossingTopic {
        filter: family.rule.filter.to_string(),
        period_ms: millis(contract.period),
        deadline_ms: millis(contract.deadline),
        loss: contract.loss.to_string(),
        retain,
        spare_ms: millis(contract.deadline).map(|_| spare.as_millis_f64()),
        streams_at_most: room,
        kept: refusal.is_none(),
        reason: refusal.unwrap_or_default(),
    }
}

fn millis(span: Span) -> Option<f64> {
    (!span.is_forever()).then(|| span.as_millis_f64())
}

fn in_words(refusal: &PathRefusal) -> String {
    let name = |hop: usize| HOPS.get(hop).copied().unwrap_or_default();
    match *refusal {
        PathRefusal::TooLong { takes, slowest } => format!(
            "the way takes up to {takes}, most of it with {} and the links to it: relax the deadline to that, or say what links and brokers really take",
            name(slowest)
        ),
        PathRefusal::TooThin { hop: 0, short, retain } => format!(
            "{}: what is sent again after its death comes {short} too late; retain = {retain} at least",
            name(0)
        ),
        PathRefusal::TooThin { hop, short, retain } => format!(
            "{}: what is sent again after its death comes {short} too late; uplink.retain = {retain} at least",
            name(hop)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(more: &str) -> Crossing {
        let text = "[brokers.a]\nclients = \"127.0.0.1:7571\"\npair = \"127.0.0.1:7573\"\nstart_as = \"primary\"\n\
                    [brokers.b]\nclients = \"127.0.0.1:7572\"\npair = \"127.0.0.1:7574\"\nstart_as = \"backup\"\n\
                    [site]\nname = \"north\"\nshare = [\"plant/#\"]\n[routers.r1]\naddress = \"r:7571\"\n[routers.r2]\naddress = \"q:7571\"\n"
            .to_owned()
            + more;
        crossing(&config::testing::load("crossing", &text)).unwrap()
    }

    #[test]
    fn parts_add_up_to_what_the_path_takes() {
        let answer = answer(
            "[[topic]]\nfilter = \"plant/a\"\nperiod = \"1s\"\ndeadline = \"60ms\"\nloss = \"unbounded\"\n",
        );
        assert!((answer.takes_ms - 59.0).abs() < 1e-9, "{}", answer.takes_ms);
        assert!((answer.topics[0].spare_ms.unwrap() - 1.0).abs() < 1e-9 && answer.kept);
    }

    #[test]
    fn a_thin_link_has_room_for_so_many_streams_that_say_how_long_they_are() {
        let topic = |size: &str| {
            format!(
                "[[topic]]\nfilter = \"plant/a\"\nperiod = \"100ms\"\ndeadline = \"400ms\"\nloss = \"unbounded\"\n{size}\
                 [uplink]\nlink = \"thin\"\nbandwidth = \"1Mbit/s\"\n[link.thin]\nbroker_to_subscriber = \"150ms\"\nconfirmation = \"400ms\"\n"
            )
        };
        let sized = answer(&topic("size = 100\n"));
        // 9375 bytes may wait, 5602 of them best effort and polls; a message has 274, and those of 7 ms come together.
        assert_eq!(
            (sized.topics[0].streams_at_most, sized.kept),
            (Some(12), true),
            "{}",
            sized.topics[0].reason
        );
        let unsized_one = answer(&topic(""));
        assert_eq!((unsized_one.topics[0].streams_at_most, unsized_one.kept), (Some(0), false));
        assert!(unsized_one.topics[0].reason.contains("--size"));
        assert_eq!(answer("").topics.len(), 0);
    }

    #[test]
    fn one_router_alone_keeps_no_loss_number() {
        let answer = |routers: &str, loss: &str| {
            let text = format!(
                "[brokers.a]\nclients = \"127.0.0.1:7571\"\npair = \"127.0.0.1:7573\"\nstart_as = \"primary\"\n\
                 [site]\nname = \"north\"\n[uplink]\nretain = 90\n[routers.r1]\naddress = \"r:7571\"\n{routers}\
                 [[topic]]\nfilter = \"plant/a\"\nperiod = \"100ms\"\nretain = 4\nloss = {loss}\n"
            );
            crossing(&config::testing::load("lonely", &text)).unwrap().kept
        };
        assert!(!answer("", "0"));
        assert!(answer("", "\"unbounded\""));
        assert!(answer("partner = \"r:7572\"\n", "0"));
        assert!(answer("[routers.r2]\naddress = \"q:7571\"\n", "0"));
    }

    /// Topics of a router that a service names move when its session has ended.
    #[test]
    fn a_site_of_one_broker_takes_named_routers_to_be_alone() {
        let answer = |retain: u32| {
            let text = format!(
                "[brokers.a]\nclients = \"127.0.0.1:7571\"\npair = \"127.0.0.1:7573\"\nstart_as = \"primary\"\n\
                 [site]\nname = \"north\"\n[uplink]\nretain = {retain}\n[coordination]\nservers = [\"zk:2181\"]\nsession = \"3s\"\n\
                 [[topic]]\nfilter = \"plant/a\"\nperiod = \"100ms\"\nretain = 4\n"
            );
            crossing(&config::testing::load("named", &text)).unwrap()
        };
        // 4 s until they have moved, and what is under way.
        let needed = answer(0).topics[0].reason.split("uplink.retain = ").nth(1).unwrap().to_owned();
        let needed: u32 = needed.split(' ').next().unwrap().parse().unwrap();
        assert!((40..44).contains(&needed), "{needed}");
        assert!(answer(needed).kept && !answer(needed - 1).kept);
    }

    #[test]
    fn what_stays_at_the_site_is_not_asked_for() {
        let answer = answer("[[topic]]\nfilter = \"office/a\"\nperiod = \"10ms\"\n");
        assert!(answer.topics.is_empty());
    }

    #[test]
    fn what_would_do_does() {
        let topic = |deadline: &str, retain: u64| {
            format!(
                "[[topic]]\nfilter = \"plant/a\"\nperiod = \"100ms\"\ndeadline = \"{deadline}\"\nretain = 2\n[uplink]\nretain = {retain}\n"
            )
        };
        let short = answer(&topic("58ms", 20));
        assert!(short.topics[0].reason.contains("the way takes up to 59ms"), "{}", short.topics[0].reason);
        // A router that is alone: 1.5 s, and what is under way.
        let thin = answer(&topic("100ms", 0));
        let needed = thin.topics[0].reason.split("uplink.retain = ").nth(1).unwrap();
        let needed: u64 = needed.split(' ').next().unwrap().parse().unwrap();
        assert!((16..18).contains(&needed), "{needed}");
        assert!(answer(&topic("100ms", needed)).kept);
        assert!(!answer(&topic("100ms", needed - 1)).kept);
    }
}
