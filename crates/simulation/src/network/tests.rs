//! Hosts in a row whose processes read whatever comes at once and say what a test has them say.

use super::*;
use crate::{Agenda, Clock, Latency, Machine};
use contract::Time;
use wire::PeerIndex;

struct Place {
    machine: Machine,
    is_alive: bool,
    is_deaf: bool,
    sockets: Sockets<u32, ()>,
    news: Vec<News>,
    ready: Vec<EndId>,
    /// What it has read.
    read: Vec<u8>,
    /// Its connections, oldest first.
    links: Vec<LinkId>,
    /// What it was told.
    told: Vec<News>,
}

struct Row {
    network: Network<u32>,
    agenda: Agenda<Passing>,
    places: Vec<Place>,
    random: fastrand::Rng,
    now: Time,
    arrived: Vec<u32>,
    lost: Vec<u32>,
    lag: Span,
    most_bytes: usize,
}

impl Hosts for Row {
    type Note = u32;
    type Own = ();

    fn network(&mut self) -> &mut Network<u32> {
        &mut self.network
    }
    fn sockets(&mut self, host: usize) -> &mut Sockets<u32, ()> {
        &mut self.places[host].sockets
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
        self.agenda.push(at, what);
    }
    fn latency(&mut self, from: usize, to: usize) -> Span {
        let way = Span::micros(100) * from.abs_diff(to) as u64;
        Latency { least: way, typical: way * 2, most: way * 9 }.sample(&mut self.random)
    }
    fn lag(&self, _end: EndId) -> Span {
        self.lag
    }
    fn loses(&mut self, _from: usize, _to: usize) -> bool {
        false
    }
    fn is_alive(&self, host: usize) -> bool {
        self.places[host].is_alive
    }
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
        if self.places[host].is_alive && !self.places[host].is_deaf {
            self.turn(host);
        }
    }
    fn left(&mut self, _host: usize, _link: LinkId, _note: &u32) {}
    fn arrived(&mut self, _host: usize, _link: LinkId, note: u32, _came: Time, _spent: &mut Span) {
        self.arrived.push(note);
    }
    fn reads(&mut self, host: usize, _link: LinkId, bytes: &[u8], _spent: &mut Span) {
        self.most_bytes = self.most_bytes.max(bytes.len());
        self.places[host].read.extend_from_slice(bytes);
    }
    fn lost(&mut self, _to: usize, note: &u32) {
        self.lost.push(*note);
    }
    fn discards(&mut self, _from: usize, _to: usize) {}
    fn moves_on(&mut self, _at: Time) {}
}

const WINDOW: usize = 100;

impl Row {
    fn new(hosts: usize, seed: u64) -> Row {
        let settings = Settings {
            window_bytes: WINDOW,
            outbox_bytes_max: 10_000,
            drained_bytes: 50,
            closing_time: Span::secs(1),
        };
        let place = |host: usize| Place {
            machine: Machine::new(&host.to_string(), Clock::new(Time(0), Span::ZERO, 0), seed),
            is_alive: true,
            is_deaf: false,
            sockets: Sockets::default(),
            news: Vec::new(),
            ready: Vec::new(),
            read: Vec::new(),
            links: Vec::new(),
            told: Vec::new(),
        };
        Row {
            network: Network::new(settings),
            agenda: Agenda::new(),
            places: (0..hosts).map(place).collect(),
            random: fastrand::Rng::with_seed(seed),
            now: Time(1),
            arrived: Vec::new(),
            lost: Vec::new(),
            lag: Span::ZERO,
            most_bytes: 0,
        }
    }

    /// A process hears news, reads all that it can, and writes all that waits; and then there may be news again.
    fn turn(&mut self, host: usize) {
        self.hear(host);
        for end in std::mem::take(&mut self.places[host].ready) {
            let (mut room, mut spent) = (usize::MAX, Span::ZERO);
            read(self, host, end, &mut room, &mut spent);
        }
        for link in std::mem::take(&mut self.places[host].sockets.dirty) {
            self.places[host].sockets.get_mut(link).into_iter().for_each(|socket| socket.dirty = false);
            write(self, host, link, 100);
        }
        watch_closing(self, host);
        self.hear(host);
    }

    fn hear(&mut self, host: usize) {
        for news in std::mem::take(&mut self.places[host].news) {
            match news {
                News::Accepted(end) | News::Dialed(end, _) => {
                    let link = open_end(self, end);
                    self.places[host].links.extend(link);
                }
                News::Closed(link) => {
                    release(self, host, link);
                }
                _ => {}
            }
            self.places[host].told.push(news);
        }
    }

    /// A process says so many bytes on its newest connection, and each tenth of them is worth a note.
    fn say(&mut self, host: usize, bytes: usize) {
        let link = *self.places[host].links.last().unwrap();
        let Some(socket) = self.places[host].sockets.touch(link) else { return };
        for note in 0..bytes / 10 {
            socket.outbox.append(|outbox| outbox.extend((0..10).map(|byte| (note * 10 + byte) as u8)));
            socket.note(note as u32, false);
        }
        self.turn(host);
    }

    fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        // What comes later than that is put down again.
        while let Some((at, what)) = self.agenda.pop() {
            if at > end {
                self.agenda.push_first(at, what);
                break;
            }
            self.now = at;
            happens(self, what);
        }
        self.now = end;
    }

    /// A row in which the first two hosts are connected.
    fn joined(hosts: usize, seed: u64) -> Row {
        let mut row = Row::new(hosts, seed);
        dial(&mut row, 0, 1, PeerIndex(7), Span::secs(1));
        row.run_for(Span::secs(2));
        assert!(row.network.is_joined(0, 1) && row.network.is_joined(1, 0));
        row
    }

    fn is_closed(&self, host: usize) -> bool {
        self.places[host].told.iter().any(|news| matches!(news, News::Closed(_)))
    }

    /// Whether a host has read these many bytes and no others.
    fn has_read(&self, host: usize, bytes: usize) -> bool {
        self.places[host].read.iter().copied().eq((0..bytes).map(|byte| byte as u8))
    }
}

#[test]
fn what_is_written_arrives_in_order_through_windows_however_small() {
    for seed in 0..50 {
        let mut row = Row::joined(2, seed);
        assert!(matches!(row.places[0].told[..], [News::Dialed(_, PeerIndex(7))]));
        row.say(0, 1_000);
        row.run_for(Span::secs(1));
        assert!(row.has_read(1, 1_000), "seed {seed}");
        assert!(row.arrived.iter().copied().eq(0..100), "seed {seed}");
        assert!(row.most_bytes <= WINDOW && row.lost.is_empty());
        assert!(row.places[0].told.iter().any(|news| matches!(news, News::Drained(_))), "seed {seed}");
    }
}

#[test]
fn connections_are_between_any_two_hosts_and_keep_to_themselves() {
    let mut row = Row::new(9, 1);
    for from in 0..8 {
        dial(&mut row, from, from + 1, PeerIndex(0), Span::secs(1));
    }
    row.run_for(Span::secs(2));
    for host in 0..8 {
        assert!(row.network.is_joined(host, host + 1) && !row.network.is_joined(host, (host + 4) % 9));
    }
    row.network.partitions.cut(vec![(3, 4), (4, 3)]);
    dial(&mut row, 8, 0, PeerIndex(0), Span::secs(1));
    row.run_for(Span::secs(2));
    row.say(8, 50);
    row.run_for(Span::secs(2));
    assert!(row.has_read(0, 50));
}

#[test]
fn a_partition_holds_back_and_loses_nothing() {
    let mut row = Row::joined(2, 3);
    let partition = row.network.partitions.cut(vec![(0, 1)]);
    row.say(0, 90);
    row.say(1, 90);
    row.run_for(Span::secs(1));
    assert!(row.has_read(0, 90) && row.has_read(1, 0), "one way is open");
    heal(&mut row, partition);
    row.run_for(Span::secs(3));
    assert!(row.has_read(1, 90) && row.lost.is_empty());
}

#[test]
fn nobody_answers_where_nobody_is() {
    let mut row = Row::new(4, 4);
    row.places[1].is_alive = false;
    row.places[2].machine.go_down();
    row.network.partitions.cut(vec![(3, 0)]);
    for to in 1..4 {
        dial(&mut row, 0, to, PeerIndex(to as u8), Span::secs(1));
    }
    row.run_for(Span::secs(2));
    let failed = |peer, refused| News::DialFailed { peer: PeerIndex(peer), refused };
    assert_eq!(row.places[0].told, [failed(1, true), failed(2, false), failed(3, false)]);
}

#[test]
fn what_a_process_has_said_outlives_it_and_then_comes_the_end() {
    let mut row = Row::joined(2, 5);
    row.say(0, 90);
    row.run_for(Span::millis(500));
    row.places[0].is_alive = false;
    abandon_all(&mut row, 0);
    row.run_for(Span::secs(1));
    assert!(row.has_read(1, 90) && row.is_closed(1));
    // Its place is used again, and nobody mixes up the two.
    row.places[0].is_alive = true;
    dial(&mut row, 0, 1, PeerIndex(0), Span::secs(1));
    row.run_for(Span::secs(2));
    assert_eq!(row.network.conns.len(), 1);
    assert!(row.network.is_joined(0, 1));
}

#[test]
fn who_gives_up_is_told_at_once_and_the_other_after_all_that_was_sent() {
    for all in [false, true] {
        let mut row = Row::joined(2, 5);
        row.say(0, 90);
        if all {
            end_all(&mut row, 0);
        } else {
            let link = row.places[0].links[0];
            give_up(&mut row, 0, link);
            assert!(row.is_closed(0));
        }
        assert!(!row.is_closed(1) && row.has_read(1, 0));
        row.run_for(Span::secs(1));
        assert!(row.is_closed(1) && row.has_read(1, 90));
    }
}

#[test]
fn only_so_much_leaves_as_is_wanted_and_may_lag() {
    let mut row = Row::joined(2, 6);
    let link = row.places[0].links[0];
    row.lag = Span::millis(50);
    row.places[0].sockets.get_mut(link).unwrap().outbox.append(|out| out.extend(0..30));
    write_up_to(&mut row, 0, link, 20);
    assert_eq!(row.places[0].sockets.get(link).unwrap().left(), 20);
    row.run_for(Span::millis(49));
    assert!(row.has_read(1, 0));
    row.run_for(Span::millis(2));
    assert!(row.has_read(1, 20));
    // Who has read says that there is room for the rest.
    row.run_for(Span::secs(1));
    assert!(row.has_read(1, 30));
}

#[test]
fn of_a_half_open_connection_one_end_hears_when_it_speaks() {
    for half_open in [false, true] {
        let mut row = Row::joined(2, 6);
        row.say(0, 50);
        break_between(&mut row, 0, 1, false, half_open);
        row.run_for(Span::secs(1));
        assert_eq!(row.lost, [0, 1, 2, 3, 4], "nobody answers for what was on its way");
        assert!(row.is_closed(0) && row.is_closed(1) != half_open && !row.network.is_joined(0, 1));
        row.say(1, 50);
        row.run_for(Span::secs(1));
        assert!(row.is_closed(1) && row.has_read(0, 0));
    }
}

#[test]
fn a_connection_that_breaks_may_deliver_all_there_is() {
    let mut row = Row::joined(2, 6);
    row.say(0, 50);
    break_between(&mut row, 0, 1, true, false);
    row.run_for(Span::secs(1));
    assert!(row.has_read(1, 50) && row.is_closed(0) && row.is_closed(1) && row.lost.is_empty());
}

#[test]
fn a_host_that_vanishes_tells_nobody() {
    let mut row = Row::joined(2, 7);
    row.places[0].is_alive = false;
    row.places[0].machine.go_down();
    vanish(&mut row, 0);
    row.run_for(Span::secs(5));
    assert!(!row.is_closed(1));
    row.say(1, 50);
    row.run_for(Span::secs(5));
    assert!(!row.is_closed(1), "what it says is not answered");
    row.places[0].machine.start();
    release_held(&mut row);
    row.run_for(Span::secs(6));
    assert!(row.is_closed(1), "a host that is back knows of no connection");
    assert_eq!(row.lost, [0, 1, 2, 3, 4]);
}

#[test]
fn who_closes_waits_for_the_rest_to_leave_but_not_for_ever() {
    for is_deaf in [false, true] {
        let mut row = Row::joined(2, 8);
        row.places[1].is_deaf = is_deaf;
        row.say(0, 500);
        let link = row.places[0].links[0];
        row.places[0].sockets.hang_up(link);
        assert!(row.places[0].sockets.is_closing());
        row.turn(0);
        row.run_for(Span::millis(900));
        assert_eq!((row.has_read(1, 500), row.is_closed(0)), (!is_deaf, !is_deaf));
        row.run_for(Span::millis(200));
        assert!(row.is_closed(0) && !row.places[0].sockets.is_closing());
    }
}

#[test]
fn who_does_not_read_for_too_long_is_given_up() {
    let mut row = Row::joined(2, 9);
    row.places[1].is_deaf = true;
    row.say(0, 10_000);
    row.run_for(Span::secs(1));
    assert!(!row.is_closed(0));
    row.say(0, 200);
    assert!(row.is_closed(0));
}

#[test]
fn a_node_sees_again_what_it_has_not_consumed() {
    let mut sockets: Sockets<u32, ()> = Sockets::default();
    let link = sockets.open(EndId { conn: 0, age: 0, side: 0 }, 1);
    let mut seen = Vec::new();
    let mut hand = |sockets: &mut Sockets<u32, ()>, bytes: &[u8], used: usize| {
        hand_over(sockets, link, bytes, |bytes, _| {
            seen.push(bytes.to_vec());
            used
        })
    };
    assert!(hand(&mut sockets, b"abc", 1) && sockets.let_go(link));
    assert!(hand(&mut sockets, b"d", 0) && hand(&mut sockets, b"", 3) && !sockets.let_go(link));
    sockets.hang_up(link);
    assert!(!hand(&mut sockets, b"e", 1));
    assert_eq!(seen, [&b"abc"[..], b"bcd", b"bcd"]);
}
