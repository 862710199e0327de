//! Two sites and two routers that a service names. What the one site publishes the other wants.

use super::coordination::TIME_OUT;
use super::{Who, World};
use contract::{Contract, Span};
use std::collections::BTreeSet;

/// Pairs: two sites, and the routers behind them.
pub const NORTH: usize = 0;
pub const SOUTH: usize = 1;
pub const ROUTERS: [usize; 2] = [2, 3];
pub const TOPICS: usize = 8;

pub fn contract() -> Contract {
    Contract::every(Span::millis(50)).deadline(Span::secs(1)).retain(3)
}

/// Two sites and two routers. What the one publishes the other wants.
pub struct Sites {
    pub world: World,
    publisher: usize,
    pub subscriber: usize,
    publications: Vec<u32>,
    pub published: u64,
}

impl Sites {
    pub fn new() -> Sites {
        let mut world = World::of_pairs(4, |_| {}, None);
        world.add_service(&ROUTERS);
        for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
            world.add_coordinated_site(site, pair, |told| told.retain = 30);
        }
        Sites::of(world)
    }

    /// The same where files list the routers, and the site that wants something only the last of them.
    fn listed() -> Sites {
        let mut world = World::of_pairs(4, |_| {}, None);
        world.add_site("north", NORTH, &ROUTERS, |told| told.retain = 30);
        world.add_site("south", SOUTH, &ROUTERS[1..], |told| told.retain = 30);
        Sites::of(world)
    }

    fn of(mut world: World) -> Sites {
        world.run_for(Span::secs(1));
        let publisher = world.add_client_at(NORTH, "plc", 7);
        let subscriber = world.add_client_at(SOUTH, "desk", 7);
        world.run_for(Span::millis(200));
        world.subscribe(subscriber, "plant/#");
        let publications = (0..TOPICS)
            .map(|topic| world.advertise(publisher, &format!("plant/{topic}"), contract()))
            .collect();
        world.run_for(Span::secs(2));
        Sites { world, publisher, subscriber, publications, published: 0 }
    }

    pub fn publish_for(&mut self, span: Span) {
        let end = self.world.now + span;
        while self.world.now < end {
            for publication in &self.publications {
                self.world.publish(self.publisher, *publication, b"1").unwrap();
            }
            self.published += 1;
            self.world.run_for(Span::millis(50));
        }
    }

    /// Everything has come, and once.
    pub fn check(&mut self) -> Result<(), String> {
        self.world.run_for(Span::secs(1));
        for topic in 0..TOPICS {
            let name = format!("plant/{topic}");
            let seen = self.world.seen(self.subscriber).messages.iter();
            let came: Vec<u64> = seen.filter(|message| message.0 == name).map(|message| message.1).collect();
            let once: BTreeSet<u64> = came.iter().copied().collect();
            let missing: Vec<u64> = (0..self.published).filter(|seq| !once.contains(seq)).collect();
            if once.len() != came.len() || !missing.is_empty() {
                return Err(format!(
                    "{name} lacks {missing:?} of {}, or came twice: {came:?}",
                    self.published
                ));
            }
        }
        Ok(())
    }

    /// What the carrying uplink of a site shows of its routers: names and streams out.
    pub fn routers(&self, pair: usize) -> Vec<(String, usize)> {
        let views = [2 * pair, 2 * pair + 1].map(|uplink| self.world.uplinks[uplink].view());
        let Some(view) = views.into_iter().find(|view| view.carries) else { return Vec::new() };
        let routers = view.routers.into_iter().filter(|router| router.reached);
        let mut routers: Vec<_> = routers.map(|router| (router.name, router.outward.0)).collect();
        routers.sort();
        routers
    }
}

/// A site's host dies, then the other one's, then a router's primary; nobody else hears of it, also not when the sessions of the dead end.
pub fn fail_over() -> Result<(), String> {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(1));
    let before = [NORTH, SOUTH].map(|site| sites.routers(site));
    for broker in [2 * NORTH, 2 * SOUTH, 2 * ROUTERS[0]] {
        let uplink = (broker < 2 * ROUTERS[0]).then_some(broker);
        uplink.into_iter().for_each(|uplink| sites.world.kill_uplink(uplink));
        sites.world.kill(broker);
        // What is known of a dead one goes on in the one that stood by; afterwards nothing changes any more.
        sites.publish_for(Span::millis(500));
        for _ in 0..2 * TIME_OUT.0 / 100_000_000 {
            sites.publish_for(Span::millis(100));
            let now = [NORTH, SOUTH].map(|site| sites.routers(site));
            if now != before {
                return Err(format!("after the death of {broker}: {now:?}, and before {before:?}"));
            }
        }
        sites.world.start(broker);
        uplink.into_iter().for_each(|uplink| sites.world.start_uplink(uplink));
        sites.publish_for(Span::secs(2));
    }
    sites.check()
}

/// A site's hosts die in turn, several times, where one router is much further away than the other.
pub fn fail_over_beside_far_routers(named: bool) -> Result<(), String> {
    let mut sites = if named { Sites::new() } else { Sites::listed() };
    sites.world.ways = ROUTERS.into_iter().zip([Span::millis(1), Span::millis(60)]).collect();
    sites.publish_for(Span::secs(1));
    for host in [2 * NORTH, 2 * NORTH + 1, 2 * NORTH] {
        sites.world.kill_uplink(host);
        sites.world.kill(host);
        sites.publish_for(Span::secs(1));
        sites.world.start(host);
        sites.world.start_uplink(host);
        sites.publish_for(Span::secs(3));
    }
    sites.check()
}

/// A screen elsewhere wants a message a second of each topic, and nobody wants all of them; hosts of the publishing site die in turn, and a router both.
pub fn want_less_often(named: bool) -> Result<(), String> {
    let mut sites = if named { Sites::new() } else { Sites::listed() };
    let screen = sites.world.add_client_at(SOUTH, "screen", 7);
    sites.publish_for(Span::secs(1));
    sites.world.unsubscribe(sites.subscriber, 0);
    sites.world.subscribe(screen, "$every/1s/plant/#");
    // By two filters it comes once.
    sites.world.subscribe(screen, "$every/1s/plant/0");
    sites.publish_for(Span::secs(2));
    let (before, all_before) = (sites.came().0, sites.world.seen(sites.subscriber).messages.len());
    let (mut seconds, mut failovers) = (2, 0);
    let mut go_on = |sites: &mut Sites, span: u64| {
        sites.publish_for(Span::secs(span as i64));
        seconds += span;
    };
    go_on(&mut sites, 10);
    for host in [2 * NORTH, 2 * NORTH + 1, 2 * ROUTERS[1]] {
        let uplink = (host < 2 * ROUTERS[0]).then_some(host);
        uplink.into_iter().for_each(|uplink| sites.world.kill_uplink(uplink));
        sites.world.kill(host);
        go_on(&mut sites, 5);
        sites.world.start(host);
        uplink.into_iter().for_each(|uplink| sites.world.start_uplink(uplink));
        go_on(&mut sites, 5);
        failovers += 1;
    }
    let (after, all_after) = (sites.came().0, sites.world.seen(sites.subscriber).messages.len());
    let most = (seconds + 1 + failovers) * TOPICS as u64;
    if after - before > most || all_after > all_before {
        return Err(format!("{} came, of {most} that may", after - before));
    }
    for topic in 0..TOPICS {
        let name = format!("$every/1s/plant/{topic}");
        let seen = sites.world.seen(screen).messages.iter();
        let came: Vec<u64> = seen.filter(|message| message.0 == name).map(|message| message.1).collect();
        // A failover begins to number anew, and may leave out two seconds.
        let lives = came.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as u64;
        let enough =
            came.len() as u64 >= seconds - 2 * failovers - 1 && came.len() as u64 <= seconds + 1 + failovers;
        if !enough || lives > failovers {
            return Err(format!("{name} in {seconds} s: {came:?}"));
        }
    }
    let told = &sites.world.seen(screen).shortfalls;
    if told.is_empty() { Ok(()) } else { Err(format!("what was left out is called lost: {told:?}")) }
}

/// Every topic goes by both of two routers, of which one is much further away.
fn by_two_routers() -> Sites {
    let mut world = World::of_pairs(4, |_| {}, None);
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        world.add_site(site, pair, &ROUTERS, |told| told.twice = vec![("plant/#".parse().unwrap(), true)]);
    }
    world.ways = ROUTERS.into_iter().zip([Span::millis(1), Span::millis(20)]).collect();
    Sites::of(world)
}

impl Sites {
    /// What routers have brought to the receiving site first, and again.
    fn came(&self) -> (u64, u64) {
        let views = [0, 1].map(|uplink| self.world.uplinks[2 * SOUTH + uplink].view());
        let came = views.iter().flat_map(|view| &view.routers).map(|router| router.inward.1);
        came.fold((0, 0), |(first, again), came| (first + came.messages, again + came.repeated))
    }
}

/// The site that receives is cut off from one router after the other, and nobody is told. What is retained covers the time in which that is noticed.
pub fn cut_off_the_receiver() -> Result<(), String> {
    let mut world = World::of_pairs(4, |_| {}, None);
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        world.add_site(site, pair, &ROUTERS, |told| told.retain = 40);
    }
    let mut sites = Sites::of(world);
    sites.publish_for(Span::secs(1));
    for router in ROUTERS {
        let cut = |sites: &mut Sites, cut: bool| {
            for (uplink, broker) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                sites.world.cut_uplink(2 * SOUTH + uplink, 2 * router + broker, cut);
            }
        };
        cut(&mut sites, true);
        sites.publish_for(Span::secs(2));
        let carries = sites.routers(NORTH).into_iter().find(|(name, _)| *name == format!("r{router}"));
        if carries.is_some_and(|(_, streams)| streams > 0) {
            return Err(format!("streams still go by r{router}"));
        }
        sites.publish_for(Span::secs(3));
        cut(&mut sites, false);
        sites.publish_for(Span::secs(4));
    }
    let half = sites.routers(NORTH).iter().all(|(_, streams)| *streams > 0);
    if half { sites.check() } else { Err(format!("streams have not come back: {:?}", sites.routers(NORTH))) }
}

/// Each of two routers hangs for a while, and dies then, and comes back.
pub fn lose_each_of_two_routers() -> Result<(), String> {
    let mut sites = by_two_routers();
    sites.publish_for(Span::secs(2));
    for router in ROUTERS {
        let hosts = [2 * router, 2 * router + 1];
        hosts.into_iter().for_each(|broker| sites.world.pause(Who::Broker(broker)));
        sites.publish_for(Span::secs(3));
        hosts.into_iter().for_each(|broker| sites.world.resume(Who::Broker(broker)));
        sites.publish_for(Span::secs(4));
        hosts.into_iter().for_each(|broker| sites.world.kill(broker));
        sites.publish_for(Span::secs(3));
        hosts.into_iter().for_each(|broker| sites.world.start(broker));
        sites.publish_for(Span::secs(4));
    }
    let latest = sites.world.seen(sites.subscriber).messages.iter().map(|message| message.2).max();
    if latest > Some(Span::millis(60)) {
        return Err(format!("a message came {latest:?} after it was published"));
    }
    sites.check()
}

/// Publishers that say one thing and end, and such that begin new lives, while the slower router still brings what was before.
pub fn live_shortly() -> Result<(), String> {
    let mut sites = by_two_routers();
    sites.publish_for(Span::millis(500));
    let (before, mut published) = (sites.came().0, 0);
    for life in 0..30 {
        let once = sites.world.add_client_at(NORTH, &format!("once{life}"), 7);
        let again = sites.world.add_client_at(NORTH, "again", 7 + life);
        sites.world.run_for(Span::millis(5));
        for client in [once, again] {
            let topic = if client == once { format!("plant/once/{life}") } else { "plant/again".to_owned() };
            let publication = sites.world.advertise(client, &topic, contract());
            sites.world.run_for(Span::millis(2));
            (0..3).for_each(|_| _ = sites.world.publish(client, publication, b"1").unwrap());
            published += 3;
            if client == once {
                sites.world.withdraw(client, publication);
            }
        }
        sites.world.run_for(Span::millis(life as i64 % 7 * 10));
    }
    sites.world.run_for(Span::secs(1));
    let seen = sites.world.seen(sites.subscriber).messages.iter();
    let came = seen.filter(|message| message.0.contains("once") || message.0.contains("again")).count();
    let first = sites.came().0 - before;
    if (came, first) != (published, published as u64) {
        return Err(format!("{first} were published at home, and {came} came, of {published}"));
    }
    sites.check()
}

/// A router dies for good, and its topics go to the other when its session has ended; what is retained does not cover all of that here.
pub fn lose_a_router() -> Result<(), String> {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(1));
    for broker in [2 * ROUTERS[0], 2 * ROUTERS[0] + 1] {
        sites.world.kill(broker);
    }
    sites.publish_for(TIME_OUT + Span::secs(1));
    let routers = sites.routers(NORTH);
    if routers != [("r3".to_owned(), TOPICS)] {
        return Err(format!("its topics have not moved: {routers:?}"));
    }
    sites.publish_for(Span::secs(2));
    sites.world.run_for(Span::secs(1));
    let came = sites.world.seen(sites.subscriber).messages.len();
    // 30 of each are retained, and 40 to 60 are published until the topics have moved.
    let lost = sites.published as usize * TOPICS - came;
    if lost > TOPICS / 2 * 30 { Err(format!("{lost} are lost")) } else { Ok(()) }
}
