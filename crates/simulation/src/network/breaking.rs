//! What goes wrong with connections: their processes and hosts die, nothing passes between hosts, and they break.

use super::ending::{abandon, lose, lose_lane, send_end};
use super::{EndId, EndState, Hosts, Passing, RETRANSMISSION};
use contract::Span;

/// All connections of a host are given up: its process is gone.
pub fn abandon_all<W: Hosts>(world: &mut W, host: usize) {
    for end in ends_of(world, host) {
        discard_unsent(world, end);
        abandon(world, end);
    }
}

/// The same where the kernel sends everything first.
pub fn end_all<W: Hosts>(world: &mut W, host: usize) {
    ends_of(world, host).into_iter().for_each(|end| abandon(world, end));
}

/// A host's ends of connections that it has not given up.
fn ends_of<W: Hosts>(world: &mut W, host: usize) -> Vec<EndId> {
    let mut ends = ends(world);
    ends.retain(|end| {
        let of_end = world.network().conns[end.conn as usize].ends[end.side];
        of_end.host == host && of_end.state != EndState::Gone
    });
    ends
}

/// Both ends of all connections, whatever their state.
fn ends<W: Hosts>(world: &mut W) -> Vec<EndId> {
    let network = world.network();
    let conns = 0..network.conns.len() as u32;
    conns.flat_map(|conn| [0, 1].map(|side| network.end(conn, side))).collect()
}

/// The kernel of a dead process resets its connections where the other end says anything that will not be read, and
/// discards what is not on the wire yet. What has reached the other host can still be read there.
fn discard_unsent<W: Hosts>(world: &mut W, end: EndId) {
    let now = world.now();
    let lanes = &world.network().conns[end.conn as usize].lanes;
    let (back, lane) = (&lanes[1 - end.side], &lanes[end.side]);
    let unread = back.chunks.iter().any(|chunk| !chunk.end && chunk.arrives <= now);
    let arrived = lane.chunks.partition_point(|chunk| chunk.arrives <= now);
    let under_way = lane.chunks.len() - arrived;
    if under_way == 0 || !(unread || world.random().u32(0..4) == 0) {
        return;
    }
    let keep = arrived + world.random().usize(0..=under_way);
    let slot = &mut world.network().conns[end.conn as usize];
    let discarded = slot.lanes[end.side].chunks.split_off(keep);
    let (sender, receiver) = (slot.ends[end.side].host, slot.ends[1 - end.side].host);
    if !discarded.is_empty() {
        world.discards(sender, receiver);
    }
    lose(world, receiver, &discarded);
}

/// A host is gone with all that its kernel held. Of what it had sent, a part is on its way; nobody is told.
pub fn vanish<W: Hosts>(world: &mut W, host: usize) {
    for end in ends(world) {
        let slot = &mut world.network().conns[end.conn as usize];
        if slot.ends[end.side].host != host || slot.ends[end.side].state == EndState::Gone {
            continue;
        }
        slot.ends[end.side].state = EndState::Gone;
        slot.cut = true;
        let receiver = slot.ends[1 - end.side].host;
        let (chunks, waits) = (slot.lanes[end.side].chunks.len(), slot.lanes[1 - end.side].starved);
        let keep = world.random().usize(0..=chunks);
        let lost = world.network().lane(end).chunks.split_off(keep);
        lose(world, receiver, &lost);
        lose_lane(world, end.other());
        if waits {
            // The other kernel goes on sending; once the host is back, it hears that there is no such connection.
            world.put_down(world.now() + RETRANSMISSION, Passing::Room(end.other()));
        }
    }
}

/// A partition ends: what waited for that moves on.
pub fn heal<W: Hosts>(world: &mut W, partition: u32) {
    if world.network().partitions.heal(partition) {
        release_held(world);
    }
}

/// What waited for a partition to end, or for a host to be back, moves on.
pub fn release_held<W: Hosts>(world: &mut W) {
    for end in ends(world) {
        let slot = &world.network().conns[end.conn as usize];
        let (from, to) = (slot.ends[end.side].host, slot.ends[1 - end.side].host);
        let Some(since) = slot.lanes[end.side].held else { continue };
        if world.network().partitions.is_blocked(from, to) || !world.machine(to).is_up() {
            continue;
        }
        // The sender's kernel tries again now and then, more rarely the longer it has waited.
        let within = world.now().since(since).max(RETRANSMISSION);
        let delay = world.latency(from, to) + Span(world.random().i64(0..within.0));
        let at = world.now() + delay;
        world.moves_on(at);
        let lane = world.network().lane(end);
        lane.held = None;
        lane.last = lane.last.max(at);
        lane.chunks.iter_mut().for_each(|chunk| chunk.arrives = chunk.arrives.max(at));
        world.put_down(at, Passing::Arrive(end.other()));
    }
}

/// The connections that one host made to another, or took from it, break. Where that `delivers`, each end is told after
/// it has had everything; else what is on its way is lost, and of a `half_open` connection only `one` is told.
pub fn break_between<W: Hosts>(world: &mut W, one: usize, other: usize, delivers: bool, half_open: bool) {
    for conn in 0..world.network().conns.len() as u32 {
        let ends = world.network().conns[conn as usize].ends;
        let Some(side) = (0..2).find(|side| ends[*side].host == one && ends[1 - side].host == other) else {
            continue;
        };
        if ends.iter().any(|end| end.state == EndState::Gone) {
            continue;
        }
        world.network().conns[conn as usize].cut = true;
        let end = world.network().end(conn, side);
        if delivers {
            // Each end is told after it has had everything.
            for end in [end, end.other()] {
                let delay = world.latency(one, other);
                send_end(world, end, world.now() + delay);
            }
            continue;
        }
        world.put_down(world.now(), Passing::Reset(end));
        for side in 0..2 {
            lose_lane(world, EndId { side, ..end });
        }
        if !half_open {
            let delay = Span(world.random().i64(0..RESET_SPREAD.0));
            world.put_down(world.now() + delay, Passing::Reset(end.other()));
        }
    }
}

/// The two ends of a broken connection learn of it within this.
const RESET_SPREAD: Span = Span::millis(5);
