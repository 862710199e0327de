//! Sites and routers under anything that may happen to one of them at a time: processes that die and come back, stand still, and links that
//! are cut for a while.

use super::{START, Who, World};
use contract::{Contract, Span, ThinLink};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Pairs: three sites, and the routers behind them.
const SITES: [&str; 3] = ["north", "south", "east"];
const ROUTERS: usize = 2;
/// So long everything may take to be whole again after a fault, the fault included.
const CALM: Span = Span::secs(6);

/// A topic, its publication, and the number of the next message.
type Published = (String, u32, u64);

/// Three sites with routers behind them, and what each publishes and subscribes.
pub struct Trial {
    world: World,
    random: fastrand::Rng,
    /// By site: its publisher, and its topics with the next number of each.
    publishers: Vec<(usize, Vec<Published>)>,
    subscribers: Vec<usize>,
    /// What each site subscribes.
    filters: Vec<&'static str>,
    /// Whether links to routers are thin.
    thin: bool,
    /// Whether some topics go by both routers.
    twice: bool,
    story: String,
}

/// One whose publishers retain enough for all that may happen; and one whose do not, so that copies are needed.
fn contracts() -> [Contract; 2] {
    let contract = Contract::every(Span::millis(100)).deadline(Span::secs(2)).size(8);
    [contract.retain(8), contract.retain(1)]
}

/// What goes by both routers, where anything does.
const TWICE: [&str; 2] = ["plant/a/#", "office/#"];

/// A link to routers that has room for all of it, where best effort has connections of its own.
const THIN: ThinLink = ThinLink { bandwidth: 1_250_000, bulk: 250_000, queueing: Span::millis(40) };

/// Messages that uplinks retain: as many as come in a failover, the way to a router and back, and the time until a poll is answered.
const RETAIN: u32 = 12;
/// Where a router that dies whole, and is back before its session ends, keeps its topics.
const RETAIN_COORDINATED: u32 = 25;

impl Trial {
    pub fn new(seed: u64, coordinated: bool) -> Trial {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::of_pairs(SITES.len() + ROUTERS, |_| {}, None);
        world.wide = Span::millis(random.i64(1..40));
        let thin = random.bool().then_some(THIN);
        let twice = thin.is_none() && !coordinated && random.bool();
        let routers: Vec<usize> = (SITES.len()..SITES.len() + ROUTERS).collect();
        // One router may be much nearer than the other.
        if random.bool() {
            world.ways = routers.iter().map(|router| (*router, Span::millis(random.i64(1..40)))).collect();
        }
        if coordinated {
            world.add_service(&routers);
        }
        for (pair, site) in SITES.iter().enumerate() {
            if coordinated {
                world.add_coordinated_site(site, pair, |told| {
                    (told.retain, told.thin) = (RETAIN_COORDINATED, thin);
                });
            } else {
                world.add_site(site, pair, &routers, |told| {
                    (told.retain, told.thin) = (RETAIN, thin);
                    told.twice = TWICE.map(|filter| (filter.parse().unwrap(), twice)).to_vec();
                });
            }
        }
        world.run_for(Span::secs(1));
        let publishers: Vec<usize> =
            (0..SITES.len()).map(|pair| world.add_client_at(pair, "plc", 7 + pair as u64)).collect();
        let subscribers: Vec<usize> =
            (0..SITES.len()).map(|pair| world.add_client_at(pair, "desk", 7)).collect();
        world.run_for(Span::millis(200));
        let filters: Vec<&str> = vec!["plant/#", "+/b/#", "#"];
        subscribers.iter().zip(&filters).for_each(|(client, filter)| _ = world.subscribe(*client, filter));
        let mut publishing = Vec::new();
        for (pair, client) in publishers.into_iter().enumerate() {
            let [kept, copied] = contracts();
            // It is not promised where the link is thin.
            let bulk = kept.size(0);
            let named = [
                ("plant/a", kept),
                ("plant/b/x", copied),
                ("office/b/y", kept),
                ("office/c", copied),
                ("plant/b/z", bulk),
            ];
            let topics = named.map(|(topic, contract)| {
                let topic = format!("{topic}/{}", SITES[pair]);
                let number = world.advertise(client, &topic, contract);
                (topic, number, 0)
            });
            publishing.push((client, topics.to_vec()));
        }
        world.run_for(Span::secs(1));
        Trial {
            world,
            random,
            publishers: publishing,
            subscribers,
            filters,
            thin: thin.is_some(),
            twice,
            story: String::new(),
        }
    }

    /// Publishes everywhere for so long.
    pub fn publish_for(&mut self, span: Span) {
        let end = self.world.now + span;
        while self.world.now < end {
            for (client, topics) in &mut self.publishers {
                for (_, publication, next) in topics {
                    assert_eq!(self.world.publish(*client, *publication, &next.to_le_bytes()), Ok(*next));
                    *next += 1;
                }
            }
            self.world.run_for(Span::millis(100));
        }
    }

    fn tell(&mut self, what: &str) {
        let at = self.world.now.since(START);
        writeln!(self.story, "{at}: {what}").unwrap();
    }

    /// One of the things that may happen, and everything is whole again.
    pub fn fault(&mut self) {
        let brokers = 2 * (SITES.len() + ROUTERS);
        let broker = self.random.usize(0..brokers);
        let is_site = broker < 2 * SITES.len();
        let lasts = Span::millis(self.random.i64(1..800));
        let (uplink, router) =
            (self.random.usize(0..2 * SITES.len()), self.random.usize(2 * SITES.len()..brokers));
        let whole = self.random.bool();
        let before = self.world.now;
        self.world.nodes_fall = self.random.bool();
        match self.random.u8(0..10) {
            0..=2 => {
                self.tell(&format!("broker {broker} dies, for {lasts}; its uplink too: {whole}"));
                if is_site && whole {
                    self.world.kill_uplink(broker);
                }
                self.world.kill(broker);
                self.publish_for(lasts);
                self.world.start(broker);
                if is_site && whole {
                    self.world.start_uplink(broker);
                }
            }
            3 => {
                self.tell(&format!("uplink {uplink} dies, for {lasts}"));
                self.world.kill_uplink(uplink);
                self.publish_for(lasts);
                self.world.start_uplink(uplink);
            }
            4 => {
                let lasts = Span(lasts.0 / 2);
                self.tell(&format!("uplink {uplink} stands still for {lasts}"));
                self.world.pause(Who::Uplink(uplink));
                self.publish_for(lasts);
                self.world.resume(Who::Uplink(uplink));
            }
            6 => {
                self.lose_host(uplink, lasts);
            }
            8 => self.lose_hosts_in_turn(uplink, lasts),
            7 => {
                let pair = 2 * self.random.usize(SITES.len()..SITES.len() + ROUTERS);
                self.tell(&format!("router {pair} dies whole, for {lasts}"));
                (pair..pair + 2).for_each(|broker| self.world.kill(broker));
                self.publish_for(lasts);
                (pair..pair + 2).for_each(|broker| self.world.start(broker));
            }
            5 => {
                self.tell(&format!("broker {broker} stands still for {lasts}"));
                self.world.pause(Who::Broker(broker));
                self.publish_for(lasts);
                self.world.resume(Who::Broker(broker));
            }
            _ => {
                let lasts = Span(lasts.0 / 2);
                self.tell(&format!("uplink {uplink} and broker {router} are apart for {lasts}"));
                self.world.cut_uplink(uplink, router, true);
                self.publish_for(lasts);
                self.world.cut_uplink(uplink, router, false);
            }
        }
        let left = CALM - self.world.now.since(before);
        self.publish_for(left);
    }

    /// A site's host loses its network and dies: what its uplink has sent does not arrive, and nobody has been told.
    fn lose_host(&mut self, uplink: usize, lasts: Span) {
        let brokers = 2 * (SITES.len() + ROUTERS);
        let alone = Span(lasts.0 / 4);
        self.tell(&format!("uplink {uplink} is cut off for {alone}, and dies with its broker for {lasts}"));
        let routers = 2 * SITES.len()..brokers;
        routers.clone().for_each(|router| self.world.cut_uplink(uplink, router, true));
        self.publish_for(alone);
        self.world.kill_uplink(uplink);
        self.world.kill(uplink);
        routers.for_each(|router| self.world.cut_uplink(uplink, router, false));
        self.publish_for(lasts);
        self.world.start(uplink);
        self.world.start_uplink(uplink);
    }

    /// A site's host dies; when it is back, and has just said that it protects again, the other one dies.
    fn lose_hosts_in_turn(&mut self, first: usize, lasts: Span) {
        let soon = Span::millis(self.random.i64(0..150));
        self.tell(&format!("host {first} dies, for {lasts}, and {soon} after it is back the other one"));
        for host in [first, first ^ 1] {
            self.world.kill_uplink(host);
            self.world.kill(host);
            self.publish_for(lasts);
            self.world.start(host);
            self.world.start_uplink(host);
            while !self.world.broker(host ^ 1).is_protected() {
                self.publish_for(Span::millis(100));
            }
            self.world.run_for(soon);
        }
    }

    /// What each site should have had: what its filter means, of every site.
    pub fn check(&mut self) -> Result<String, String> {
        self.world.run_for(Span::secs(3));
        let mut wrong = String::new();
        let mut published: BTreeMap<String, u64> = BTreeMap::new();
        for (_, topics) in &self.publishers {
            published.extend(topics.iter().map(|(topic, _, next)| (topic.clone(), *next)));
        }
        for (site, client) in self.subscribers.clone().into_iter().enumerate() {
            let filter: contract::TopicFilter = self.filters[site].parse().unwrap();
            let mut came: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
            for (topic, seq, ..) in &self.world.seen(client).messages {
                if !came.entry(topic.clone()).or_default().insert(*seq) {
                    writeln!(wrong, "{} got {topic} #{seq} twice", SITES[site]).unwrap();
                }
            }
            for (topic, count) in published.iter().filter(|(topic, _)| filter.matches(topic)) {
                let had = came.remove(topic).unwrap_or_default();
                let missing: Vec<u64> = (0..*count).filter(|seq| !had.contains(seq)).collect();
                // What is not promised is not copied, so a crash may lose some; most of it comes.
                let some = self.thin && topic.contains("b/z/") && had.len() as u64 * 4 > *count * 3;
                if !missing.is_empty() && !some {
                    writeln!(wrong, "{} lacks of {topic}: {missing:?}", SITES[site]).unwrap();
                }
            }
            came.keys().for_each(|topic| writeln!(wrong, "{} did not ask for {topic}", SITES[site]).unwrap());
        }
        wrong += &self.check_views();
        let told: Vec<_> = self.world.uplinks.iter_mut().map(|uplink| uplink.reporter().0.clone()).collect();
        if wrong.is_empty() {
            Ok(self.story.clone())
        } else {
            Err(format!("{wrong}\n{}\n{told:#?}", self.story))
        }
    }

    /// One uplink of each site carries, reaches both routers, and carries exactly what others want.
    fn check_views(&mut self) -> String {
        let mut wrong = String::new();
        let views: Vec<_> = self.world.uplinks.iter().map(engine::Uplink::view).collect();
        for (site, views) in views.chunks(2).enumerate() {
            let carrying: Vec<_> = views.iter().filter(|view| view.carries).collect();
            let [view] = carrying[..] else {
                writeln!(wrong, "{} uplinks of {} carry", carrying.len(), SITES[site]).unwrap();
                continue;
            };
            let is_bulk = |(_, topic, _): &(_, String, _)| topic.contains("b/z/");
            let kept = view.refused.is_empty() && view.unpromised.iter().all(is_bulk);
            if !view.routers.iter().all(|router| router.reached) || !kept {
                writeln!(wrong, "{}: {view:#?}", SITES[site]).unwrap();
            }
            let others = (0..SITES.len()).filter(|other| *other != site);
            let filters: Vec<contract::TopicFilter> =
                others.map(|other| self.filters[other].parse().unwrap()).collect();
            let topics = self.publishers[site].1.iter();
            let wanted = topics.filter(|(topic, ..)| filters.iter().any(|filter| filter.matches(topic)));
            let twice: Vec<contract::TopicFilter> =
                TWICE.iter().map(|filter| filter.parse().unwrap()).collect();
            let by_both = |topic: &str| self.twice && twice.iter().any(|filter| filter.matches(topic));
            let expected: usize = wanted.map(|(topic, ..)| 1 + usize::from(by_both(topic))).sum();
            let outward: usize = view.routers.iter().map(|router| router.outward.0).sum();
            if outward != expected {
                writeln!(wrong, "{outward} streams leave {}, and {expected} should", SITES[site]).unwrap();
            }
        }
        wrong
    }
}

/// The same without any fault, for a moment.
pub fn run_calmly(seed: u64) -> Result<String, String> {
    let mut trial = Trial::new(seed, false);
    trial.publish_for(Span::millis(300));
    trial.check()
}

/// Runs one trial with routers that a file lists.
pub fn run_listed(seed: u64) -> Result<String, String> {
    run(seed, false)
}

/// Runs one trial. `Ok`: what happened.
pub fn run(seed: u64, coordinated: bool) -> Result<String, String> {
    let mut trial = Trial::new(seed, coordinated);
    trial.publish_for(Span::secs(1));
    (0..4).for_each(|_| trial.fault());
    trial.check()
}
