//! How connections end.

use super::{Chunk, Conn, EndId, EndState, Hosts, News, Notes, Passing};
use contract::Time;
use std::collections::VecDeque;
use wire::LinkId;

/// The end of what one side sends goes after everything before it, and arrives at this time at the earliest.
pub(super) fn send_end<W: Hosts>(world: &mut W, end: EndId, soonest: Time) {
    let lane = world.network().lane(end);
    lane.last = lane.last.max(soonest);
    let arrives = lane.last;
    lane.chunks.push_back(Chunk { bytes: Vec::new(), read: 0, notes: Notes::new(), arrives, end: true });
    world.put_down(arrives, Passing::Arrive(end.other()));
}

/// An end is given up by its host: its process is gone, or never took it. The other learns of it after everything
/// that was sent.
pub(super) fn abandon<W: Hosts>(world: &mut W, end: EndId) {
    let now = world.now();
    let network = world.network();
    let Some(slot) = network.conn_mut(end).filter(|slot| slot.ends[end.side].state != EndState::Gone) else {
        return;
    };
    slot.ends[end.side].state = EndState::Gone;
    let told = slot.lanes[end.side].chunks.back().is_some_and(|chunk| chunk.end);
    if !told {
        let hosts = [slot.ends[0].host, slot.ends[1].host];
        let delay = world.latency(hosts[0], hosts[1]);
        send_end(world, end, now + delay);
    }
    lose_lane(world, end.other());
    world.network().retire(end.conn);
}

/// What one end has sent and the other has not read is lost.
pub(super) fn lose_lane<W: Hosts>(world: &mut W, end: EndId) {
    let slot = &mut world.network().conns[end.conn as usize];
    let lane = std::mem::take(&mut slot.lanes[end.side]);
    let (receiver, excused) = (slot.ends[1 - end.side].host, slot.cut || slot.doubted);
    if excused {
        lose(world, receiver, &lane.chunks);
    }
}

pub(super) fn lose<W: Hosts>(world: &mut W, receiver: usize, chunks: &VecDeque<Chunk<W::Note>>) {
    for (_, note) in chunks.iter().flat_map(|chunk| &chunk.notes) {
        world.lost(receiver, note);
    }
}

/// An end learns that its connection is no more.
pub(super) fn reset<W: Hosts>(world: &mut W, end: EndId) {
    let Some(slot) = world.network().conn(end) else { return };
    let (host, state) = (slot.ends[end.side].host, slot.ends[end.side].state);
    let (cut, ended) = (slot.cut, slot.lanes[1 - end.side].chunks.back().map(|last| last.end));
    if state == EndState::Gone || !world.machine(host).is_up() {
        return;
    }
    if let (EndState::Open(_), false, Some(ended)) = (state, cut, ended) {
        // What has come can still be read; then the process finds the end.
        lose_lane(world, end);
        if !ended {
            send_end(world, end.other(), world.now());
        }
        return;
    }
    world.network().conns[end.conn as usize].ends[end.side].state = EndState::Gone;
    for side in 0..2 {
        lose_lane(world, EndId { side, ..end });
    }
    if let EndState::Open(link) = state {
        forget_socket(world, host, link);
    }
    world.network().retire(end.conn);
    if let EndState::Open(_) = state {
        world.rouse(host);
    }
}

/// A connection of a process is gone; what it had not sent is lost, and the process must be told.
pub(super) fn forget_socket<W: Hosts>(world: &mut W, host: usize, link: LinkId) {
    let Some(end) = world.sockets(host).get(link).map(|socket| socket.end) else { return };
    let Conn { cut, doubted, .. } = world.network().conns[end.conn as usize];
    let excused = cut || doubted;
    let Some(socket) = world.sockets(host).get_mut(link) else { return };
    socket.broken = excused;
    let (peer, unsent) = (socket.peer, socket.drop_unsent());
    for note in unsent.iter().filter(|_| excused) {
        world.lost(peer, note);
    }
    world.has_news(host, News::Closed(link));
}

/// A node has been told that a connection is gone. What it had written there since that broke is lost as well. `false`: it
/// had been released before.
pub fn release<W: Hosts>(world: &mut W, host: usize, link: LinkId) -> bool {
    if let Some(socket) = world.sockets(host).get_mut(link).filter(|socket| socket.broken) {
        let (peer, unsent) = (socket.peer, socket.drop_unsent());
        unsent.iter().for_each(|note| world.lost(peer, note));
    }
    world.sockets(host).release(link)
}

pub(super) fn close_timeout<W: Hosts>(world: &mut W, end: EndId) {
    let Some(slot) = world.network().conn(end) else { return };
    let (host, state) = (slot.ends[end.side].host, slot.ends[end.side].state);
    if let EndState::Open(link) = state {
        give_up(world, host, link);
    }
}

/// A connection of a process ends for it at once, and for the other end after everything that was sent.
pub fn give_up<W: Hosts>(world: &mut W, host: usize, link: LinkId) {
    let Some(end) = world.sockets(host).get(link).map(|socket| socket.end) else { return };
    abandon(world, end);
    forget_socket(world, host, link);
    world.rouse(host);
}
