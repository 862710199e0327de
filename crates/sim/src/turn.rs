//! A turn of a process, as every driver takes it. It takes as long as what is done in it costs; what comes meanwhile waits, and what is
//! written leaves when it is over.

use crate::happening::Happening;
use crate::node::Host;
use crate::world::World;
use contract::{Span, Time};
use engine::Node;
use engine::driving::{Reading, Turn, TurnState, hear_news, serve, take_turn};
use simulation::network::{self, EndId};

/// A process in its turn.
struct Turning<'a> {
    world: &'a mut World,
    host: usize,
    /// What the turn has cost so far, on a processor that is not slow.
    spent: Span,
    /// How long it had lasted when something was read last.
    read: Span,
    /// What can be read, of those that do not flood and of those that do.
    ready: [Vec<EndId>; 2],
    /// Those that are not read this time.
    later: Vec<EndId>,
}

impl World {
    /// One turn of a process's loop.
    pub(crate) fn turn(&mut self, host: usize) {
        let now = self.now;
        self.hosts[host].heart.iter_mut().for_each(|heart| heart.turn_since = Some(now));
        let spent = if host < 2 { self.scenario.true_costs.turn } else { Span::ZERO };
        let mut turning = Turning {
            world: self,
            host,
            spent,
            read: Span::ZERO,
            ready: Default::default(),
            later: Vec::new(),
        };
        take_turn(&mut turning);
        let spent = turning.lasted();
        if spent > Span::ZERO {
            self.hosts[host].machine.begin_turn();
            let life = self.hosts[host].machine.life();
            self.agenda.push(self.now + spent, Happening::TurnEnd { node: host, life });
        } else {
            self.end_turn(host);
        }
    }
}

impl Turning<'_> {
    fn host(&mut self) -> &mut Host {
        &mut self.world.hosts[self.host]
    }

    /// How long the turn has lasted.
    fn lasted(&self) -> Span {
        self.world.hosts[self.host].machine.takes(self.spent)
    }
}

impl Turn for Turning<'_> {
    type Ready = EndId;

    fn state(&mut self) -> &mut TurnState {
        &mut self.host().turn
    }

    fn now(&self) -> Time {
        self.world.hosts[self.host].machine.local(self.world.now + self.spent)
    }

    /// Whoever sets a clock tells the node at once.
    fn read_clock(&mut self) -> Time {
        self.now()
    }

    /// What its configuration has become, then news, as drivers accept connections before they read from others.
    fn begin(&mut self) {
        if self.host < 2 && std::mem::take(&mut self.world.rereads[self.host]) {
            self.world.reread(self.host, self.spent);
        }
        hear_news(self);
        // What the other broker asks comes first.
        let world = &mut *self.world;
        let Host { port, ready, .. } = &mut world.hosts[self.host];
        let foremost = port.foremost.and_then(|link| port.sockets.get(link)).map(|socket| socket.end);
        let mut ready = std::mem::take(ready);
        ready.sort_by_key(|end| Some(*end) != foremost);
        let floods = |end: &EndId| world.floods(self.host, *end);
        let (floods, others) = ready.into_iter().partition(floods);
        self.ready = [others, floods];
    }

    /// Those that have no turn this time come first among their like the next time.
    fn serve_ready(&mut self, flooding: bool) -> bool {
        let mut reading = Reading::default();
        for end in std::mem::take(&mut self.ready[usize::from(flooding)]) {
            if reading.is_over(Time::ZERO + self.lasted()) {
                self.later.push(end);
                continue;
            }
            serve(self, &end);
            reading.went_on(Time::ZERO + self.read);
        }
        if flooding {
            let later = std::mem::take(&mut self.later);
            self.host().ready.splice(0..0, later);
        }
        true
    }

    fn read(&mut self, end: &EndId) -> (Time, bool) {
        if self.world.read(self.host, *end, &mut self.spent) {
            self.host().ready.push(*end);
        }
        self.read = self.lasted();
        (self.now(), true)
    }

    fn tell_news(&mut self) -> bool {
        self.world.tell_news(self.host, self.spent)
    }

    /// Whoever comes is ready: nothing is shaken hands for here.
    fn settle_guests(&mut self) {}

    /// What has had its time is on the agenda.
    fn expire(&mut self, _time: Time) {}

    fn portion(&mut self, time: Time) -> bool {
        self.world.portion(self.host, time, &mut self.spent)
    }

    /// Everything leaves when the turn is over, which is the latest that it may.
    fn send(&mut self) {}

    fn next_deadline(&self) -> Time {
        self.world.hosts[self.host].program.next_deadline()
    }

    fn handle_timeout(&mut self, time: Time) {
        let Host { program, port, .. } = self.host();
        program.handle_timeout(time, port);
        self.world.digest(self.host, self.spent);
        // Commands and what else is done here is in the longest blocking; this is in every turn.
        let made_last = std::mem::take(&mut self.host().made_last);
        self.spent += made_last;
    }

    fn dial(&mut self, _time: Time) {
        for (peer, within) in std::mem::take(&mut self.host().port.dials) {
            let to = self.world.peer_host(self.host, peer);
            network::dial(self.world, self.host, to, peer, within);
        }
    }

    fn end(&mut self, _time: Time) {
        if self.host < 2 {
            self.spent += self.world.writes(self.host);
        }
    }
}
