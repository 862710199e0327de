//! One connection, and how its bytes leave.

use crate::shell::Shell;
use contract::Time;
use rustix::io::Errno;
use rustix::net::{self, SendFlags};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use wire::{Outbox, PeerIndex};

/// One connection, and what waits on it.
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// Who made it, if somebody else did.
    pub(crate) from: Option<IpAddr>,
    pub(crate) phase: Phase,
    pub(crate) outbox: Outbox,
    /// What lies between the outbox and the socket, where something does.
    pub(crate) shell: Option<Box<Shell>>,
    /// The beginning of a frame whose end has not come.
    pub(crate) partial: Vec<u8>,
    pub(crate) dirty: bool,
    /// Something of it must leave after what the others have to send.
    pub(crate) pass: Pass,
    pub(crate) waits_to_write: bool,
    pub(crate) congested: bool,
    /// Its last read brought so much that more is likely to wait.
    pub(crate) floods: bool,
}

/// When what a connection has to send leaves, among all that leaves in one turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Pass {
    /// It has left.
    Done,
    /// What is for subscribers, and copies.
    First,
    /// What says that something of the first pass has been dispatched.
    Prunes,
    /// What says that something of the first pass is covered.
    Answers,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Connecting { peer: PeerIndex, until: Time },
    Open,
    Closing { until: Time },
}

impl Connection {
    /// Bytes that have not left.
    pub(crate) fn waiting(&self) -> usize {
        self.outbox.len() + self.shell.as_ref().map_or(0, |shell| shell.len())
    }

    /// Sends what the socket takes.
    pub(crate) fn send_plain(&mut self) {
        while !self.outbox.is_empty() {
            match send(&self.socket, self.outbox.unsent()) {
                Sent::Some(sent) => self.outbox.consume(sent),
                Sent::Full => break,
                Sent::Broken => {
                    self.outbox = Outbox::default();
                    break;
                }
            }
        }
    }

    /// The same where something lies between.
    pub(crate) fn send_sealed(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        loop {
            shell.seal(&mut self.outbox);
            if self.outbox.is_empty() && matches!(self.phase, Phase::Closing { .. }) {
                shell.say_farewell();
            }
            if shell.len() == 0 {
                return;
            }
            match send(&self.socket, shell.ready()) {
                Sent::Some(sent) => shell.consume(sent),
                Sent::Full => return,
                Sent::Broken => {
                    self.outbox = Outbox::default();
                    return shell.give_up();
                }
            }
        }
    }
}

enum Sent {
    Some(usize),
    /// The socket has no room.
    Full,
    /// The peer is gone. What it sent before may still wait; reading it finds the end as well.
    Broken,
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> Sent {
    loop {
        match net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => return Sent::Some(sent),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Full,
            Err(_) => return Sent::Broken,
        }
    }
}
