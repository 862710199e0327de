//! The network around the nodes of these worlds, and their turns, which cost nothing.

use super::place::{Place, Program, Who};
use super::port::{Port, Way};
use super::{Happening, Told, World};
use contract::{Span, Time};
use engine::driving::{READ_BYTES, Turn, TurnState, hear_news, serve, take_turn};
use engine::{Node, Uplink};
use simulation::Machine;
use simulation::network::{self, EndId, Hosts, Network, News, Passing, Sockets};
use wire::{LinkChange, LinkId, PeerIndex, Protocol};

impl Hosts for World {
    type Note = ();
    type Own = Way;

    fn network(&mut self) -> &mut Network<()> {
        &mut self.network
    }
    fn sockets(&mut self, host: usize) -> &mut Sockets<(), Way> {
        &mut self.places[host].port.sockets
    }
    fn machine(&mut self, host: usize) -> &mut Machine {
        &mut self.places[host].machine
    }
    fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }
    fn now(&self) -> Time {
        self.now
    }
    fn put_down(&mut self, at: Time, what: Passing) {
        self.agenda.push(at, Happening::Passing(what));
    }
    fn latency(&mut self, from: usize, to: usize) -> Span {
        let far = |uplink: usize, broker: usize| match self.places[uplink].who {
            Who::Uplink(index) => (self.ends[index][0] != broker / 2).then_some(broker / 2),
            _ => None,
        };
        let router = far(from, to).or_else(|| far(to, from));
        router.map_or(self.delay, |pair| self.ways.get(&pair).copied().unwrap_or(self.wide))
    }
    /// Places of connections that are gone are taken by others, which have their own ages.
    fn lag(&self, end: EndId) -> Span {
        let who = self.places[self.network.host(end)].who;
        let lag = self.lag.get(&(end.conn as usize, who)).filter(|_| end.age == 0);
        lag.copied().unwrap_or(Span::ZERO)
    }
    fn loses(&mut self, _from: usize, _to: usize) -> bool {
        false
    }
    fn is_alive(&self, host: usize) -> bool {
        self.brokers.get(host).is_none_or(Option::is_some) && !self.ended.contains(&host)
    }
    /// Doors are always open here.
    fn listens(&self, _host: usize, _from: usize) -> bool {
        true
    }
    fn has_news(&mut self, host: usize, news: News) {
        self.places[host].news.push(news);
    }
    fn can_read(&mut self, host: usize, end: EndId) {
        self.places[host].ready.push(end);
    }
    fn rouse(&mut self, host: usize) {
        if self.is_alive(host) && self.places[host].machine.can_turn() {
            take_turn(&mut Turning { world: self, host });
        }
    }
    fn left(&mut self, _host: usize, _link: LinkId, _note: &()) {}
    fn arrived(&mut self, _host: usize, _link: LinkId, _note: (), _came: Time, _spent: &mut Span) {}
    fn reads(&mut self, host: usize, link: LinkId, bytes: &[u8], _spent: &mut Span) {
        self.hand_over(host, link, bytes);
    }
    fn lost(&mut self, _to: usize, _note: &()) {}
    fn discards(&mut self, _from: usize, _to: usize) {}
    fn moves_on(&mut self, _at: Time) {}
}

/// A process in its turn.
struct Turning<'a> {
    world: &'a mut World,
    host: usize,
}

impl Turning<'_> {
    fn place(&mut self) -> &mut Place {
        &mut self.world.places[self.host]
    }
}

impl Turn for Turning<'_> {
    type Ready = EndId;

    fn state(&mut self) -> &mut TurnState {
        &mut self.place().turn
    }
    fn now(&self) -> Time {
        self.world.local(self.host)
    }
    fn read_clock(&mut self) -> Time {
        self.now()
    }
    fn begin(&mut self) {
        hear_news(self);
    }
    /// Nobody has to wait here for those who bring much.
    fn serve_ready(&mut self, flooding: bool) -> bool {
        if !flooding {
            for end in std::mem::take(&mut self.place().ready) {
                serve(self, &end);
            }
        }
        false
    }
    fn read(&mut self, end: &EndId) -> (Time, bool) {
        let mut room = READ_BYTES;
        if network::read(self.world, self.host, *end, &mut room, &mut Span::ZERO.clone()) {
            self.place().ready.push(*end);
        }
        (self.now(), true)
    }
    fn tell_news(&mut self) -> bool {
        let mut told = false;
        loop {
            let Place { port, news, .. } = self.place();
            news.extend(port.again.drain(..).map(News::Again));
            let all = std::mem::take(news);
            if all.is_empty() {
                return told;
            }
            all.into_iter().for_each(|news| self.world.tell(self.host, news));
            told = true;
        }
    }
    fn settle_guests(&mut self) {}
    fn portion(&mut self, time: Time) -> bool {
        self.world.with_node(self.host, |node, _, port| node.run(time, port)).unwrap_or(false)
    }
    /// Everything leaves at the end.
    fn send(&mut self) {}
    /// What has had its time is on the agenda.
    fn expire(&mut self, _time: Time) {}
    fn next_deadline(&self) -> Time {
        self.world.next_deadline(self.host)
    }
    fn handle_timeout(&mut self, time: Time) {
        self.world.with_node(self.host, |node, _, port| node.handle_timeout(time, port));
    }
    fn dial(&mut self, _time: Time) {
        for (peer, within) in std::mem::take(&mut self.place().port.dials) {
            let world = &*self.world;
            let broker = |pair: usize| 2 * pair + usize::from(peer.0) % 2;
            let to = match world.places[self.host].who {
                Who::Broker(index) => index ^ 1,
                Who::Client(index) => broker(world.homes[index]),
                Who::Keeper(index) => broker(world.keepers[index].beside / 2),
                Who::Uplink(index) => {
                    let router = Uplink::<Told>::router_of(peer).map_or(0, |router| router + 1);
                    broker(world.ends[index][router])
                }
                Who::Mqtt(_) => usize::from(peer.0),
                Who::Stranger(_) => broker(0),
            };
            network::dial(self.world, self.host, to, peer, within);
        }
    }
    fn end(&mut self, _time: Time) {
        self.world.end_turn(self.host);
    }
}

impl World {
    /// Lets a node do something, if its process lives, at the time on its clock.
    pub(super) fn with_node<T>(
        &mut self,
        host: usize,
        act: impl FnOnce(&mut Program<'_>, Time, &mut Port) -> T,
    ) -> Option<T> {
        let now = self.local(host);
        let place = &mut self.places[host];
        let mut node = match place.who {
            Who::Broker(index) => Program::Broker(self.brokers[index].as_mut()?),
            Who::Client(index) => Program::Client(&mut self.clients[index]),
            Who::Uplink(index) => Program::Uplink(&mut self.uplinks[index]),
            Who::Keeper(index) => Program::Keeper(&mut self.keepers[index]),
            Who::Mqtt(index) => Program::Mqtt(&mut self.mqtt[index]),
            Who::Stranger(index) => Program::Stranger(&mut self.strangers[index]),
        };
        Some(act(&mut node, now, &mut place.port))
    }

    /// What a host's clock shows.
    pub(super) fn local(&self, host: usize) -> Time {
        self.places[host].machine.local(self.now)
    }

    fn next_deadline(&self, host: usize) -> Time {
        match self.places[host].who {
            Who::Broker(index) => self.brokers[index].as_ref().map_or(Time::NEVER, Node::next_deadline),
            Who::Client(index) => self.clients[index].next_deadline(),
            Who::Uplink(index) => self.uplinks[index].next_deadline(),
            Who::Keeper(index) => self.keepers[index].next_deadline(),
            Who::Mqtt(index) => self.mqtt[index].next_deadline(),
            Who::Stranger(index) => self.strangers[index].next_deadline(),
        }
    }

    /// A process wakes up then, unless it does sooner.
    pub(super) fn wake_by(&mut self, host: usize, at: Time) {
        let machine = &mut self.places[host].machine;
        if at != Time::NEVER && machine.wake_by(at) {
            let life = machine.life();
            self.agenda.push(at, Happening::Wake { host, life });
        }
    }

    /// What was written leaves, and it is known when there is something to do again.
    fn end_turn(&mut self, host: usize) {
        self.ask_service(host);
        self.flush(host);
        let writing = self.writing;
        self.with_node(host, |node, now, port| {
            if node.awaits_leaving() {
                node.handle_left(now + writing, port);
            }
        });
        network::watch_closing(self, host);
        let Place { machine, port, news, ready, turn, .. } = &self.places[host];
        let waits = turn.busy || !news.is_empty() || !ready.is_empty() || !port.again.is_empty();
        let wait = machine.clock.until(self.now, self.next_deadline(host));
        let due = if wait == Span::FOREVER { Time::NEVER } else { self.now + wait };
        let sockets = port.sockets.dirty.iter().filter_map(|link| port.sockets.get(*link));
        let leaves = sockets.filter(|socket| !socket.own.stalled).map(|socket| socket.own.free_at);
        let leaves = leaves.map(|at| at.max(self.now)).min().unwrap_or(Time::NEVER);
        self.wake_by(host, if waits { self.now } else { due.min(leaves) });
    }

    /// What was written leaves, as far as its way has room.
    fn flush(&mut self, host: usize) {
        for link in std::mem::take(&mut self.places[host].port.sockets.dirty) {
            let now = self.now;
            let sockets = &mut self.places[host].port.sockets;
            let Some(socket) = sockets.get_mut(link) else { continue };
            let (peer, waiting) = (socket.peer, socket.outbox.len());
            if socket.own.stalled || socket.own.free_at > now {
                sockets.dirty.push(link);
                continue;
            }
            socket.dirty = false;
            let paced = socket.own.rate;
            let rate = match self.places[peer].who {
                Who::Client(client) => self.narrow.get(&client).copied(),
                _ => paced,
            };
            let Some(rate) = rate else {
                network::write(self, host, link, 100);
                continue;
            };
            network::write_up_to(self, host, link, SEGMENT_BYTES);
            let sockets = &mut self.places[host].port.sockets;
            let Some(socket) = sockets.get_mut(link) else { continue };
            let left = (waiting - socket.outbox.len()) as u64;
            socket.own.free_at = now + Span::nanos((left * 1_000_000_000 / rate) as i64);
            if !socket.outbox.is_empty() {
                sockets.touch(link);
            }
        }
    }

    /// Bytes come to a node, after those that it has not used yet.
    fn hand_over(&mut self, host: usize, link: LinkId, bytes: &[u8]) {
        self.with_node(host, |node, now, port| {
            network::hand_over(port, link, bytes, |bytes, port: &mut Port| {
                node.handle_bytes(now, link, bytes, port)
            })
        });
    }

    /// A node hears what has happened to its connections.
    fn tell(&mut self, host: usize, news: News) {
        match news {
            News::Accepted(end) => {
                let maker = self.places[self.network.made_by(end)].who;
                let protocol = if matches!(maker, Who::Mqtt(_)) { Protocol::Mqtt } else { Protocol::Verge };
                let Some(link) = network::open_end(self, end) else { return };
                self.change(host, link, LinkChange::Accepted(protocol));
                if let (Who::Mqtt(client), Some(Some(broker))) = (maker, self.brokers.get_mut(host)) {
                    broker.handle_transport(link, self.mqtt[client].transport);
                }
            }
            News::Dialed(end, peer) => match network::open_end(self, end) {
                Some(link) => self.change(host, link, LinkChange::Dialed(peer)),
                None => self.dial_failed(host, peer, false),
            },
            News::DialFailed { peer, refused } => self.dial_failed(host, peer, refused),
            News::Again(link) => {
                if self.places[host].port.sockets.let_go(link) {
                    self.hand_over(host, link, &[]);
                }
            }
            News::Closed(link) => {
                self.change(host, link, LinkChange::Closed);
                network::release(self, host, link);
            }
            News::Drained(link) => {
                if self.places[host].port.sockets.get(link).is_some() {
                    self.change(host, link, LinkChange::Drained);
                }
            }
        }
    }

    fn change(&mut self, host: usize, link: LinkId, change: LinkChange) {
        self.with_node(host, |node, now, port| node.handle_link(now, link, change, port));
    }

    fn dial_failed(&mut self, host: usize, peer: PeerIndex, refused: bool) {
        self.with_node(host, |node, now, port| node.handle_dial_failed(now, peer, refused, port));
    }
}

/// What a narrow way carries at once.
const SEGMENT_BYTES: usize = 1_448;
