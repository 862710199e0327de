//! How what was written arrives and is read.

use super::ending::{abandon, forget_socket, lose_lane};
use super::{Chunk, Conn, EndId, EndState, Hosts, Passing};
use contract::Span;
use wire::LinkId;

/// The next bytes of a connection reach a host.
pub(super) fn arrive<W: Hosts>(world: &mut W, end: EndId) {
    let Some(slot) = world.network().conn(end) else { return };
    let (from, to) = (slot.ends[1 - end.side].host, slot.ends[end.side].host);
    let state = slot.ends[end.side].state;
    let held = world.network().partitions.is_blocked(from, to) || !world.machine(to).is_up();
    let now = world.now();
    let lane = world.network().lane(end.other());
    if held {
        lane.held.get_or_insert(now);
        return;
    }
    match state {
        EndState::Opening => {}
        EndState::Open(_) => {
            if !std::mem::replace(&mut lane.announced, true) {
                world.can_read(to, end);
                world.rouse(to);
            }
        }
        EndState::Gone => {
            // The kernel answers that there is no such connection, unless this was but its end.
            let only_end = lane.chunks.iter().all(|chunk| chunk.end);
            lose_lane(world, end.other());
            if !only_end {
                // What this end had sent before is on the same way, and arrives first.
                let delay = world.latency(from, to);
                let at = (now + delay).max(world.network().lane(end).last);
                world.put_down(at, Passing::Reset(end.other()));
            }
            world.network().retire(end.conn);
        }
    }
}

/// What is to be done with what comes first at an end.
enum First<N> {
    Nothing,
    /// The node wants no more for now.
    TooMuch,
    /// The other end has closed.
    End,
    /// The bytes of the chunk from here up to there, and whether the other end has more than there was room for.
    Piece(Chunk<N>, usize, usize, bool),
}

/// A process reads what is there at one of its ends, until there is no more room. Returns whether there is more. `spent`
/// is what its turn has cost so far.
pub fn read<W: Hosts>(world: &mut W, host: usize, end: EndId, room: &mut usize, spent: &mut Span) -> bool {
    loop {
        let Some(link) = world.network().link(end) else { return false };
        let held = world.sockets(host).get(link).is_some_and(|socket| socket.held);
        match take_first(world, end, if held { 0 } else { *room }) {
            First::Nothing => return false,
            First::TooMuch => return true,
            First::End => {
                abandon(world, end);
                forget_socket(world, host, link);
                return false;
            }
            First::Piece(chunk, begin, to, starved) => {
                *room -= to - begin;
                if starved {
                    let other = world.network().conns[end.conn as usize].ends[1 - end.side].host;
                    let delay = world.latency(host, other);
                    world.put_down(world.now() + delay, Passing::Room(end.other()));
                }
                read_piece(world, host, (end, link), chunk, begin..to, spent);
            }
        }
    }
}

/// The chunk is taken out while the process reads it, and put back if something is left.
fn take_first<W: Hosts>(world: &mut W, end: EndId, room: usize) -> First<W::Note> {
    let now = world.now();
    let lane = world.network().lane(end.other());
    lane.announced = false;
    let arrived = |chunk: &&mut Chunk<W::Note>| chunk.arrives <= now && lane.held.is_none();
    let Some(chunk) = lane.chunks.front_mut().filter(arrived) else { return First::Nothing };
    if room == 0 {
        lane.announced = true;
        return First::TooMuch;
    }
    let begin = chunk.read;
    let piece = (chunk.bytes.len() - begin).min(room);
    if !chunk.end {
        chunk.read += piece;
        lane.bytes -= piece;
    }
    match lane.chunks.pop_front() {
        None => First::Nothing,
        Some(chunk) if chunk.end => First::End,
        Some(chunk) => First::Piece(chunk, begin, begin + piece, std::mem::take(&mut lane.starved)),
    }
}

fn read_piece<W: Hosts>(
    world: &mut W,
    host: usize,
    (end, link): (EndId, LinkId),
    mut chunk: Chunk<W::Note>,
    piece: std::ops::Range<usize>,
    spent: &mut Span,
) {
    let Conn { cut, doubted, .. } = world.network().conns[end.conn as usize];
    let socket = world.sockets(host).get(link);
    let thrown_away = socket.is_some_and(|socket| socket.closing.is_some()) && (cut || doubted);
    while let Some((_, note)) = chunk.notes.pop_front_if(|(place, _)| *place <= piece.end) {
        if thrown_away {
            world.lost(host, &note);
        }
        world.arrived(host, link, note, chunk.arrives, spent);
    }
    world.reads(host, link, &chunk.bytes[piece.clone()], spent);
    if piece.end == chunk.bytes.len() {
        world.network().recycle(chunk);
    } else if let Some(slot) = world.network().conn_mut(end) {
        slot.lanes[1 - end.side].chunks.push_front(chunk);
    }
}
