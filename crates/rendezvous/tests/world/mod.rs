//! Peers that are points of one ring and speak for others, on invented time: frames take a while and get lost with their links, peers come
//! and die, and each learns that a little later than the next.

#![allow(dead_code, reason = "each test uses its own part of the world")]

use contract::{RingId, Span, Time};
use rendezvous::{
    Carry, EXPIRY, GRACE, Interest, Kind, Map, Meeting, Party, Point, Post, Posts, Profile, Said,
};
use rendezvous::{Space, Topic};
use simulation::{Agenda, Latency};
use std::collections::{BTreeMap, BTreeSet};

type Wrong = Vec<(&'static str, String)>;

pub const CHECKERS: [&str; 3] = ["meetings", "strangers", "steady"];

/// After the last fault, whoever belongs together has met and nobody else has within this: what is lost with a peer ends by itself, and
/// what was lost on the way is repaired when it is put again.
const SETTLES: Span = Span::secs(85);
/// How long those who belong together may take to meet while nothing gets lost.
const MEETS: Span = Span::secs(1);

enum Frame {
    Put { number: u64, text: String, post: Box<Post>, digest: u128 },
    Take { number: u64 },
    Said { number: u64, said: Said },
}

enum What {
    Arrive { from: usize, to: usize, link: u64, frame: Frame },
    Learn { of: usize, members: BTreeSet<RingId> },
    Clear { of: usize },
    Timer { of: usize },
    Link { of: usize, to: usize },
}

struct Peer {
    id: RingId,
    is_alive: bool,
    point: Point,
    posts: Posts,
    members: Members,
    /// What it has put, as it is written, and since when.
    says: BTreeMap<u64, (String, Post, Time)>,
}

/// What a peer knows of the ring.
#[derive(Clone)]
struct Members {
    space: Space,
    ring: BTreeSet<RingId>,
}

impl Members {
    fn owner(&self, place: RingId) -> Option<RingId> {
        self.ring.range(place..).chain(&self.ring).next().copied()
    }
}

impl Map for Members {
    fn points_of(&self, post: &Post) -> BTreeSet<RingId> {
        match post {
            Post::Offer(profile) => self.owner(self.space.place_of(profile)).into_iter().collect(),
            Post::Want(interest) => {
                let clusters = interest.pieces(&self.space);
                let within =
                    clusters.iter().flat_map(|cluster| self.ring.range(cluster.first..=cluster.last));
                let last = clusters.iter().filter_map(|cluster| self.owner(cluster.last));
                within.copied().chain(last).collect()
            }
        }
    }
}

#[derive(Default)]
struct Did {
    sent: Vec<(RingId, Frame)>,
    stopped: Vec<(u64, Topic)>,
}

impl Carry for Did {
    fn put(&mut self, point: RingId, number: u64, text: &str, post: &Post, digest: u128) {
        self.sent.push((
            point,
            Frame::Put { number, text: text.to_owned(), post: Box::new(post.clone()), digest },
        ));
    }

    fn take(&mut self, point: RingId, number: u64) {
        self.sent.push((point, Frame::Take { number }));
    }

    fn start(&mut self, _number: u64, _meeting: &Meeting) {}

    fn stop(&mut self, number: u64, meeting: &Meeting) {
        self.stopped.push((number, meeting.topic));
    }
}

type Told = Vec<(Party, Said)>;

pub struct World {
    now: Time,
    space: Space,
    peers: Vec<Peer>,
    events: Agenda<What>,
    random: fastrand::Rng,
    last: BTreeMap<(usize, usize), Time>,
    /// Grows when what is on the way between two is lost.
    links: BTreeMap<(usize, usize), u64>,
    latency: Latency,
    wrong: Wrong,
    /// Frames may get lost with their links.
    worst: bool,
}

const KINDS: [&str; 4] = ["drone", "car", "ship", "mast"];
const SENSORS: [&str; 4] = ["lidar", "thermal", "light", "radar"];

impl World {
    fn new(seed: u64, worst: bool) -> World {
        World {
            now: Time(1_000_000_000_000),
            space: Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words)], false).unwrap(),
            peers: Vec::new(),
            events: Agenda::new(),
            random: fastrand::Rng::with_seed(seed),
            last: BTreeMap::new(),
            links: BTreeMap::new(),
            latency: Latency { least: Span::micros(200), typical: Span::millis(2), most: Span::millis(40) },
            wrong: Vec::new(),
            worst,
        }
    }

    fn ring(&self) -> BTreeSet<RingId> {
        self.peers.iter().filter(|peer| peer.is_alive).map(|peer| peer.id).collect()
    }

    fn add_peer(&mut self) {
        let id = RingId::beginning_with(u128::from(self.random.u64(..)), 64);
        let members = Members { space: self.space.clone(), ring: BTreeSet::from([id]) };
        let point = Point::new(&self.space);
        let says = BTreeMap::new();
        self.peers.push(Peer { id, is_alive: true, point, posts: Posts::new(), members, says });
        self.ring_has_changed();
    }

    fn kill(&mut self, of: usize) {
        if self.ring().len() > 1 && std::mem::take(&mut self.peers[of].is_alive) {
            self.peers[of].says.clear();
            self.ring_has_changed();
        }
    }

    /// Everybody learns of it, each in its own time.
    fn ring_has_changed(&mut self) {
        let members = self.ring();
        for of in 0..self.peers.len() {
            let at = self.now + Span::millis(self.random.i64(1..300));
            self.events.push(at, What::Learn { of, members: members.clone() });
        }
    }

    fn say(&mut self) {
        let of = self.random.usize(..self.peers.len());
        if !self.peers[of].is_alive {
            return;
        }
        let number = self.random.u64(..4);
        let (mut did, now) = (Did::default(), self.now);
        if self.random.u8(..4) == 0 {
            self.peers[of].says.remove(&number);
            self.peers[of].posts.withdraw(number, &mut did);
            return self.after(of, did);
        }
        let kind = *self.random.choice(&KINDS).unwrap();
        let sensor = *self.random.choice(&SENSORS).unwrap();
        let (text, post) = if self.random.bool() {
            let text = format!("{kind}, {sensor}");
            let profile = Profile::read(&self.space, &text).unwrap();
            (text, Post::Offer(profile))
        } else {
            let text = match self.random.u8(..4) {
                0 => format!("kind={kind}"),
                1 => format!("sensor={}*", &sensor[..2]),
                2 => "kind=*".to_owned(),
                _ => format!("{kind}, {sensor}"),
            };
            let interest = Interest::read(&self.space, &text).unwrap();
            (text, Post::Want(interest))
        };
        let peer = &mut self.peers[of];
        peer.says.insert(number, (text.clone(), post.clone(), now));
        let Peer { posts, members, .. } = peer;
        posts.post(now, number, &text, post, members, &mut did);
        self.after(of, did);
    }

    /// What is on the way between two is lost, and both notice a little later.
    fn cut(&mut self) {
        let (one, other) = (self.random.usize(..self.peers.len()), self.random.usize(..self.peers.len()));
        for (of, to) in [(one, other), (other, one)] {
            *self.links.entry((of, to)).or_default() += 1;
            let at = self.now + Span::millis(self.random.i64(1..3_000));
            self.events.push(at, What::Link { of, to });
        }
    }

    fn after(&mut self, of: usize, did: Did) {
        for (number, topic) in did.stopped {
            self.check_stop(of, number, topic);
        }
        for (to, frame) in did.sent {
            self.carry(of, to, frame);
        }
        let due = self.peers[of].posts.next_deadline().min(self.peers[of].point.next_deadline());
        if due < Time::NEVER {
            self.events.push(due.max(self.now), What::Timer { of });
        }
    }

    fn carry(&mut self, of: usize, to: RingId, frame: Frame) {
        let Some(to) = self.peers.iter().position(|peer| peer.id == to) else { return };
        let link = *self.links.entry((of, to)).or_default();
        let way = if of == to { Span::ZERO } else { self.latency.sample(&mut self.random) };
        let last = self.last.entry((of, to)).or_insert(Time::ZERO);
        *last = (self.now + way).max(*last);
        self.events.push(*last, What::Arrive { from: of, to, link, frame });
    }

    fn run_for(&mut self, span: Span) {
        let until = self.now + span;
        while self.events.next_at().is_some_and(|at| at <= until) {
            let Some((at, what)) = self.events.pop() else { break };
            self.now = at;
            self.happen(what);
        }
        self.now = until;
    }

    fn happen(&mut self, what: What) {
        let now = self.now;
        match what {
            What::Arrive { from, to, link, frame } => {
                if self.links.get(&(from, to)).copied().unwrap_or(0) == link && self.peers[to].is_alive {
                    self.arrive(from, to, frame);
                }
            }
            What::Learn { of, members } => {
                if self.ring() != members || !self.peers[of].is_alive {
                    return;
                }
                let mut did = Did::default();
                let Peer { posts, members: known, .. } = &mut self.peers[of];
                known.ring = members;
                posts.handle_change(now, known, &mut did);
                self.events.push(now + GRACE + Span::secs(1), What::Clear { of });
                self.after(of, did);
            }
            What::Clear { of } => {
                let Peer { point, members, id, .. } = &mut self.peers[of];
                point.retain(|_, post| members.points_of(post).contains(id));
            }
            What::Link { of, to } => {
                if self.peers[of].is_alive {
                    let mut did = Did::default();
                    let point = self.peers[to].id;
                    self.peers[of].posts.handle_link(point, &mut did);
                    self.after(of, did);
                }
            }
            What::Timer { of } => {
                if self.peers[of].is_alive {
                    let (mut did, mut told) = (Did::default(), Told::new());
                    let Peer { posts, members, point, .. } = &mut self.peers[of];
                    if posts.next_deadline() <= now || point.next_deadline() <= now {
                        posts.handle_timeout(now, members, &mut did);
                        point.handle_timeout(now, &mut told);
                        self.tell(of, told);
                        self.after(of, did);
                    }
                }
            }
        }
    }

    fn arrive(&mut self, from: usize, to: usize, frame: Frame) {
        let (mut did, mut told, now) = (Did::default(), Told::new(), self.now);
        let sender = self.peers[from].id;
        let Peer { posts, point, .. } = &mut self.peers[to];
        match frame {
            Frame::Put { number, text, post, digest: heard } => {
                let party = Party { peer: sender, number };
                point.hear(party, &text, *post, now + EXPIRY, heard, &mut told).unwrap();
            }
            Frame::Take { number } => point.take(Party { peer: sender, number }, &mut told),
            Frame::Said { number, said } => posts.hear(sender, number, said, &mut did),
        }
        self.tell(to, told);
        self.after(to, did);
    }

    fn tell(&mut self, of: usize, told: Told) {
        for (party, said) in told {
            self.carry(of, party.peer, Frame::Said { number: party.number, said });
        }
        self.after(of, Did::default());
    }

    /// All that is said by those who live, and the topics that each should have: only those with what was said before then.
    fn expected(&self, before: Time) -> BTreeMap<(usize, u64), BTreeSet<Topic>> {
        let mut expected: BTreeMap<(usize, u64), BTreeSet<Topic>> = BTreeMap::new();
        let said = || {
            let all = self.peers.iter().enumerate();
            all.flat_map(|(of, peer)| peer.says.iter().map(move |(number, said)| ((of, *number), said)))
        };
        for (offers, (offer, post, since)) in said() {
            let Post::Offer(profile) = post else { continue };
            for (wants, (want, post, also_since)) in said() {
                let Post::Want(interest) = post else { continue };
                if interest.matches(profile) && *since.max(also_since) <= before {
                    let topic = Topic::of(offer, want);
                    expected.entry(offers).or_default().insert(topic);
                    expected.entry(wants).or_default().insert(topic);
                }
            }
        }
        expected
    }

    /// While nothing gets lost, a topic does not end that there is still a reason for.
    fn check_stop(&mut self, of: usize, number: u64, topic: Topic) {
        let reasons = self.expected(self.now.moved(-Span::secs(2)));
        if !self.worst && reasons.get(&(of, number)).is_some_and(|topics| topics.contains(&topic)) {
            self.wrong.push(("steady", format!("{of} is told that {topic} is over, which is not so")));
        }
    }

    /// Those who belong together have met, if both said so before then.
    fn check_meetings(&mut self, before: Time) {
        for ((of, number), topics) in self.expected(before) {
            let has: BTreeSet<Topic> = self.peers[of].posts.topics_of(number).collect();
            if let Some(missing) = topics.difference(&has).next() {
                let said = &self.peers[of].says[&number].0;
                self.wrong.push(("meetings", format!("{of} says {said:?} and was not told of {missing}")));
            }
        }
    }

    fn check_strangers(&mut self) {
        let expected = self.expected(Time::NEVER);
        for (of, peer) in self.peers.iter().enumerate().filter(|(_, peer)| peer.is_alive) {
            for number in 0..4 {
                let may = expected.get(&(of, number)).cloned().unwrap_or_default();
                if let Some(topic) = peer.posts.topics_of(number).find(|topic| !may.contains(topic)) {
                    self.wrong.push(("strangers", format!("{of} has {topic}, of which there is no reason")));
                }
            }
        }
    }
}

/// One world. Peers come and die, and say this and that.
pub fn play(seed: u64, worst: bool) -> Wrong {
    let mut world = World::new(seed, worst);
    for _ in 0..world.random.usize(1..8) {
        world.add_peer();
    }
    for _ in 0..world.random.usize(4..40) {
        let wait = world.random.i64(0..6_000);
        world.run_for(Span::millis(wait));
        match world.random.u8(..if worst { 10 } else { 8 }) {
            0 => world.add_peer(),
            1 => {
                let of = world.random.usize(..world.peers.len());
                world.kill(of);
            }
            8 | 9 => world.cut(),
            _ => world.say(),
        }
        if !worst && wait > 2_000 {
            // Nothing was said in this time, and so all who belong together have met.
            world.check_meetings(world.now.moved(-MEETS));
        }
    }
    world.run_for(SETTLES);
    world.check_meetings(Time::NEVER);
    world.check_strangers();
    world.wrong
}
