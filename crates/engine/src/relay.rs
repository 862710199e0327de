//! Clients that reach the backup and not the primary: what they send and get passes over the link between the brokers.
//!
//! The problem: a pair is whole, and a client is cut off from the host of the one broker that serves. The backup cannot serve it, since
//! only one broker reigns; and no broker has failed, so nothing would ever change.
//!
//! The idea: the backup understands nothing of what such a client says. It opens a *channel* to the primary, in which the client's bytes
//! go there and the primary's come back, as they are. To the primary, a channel is a connection like any other, with a link of its own
//! ([`LinkId::of_channel`]). So nothing that is promised depends on it: admission, sessions, copies, users and confirmations are those
//! of a connection that is a little longer.
//!
//! The bounds: so many channels (`limits.relayed`); what waits in one ([`WAITING_BYTES_MAX`] at the backup, where a client that sends more
//! is closed; at the primary, what may wait for any subscriber); what one may have sent that has no place at the other end yet
//! ([`WINDOW_BYTES`]); and what is on the link for all of them ([`Window`]), so that copies and polls wait behind little.
//!
//! The invariants: a channel is over when both brokers have said so, and only then is its number used again; the channels of one link
//! were all opened by the same side, so that a number means the same to both.

mod channel;
mod ways;

pub(crate) use ways::Ways;
mod window;

use broker::Survey;
use channel::Channel;
use contract::Time;
use std::collections::{BTreeMap, VecDeque};
use window::Window;
use wire::limits::TEXT_BYTES_MAX;
use wire::{Effects, Frame, LinkId, NO_CHANNEL, Outbox};

/// Bytes that a client has sent and that wait at the backup. One for which more would wait is closed.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Bytes of one channel, each way, that have left one broker and have no place at the other yet.
const WINDOW_BYTES: usize = 64 << 10;
/// Bytes that one channel sends before others have their turn.
const TURN_BYTES: usize = 8 << 10;

/// Something that must be done with the node, once it is not busy.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// The backup has opened a channel.
    Opened { channel: u32, client: Box<str>, address: Box<str>, certificate: Box<str> },
    /// The backup has asked for one that cannot be had.
    Refused { from: LinkId, channel: u32 },
    /// Bytes have come.
    Came(u32),
    /// The other broker says that nothing more comes.
    Ended(u32),
    /// This broker has closed its own link, and must be told that it is gone.
    Closed(u32),
    /// What waited for it has gone down.
    Drained(u32),
}

/// All channels of a broker.
#[derive(Clone, Default)]
pub(crate) struct Relay {
    /// The link to the other broker on which they lie.
    pair: Option<LinkId>,
    /// They were opened by the other broker, and lead to this one.
    lead_here: bool,
    channels: Vec<Option<Channel>>,
    open: usize,
    /// The connections of relayed clients at the backup, with their channels; `None` where that is over and the connection ends.
    clients: BTreeMap<LinkId, Option<u32>>,
    steps: VecDeque<Step>,
    /// Channels with something to send, each once.
    busy: VecDeque<u32>,
    /// Some channel may be over.
    some_end: bool,
    /// What is on the link.
    window: Window,
    /// Bytes that came and of which it has not been told.
    came: usize,
    /// Bytes of clients since the process started, both ways.
    bytes: u64,
    /// When it was last looked at.
    now: Time,
}

impl Relay {
    /// Whether there is nothing to be done.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.open == 0 && self.steps.is_empty()
    }

    /// Whether a connection is one of a relayed client.
    #[inline]
    pub(crate) fn carries(&self, link: LinkId) -> bool {
        !self.clients.is_empty() && self.clients.contains_key(&link)
    }

    /// Whether something waits that could be sent to the other broker.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.busy.is_empty() && self.window.room() > 0
    }

    /// What is shown of it.
    pub(crate) fn survey(&self, into: &mut Survey) {
        let open = self.channels.iter().flatten().filter(|channel| channel.is_open());
        for channel in open {
            into.relayed += 1;
            let names = &mut into.relayed_names;
            if names.len() + channel.client.len() + 2 <= TEXT_BYTES_MAX {
                names.push_str(if names.is_empty() { "" } else { ", " });
                names.push_str(&channel.client);
            }
        }
        into.relayed_bytes = self.bytes;
    }

    fn channel(&mut self, number: u32) -> Option<&mut Channel> {
        self.channels.get_mut(number as usize)?.as_mut()
    }

    /// The backup begins to relay a client. `None`: there are as many as may be, or channels that led here are not over.
    fn begin(&mut self, now: Time, pair: LinkId, client: LinkId, name: &str, limit: usize) -> Option<u32> {
        let others = self.open > 0 && (self.lead_here || self.pair != Some(pair));
        if others || self.open >= limit {
            return None;
        }
        let free = self.channels.iter().position(Option::is_none);
        let number = free.unwrap_or(self.channels.len()) as u32;
        self.set_up(pair, false, number, Channel::new(now, name, Some(client)));
        self.clients.insert(client, Some(number));
        Some(number)
    }

    fn set_up(&mut self, pair: LinkId, lead_here: bool, number: u32, channel: Channel) {
        if self.open == 0 {
            (self.pair, self.lead_here, self.came) = (Some(pair), lead_here, 0);
            self.window = Window::default();
        }
        let index = number as usize;
        if index >= self.channels.len() {
            self.channels.resize_with(index + 1, || None);
        }
        self.channels[index] = Some(channel);
        self.open += 1;
    }

    /// A relayed client has sent something. `false`: more would wait than may.
    fn take(&mut self, number: u32, bytes: &[u8]) -> bool {
        let Some(channel) = self.channel(number).filter(|channel| channel.is_open()) else { return true };
        if channel.out.len() + bytes.len() > WAITING_BYTES_MAX {
            return false;
        }
        channel.out.append(|out| out.extend_from_slice(bytes));
        channel.bytes += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        self.call(number);
        true
    }

    /// The other broker has sent a frame about channels.
    pub(crate) fn hear(&mut self, now: Time, from: LinkId, frame: &Frame<'_>, limit: usize) {
        self.now = now;
        if let Frame::RelayOpen { channel, client, address, certificate } = *frame {
            let fits = self.open == 0 || (self.lead_here && self.pair == Some(from));
            let free = self.channel(channel).is_none();
            if fits && free && (channel as usize) < limit {
                self.set_up(from, true, channel, Channel::new(now, client, None));
                let (client, address, certificate) = (client.into(), address.into(), certificate.into());
                self.steps.push_back(Step::Opened { channel, client, address, certificate });
            } else if free {
                self.steps.push_back(Step::Refused { from, channel });
            }
        } else if self.pair == Some(from) {
            self.hear_of_channel(now, frame);
        }
    }

    fn hear_of_channel(&mut self, now: Time, frame: &Frame<'_>) {
        match *frame {
            Frame::Relay { channel: number, bytes } => {
                self.came += bytes.len();
                self.bytes += bytes.len() as u64;
                let Some(channel) = self.channel(number) else { return };
                channel.bytes += bytes.len() as u64;
                channel.owed += bytes.len();
                channel.came.extend_from_slice(bytes);
                self.present_again(number);
            }
            Frame::RelayRoom { channel: NO_CHANNEL, bytes } => {
                self.window.came(now, bytes as usize);
            }
            Frame::RelayRoom { channel: number, bytes } => {
                if let Some(channel) = self.channel(number) {
                    channel.room = channel.room.saturating_add(bytes as usize).min(WINDOW_BYTES);
                    self.call(number);
                }
            }
            Frame::RelayEnd { channel: number } => {
                if let Some(channel) = self.channel(number)
                    && !std::mem::replace(&mut channel.end_heard, true)
                {
                    self.some_end = true;
                    self.steps.push_back(Step::Ended(number));
                }
            }
            _ => {}
        }
    }

    /// The broker writes to a relayed client.
    pub(crate) fn write(&mut self, number: u32, write: impl FnOnce(&mut Outbox)) {
        if let Some(channel) = self.channel(number).filter(|channel| channel.is_open()) {
            write(&mut channel.out);
            self.call(number);
        }
    }

    /// How much waits for a relayed client here.
    pub(crate) fn backlog(&self, number: u32) -> usize {
        self.channels.get(number as usize).and_then(Option::as_ref).map_or(0, |channel| channel.out.len())
    }

    /// The broker closes a relayed client's link, when what was written has left.
    pub(crate) fn hang_up(&mut self, number: u32) {
        if self.end(number) {
            self.steps.push_back(Step::Closed(number));
        }
    }

    /// Nothing more is written into a channel. `false`: that was so before.
    fn end(&mut self, number: u32) -> bool {
        let Some(channel) = self.channel(number) else { return false };
        let ends = !std::mem::replace(&mut channel.ending, true);
        if ends {
            self.call(number);
        }
        ends
    }

    /// What came and was not consumed is to be looked at.
    pub(crate) fn present_again(&mut self, number: u32) {
        if let Some(channel) = self.channel(number)
            && !std::mem::replace(&mut channel.fresh, true)
        {
            self.steps.push_back(Step::Came(number));
        }
    }

    /// So many bytes that came in a channel have found their place.
    fn give_room(&mut self, number: u32) {
        if let Some(channel) = self.channel(number) {
            channel.room_due += std::mem::take(&mut channel.owed);
            self.call(number);
        }
    }

    /// A channel has something to send.
    fn call(&mut self, number: u32) {
        if let Some(channel) = self.channel(number)
            && !std::mem::replace(&mut channel.called, true)
        {
            self.busy.push_back(number);
        }
    }

    /// Sends the other broker what it has room for, each channel in its turn.
    pub(crate) fn pump(&mut self, net: &mut impl Effects) {
        let (Some(pair), now) = (self.pair, self.now) else { return };
        if self.came > 0 {
            let bytes = std::mem::take(&mut self.came) as u32;
            net.send(pair, &Frame::RelayRoom { channel: NO_CHANNEL, bytes });
        }
        // All have a turn at least, for what takes no room on the link.
        let mut owed_turns = self.busy.len();
        while (owed_turns > 0 || self.window.room() > 0)
            && let Some(number) = self.busy.pop_front()
        {
            owed_turns = owed_turns.saturating_sub(1);
            let most = self.window.room().min(TURN_BYTES);
            let Some(channel) = self.channel(number) else { continue };
            let sent = channel.send(number, pair, most, net);
            channel.called = channel.wants_to_send();
            let (again, drained, ends) = (channel.called, channel.has_drained(), channel.end_told);
            self.some_end |= ends;
            self.window.sent(now, sent);
            if again {
                self.busy.push_back(number);
            }
            if drained {
                self.steps.push_back(Step::Drained(number));
            }
        }
    }

    /// Forgets a channel if it is over on both sides, and returns it.
    fn let_go(&mut self, number: u32) -> Option<Channel> {
        let slot = self.channels.get_mut(number as usize)?;
        let over = slot.take_if(|channel| channel.end_told && channel.end_heard)?;
        self.open -= 1;
        Some(over)
    }

    /// All channels are over, since the other broker is gone.
    fn lose_all(&mut self) -> Vec<(u32, Channel)> {
        let channels = std::mem::take(&mut self.channels);
        (self.busy, self.steps) = Default::default();
        (self.open, self.pair) = (0, None);
        (0..).zip(channels).filter_map(|(number, channel)| Some((number, channel?))).collect()
    }
}
