//! How what a process has written leaves.

use super::ending::{abandon, forget_socket, send_end};
use super::{Chunk, EndId, EndState, Hosts, News, Passing, RETRANSMISSION};
use contract::Time;
use wire::LinkId;

/// Writes so many percent of what waits for a connection, as far as its kernel has room.
pub fn write<W: Hosts>(world: &mut W, host: usize, link: LinkId, share: u32) {
    write_some(world, host, link, |bytes| bytes * share as usize / 100);
}

/// Writes so many bytes of what waits for a connection at most, as far as its kernel has room.
pub fn write_up_to<W: Hosts>(world: &mut W, host: usize, link: LinkId, bytes_max: usize) {
    write_some(world, host, link, |bytes| bytes.min(bytes_max));
}

/// Writes some of what waits for a connection and its kernel has room for. `share` is how much of that.
fn write_some<W: Hosts>(world: &mut W, host: usize, link: LinkId, share: impl Fn(usize) -> usize) {
    let settings = world.network().settings;
    let Some(socket) = world.sockets(host).get_mut(link) else { return };
    socket.weigh(settings.drained_bytes);
    let (end, peer) = (socket.end, socket.peer);
    if world.network().link(end) != Some(link) {
        return;
    }
    let delay = world.latency(host, peer) + world.lag(end);
    let split = world.machine(host).random.u32(0..SPLIT_ONE_IN) == 0;
    let second = if split { Some(world.latency(host, peer)) } else { None };
    // What follows a lost segment waits until that has come again.
    let delay = if world.loses(host, peer) { delay + RETRANSMISSION } else { delay };
    let now = world.now();
    send(world, host, (end, link), share, now + delay, second.map(|second| now + second));
    let Some(socket) = world.sockets(host).get_mut(link) else { return };
    let waits = !socket.outbox.is_empty();
    let drained = socket.has_drained(settings.drained_bytes);
    let closing = socket.closing.is_some();
    let shuts = closing && !waits && !std::mem::replace(&mut socket.shut, true);
    let overflows = socket.outbox.len() > settings.outbox_bytes_max;
    world.network().lane(end).starved |= waits;
    if shuts {
        send_end(world, end, now + delay);
    } else if drained && !closing {
        world.has_news(host, News::Drained(link));
    }
    if overflows {
        abandon(world, end);
        forget_socket(world, host, link);
    }
}

/// A share of what waits and there is room for goes on its way. It arrives at `soonest` at the earliest, and
/// where it comes in two pieces, the `second` of them then.
fn send<W: Hosts>(
    world: &mut W,
    host: usize,
    (end, link): (EndId, LinkId),
    share: impl Fn(usize) -> usize,
    soonest: Time,
    second: Option<Time>,
) {
    let window = world.network().settings.window_bytes;
    let room = window.saturating_sub(world.network().lane(end).bytes);
    let Some(waiting) = world.sockets(host).get(link).map(|socket| socket.outbox.len()) else { return };
    let size = share(waiting.min(room));
    if size == 0 {
        return;
    }
    let (mut bytes, mut notes) = world.network().pool.pop().unwrap_or_default();
    if let Some(socket) = world.sockets(host).get_mut(link) {
        socket.outbox.copy_to(&mut bytes, size);
        socket.leave(size, |place, note| notes.push_back((place, note)));
    }
    notes.iter().for_each(|(_, note)| world.left(host, link, note));
    let lane = world.network().lane(end);
    let arrives = lane.last.max(soonest);
    lane.bytes += size;
    // Now and then a write comes in two pieces, in the middle of a frame or not.
    let rest = second.filter(|_| size > 1).map(|second| {
        let place = (size / 2 + size % 7).min(size - 1);
        let first = notes.partition_point(|(end, _)| *end <= place);
        let mut notes = notes.split_off(first);
        notes.iter_mut().for_each(|(end, _)| *end -= place);
        Chunk { bytes: bytes.split_off(place), read: 0, notes, arrives: arrives.max(second), end: false }
    });
    let whole = Chunk { bytes, read: 0, notes, arrives, end: false };
    for chunk in std::iter::once(whole).chain(rest) {
        let (lane, arrives) = (world.network().lane(end), chunk.arrives);
        lane.last = arrives;
        lane.chunks.push_back(chunk);
        world.put_down(arrives, Passing::Arrive(end.other()));
    }
}

/// A connection has room for what did not fit before.
pub(super) fn room<W: Hosts>(world: &mut W, end: EndId) {
    let Some(slot) = world.network().conn(end) else { return };
    let (host, state) = (slot.ends[end.side].host, slot.ends[end.side].state);
    if let EndState::Open(link) = state {
        world.sockets(host).touch(link);
        world.rouse(host);
    }
}

/// Connections that a process has asked to close get their time.
pub fn watch_closing<W: Hosts>(world: &mut W, host: usize) {
    let until = world.now() + world.network().settings.closing_time;
    for link in std::mem::take(&mut world.sockets(host).closed) {
        let Some(socket) = world.sockets(host).get_mut(link) else { continue };
        socket.closing = Some(until);
        let end = socket.end;
        world.put_down(until, Passing::CloseTimeout(end));
    }
}

/// One write in so many comes in two pieces.
const SPLIT_ONE_IN: u32 = 16;
