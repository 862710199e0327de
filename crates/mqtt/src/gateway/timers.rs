//! What is due at some time.

use super::{Gateway, Phase, Rules};
use crate::ids::SessionId;
use crate::packet::Reason;
use crate::records::Key;
use contract::{Span, Time, invariant};
use wire::{Effects, LinkId};

/// What is looked at when its time comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A connection should have said who it is.
    Greeting(LinkId),
    /// A client that waits for this broker's reign should go elsewhere.
    Hold(LinkId),
    /// A client should have been heard.
    KeepAlive(LinkId),
    /// A session ends.
    End(SessionId),
    /// A will is published.
    Will(SessionId),
    /// `$SYS/broker/…` is published.
    Sys,
}

/// Retained messages that are looked at in one turn because they may have expired.
const EXPIRED_PER_TURN: usize = 256;

impl<R: Rules> Gateway<R> {
    /// When [`Gateway::handle_timeout`] has something to do.
    pub fn next_deadline(&self) -> Time {
        let in_portions = [!self.walking.is_empty(), !self.gone.is_empty(), !self.orphans.is_empty()];
        if in_portions.contains(&true) || !self.troubles.is_empty() {
            return Time::ZERO;
        }
        let expiry = self.retained.next_expiry().unwrap_or(Time::NEVER);
        self.timers.first().map_or(expiry, |(at, _)| expiry.min(*at))
    }

    /// How many things are due at some time.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        while let Some(&(at, timer)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Greeting(link) => {
                    self.forget_timer(link);
                    self.refuse(now, link, Reason::MAXIMUM_CONNECT_TIME, "no CONNECT came in time", net);
                }
                Timer::Hold(link) => {
                    self.forget_timer(link);
                    self.send_elsewhere(link, net);
                }
                Timer::KeepAlive(link) => self.check_keep_alive(now, link, net),
                // Whoever reigns may have told of another time since, or that the session has ended.
                Timer::End(session) => {
                    if self.sessions.get(session).is_some_and(|session| session.ends_at == Some(at)) {
                        self.stats.sessions_expired += 1;
                        self.end_session(session);
                    }
                }
                Timer::Will(session) => {
                    if self.sessions.get(session).is_some_and(|session| session.will_at == Some(at)) {
                        self.publish_will(session);
                    }
                }
                Timer::Sys => self.publish_sys(now, net),
            }
        }
        let Gateway { retained, records, .. } = self;
        retained.expire(now, EXPIRED_PER_TURN, &mut |topic| records.remove(&Key::Retained(topic)));
    }

    /// `$SYS/broker/…` comes again after the interval, as long as this broker reigns.
    pub(crate) fn sys_again(&mut self, now: Time) {
        let interval = self.settings.limits.sys_interval;
        self.timers.retain(|(_, timer)| *timer != Timer::Sys);
        if self.reigns && interval > Span::ZERO {
            self.timers.insert((now + interval, Timer::Sys));
        }
    }

    /// The clock has been set, and is `by` further now, or back where that is negative: whatever is to last for a while lasts as long
    /// as it would have.
    pub fn clock_set(&mut self, now: Time, by: Span) {
        self.timers = self.timers.iter().map(|(at, timer)| (at.moved(by), *timer)).collect();
        for client in self.clients.iter_mut().filter_map(Option::as_deref_mut) {
            client.heard = client.heard.moved(by);
            client.timer = client.timer.map(|(at, timer)| (at.moved(by), timer));
        }
        for session in self.sessions.iter_mut() {
            session.ends_at = session.ends_at.map(|at| at.moved(by));
            session.will_at = session.will_at.map(|at| at.moved(by));
        }
        self.retained.move_times(by);
        self.bodies.move_times(by);
        self.steps.add(now, by);
    }

    fn forget_timer(&mut self, link: LinkId) {
        match self.client_mut(link) {
            Some(client) => client.timer = None,
            None => invariant!("a connection that is timed is there"),
        }
    }

    pub(super) fn set_timer(&mut self, link: LinkId, at: Time, timer: Timer) {
        let Some(client) = self.clients.get_mut(link.0 as usize).and_then(Option::as_deref_mut) else {
            return invariant!("a connection that is timed is there");
        };
        if let Some(before) = client.timer.replace((at, timer)) {
            self.timers.remove(&before);
        }
        self.timers.insert((at, timer));
    }

    /// One and a half times the keep-alive may pass in silence.
    fn check_keep_alive(&mut self, now: Time, link: LinkId, net: &mut impl Effects) {
        self.forget_timer(link);
        let Some(client) = self.client_mut(link) else {
            return invariant!("a connection that is timed is there");
        };
        // A clock that went back: count from now.
        client.heard = client.heard.min(now);
        let until = client.heard + silence(client.keep_alive);
        if !matches!(client.phase, Phase::Open { .. }) {
            return invariant!("a client that is watched was let in");
        }
        if now < until {
            return self.set_timer(link, until, Timer::KeepAlive(link));
        }
        self.stats.keep_alive_missed += 1;
        self.refuse(now, link, Reason::KEEP_ALIVE_TIMEOUT, "nothing was heard within the keep-alive", net);
    }

    pub(super) fn watch_keep_alive(&mut self, now: Time, link: LinkId) {
        let Some(client) = self.client_mut(link) else {
            return invariant!("a client that is let in is connected");
        };
        let keep_alive = client.keep_alive;
        if keep_alive.is_forever() {
            if let Some(timer) = client.timer.take() {
                self.timers.remove(&timer);
            }
            return;
        }
        self.set_timer(link, now + silence(keep_alive), Timer::KeepAlive(link));
    }
}

/// Steps forward that the clock has made. Messages that are under way were stamped before; those that come after one are stamped later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Vec<(Time, Span)>);

impl Steps {
    /// The oldest is forgotten where there are more; whatever was stamped before has left.
    const MOST: usize = 8;

    fn add(&mut self, now: Time, by: Span) {
        if by <= Span::ZERO {
            // What has been stamped since cannot be told from what was stamped before. It expires later.
            return self.0.clear();
        }
        if self.0.len() == Self::MOST {
            self.0.remove(0);
        }
        self.0.push((now.moved(Span(-by.0)), by));
    }

    /// When something was stamped, by the clock as it is now.
    pub(crate) fn stamp(&self, created: Time) -> Time {
        self.0.iter().fold(created, |at, (before, by)| if at <= *before { at.moved(*by) } else { at })
    }
}

/// How long a client with this keep-alive may be silent.
fn silence(keep_alive: Span) -> Span {
    keep_alive + Span(keep_alive.0 / 2)
}
