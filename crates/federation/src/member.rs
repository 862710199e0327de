//! What a site and a router have in common: a session, a name that each claims, and a tree that must be of our layout.
//!
//! The idea: whether the tree is ours is asked of what is known whenever a name is to be claimed, so nothing has to be remembered over a
//! break. Nothing is written before it is.

use crate::coordination::{Lasting, Operation, Refusal, Reply, Request, Session, Ticket};
use crate::mirror::{Aspect, Change, Mirror};
use crate::owned::{Owned, RETRY, Standing};
use crate::records::Holder;
use crate::tree::{VERSION, VERSION_PATH};
use contract::{Span, Time};
use std::collections::VecDeque;

/// The face that sites and routers show to whoever drives them: a host with a real service, a simulator with an invented one.
pub trait Participant {
    /// The service's session has changed.
    fn handle_session(&mut self, now: Time, session: Session);
    /// A request has been answered.
    fn handle_reply(&mut self, now: Time, ticket: Ticket, reply: Reply);
    /// A watch has rung.
    fn handle_event(&mut self, now: Time, path: &str);
    /// Does what is due.
    fn handle_timeout(&mut self, now: Time);
    /// When something is due although nothing comes.
    fn next_deadline(&self) -> Time;
    /// The next request for the service.
    fn poll_request(&mut self) -> Option<(Ticket, Request)>;
}

/// What a participant is told of its name and of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MemberNews {
    /// The name is ours.
    Claimed,
    /// The name is held by another pair. Nothing of this participant is coordinated until that is mended.
    NameTaken,
    /// The other broker of this pair has claimed the name in a later reign.
    Deposed,
    /// The tree is of another release, or of something else.
    Layout {
        /// What it says that it is.
        found: String,
    },
    /// The service refuses what has to be written or read. It is tried again every second.
    Forbidden {
        /// The node.
        path: String,
        /// Why.
        why: Refusal,
    },
}

/// Purposes of requests that every participant has.
pub(crate) trait Purposes: Copy {
    /// The tree is made ours.
    const VERSION: Self;
    /// The name is claimed.
    const CLAIM: Self;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    /// Not claimed in this session.
    Open,
    Held,
    /// Told that it cannot be had.
    Lost,
}

/// See the module's words.
#[derive(Clone, Debug)]
pub(crate) struct Member<P> {
    pub(crate) mirror: Mirror<P>,
    pub(crate) holder: Holder,
    claim: Owned,
    name: Name,
    /// The tree is being made ours.
    making: bool,
    /// What has been told of the tree last.
    told: Option<MemberNews>,
    claim_at: Time,
    /// When what could not be read is tried again.
    barred_at: Time,
    news: VecDeque<MemberNews>,
}

impl<P: Purposes> Member<P> {
    pub(crate) fn new(holder: Holder, claim: Owned) -> Member<P> {
        let mut mirror = Mirror::new();
        mirror.follow(Aspect::Data, VERSION_PATH);
        Member {
            mirror,
            holder,
            claim,
            name: Name::Open,
            making: false,
            told: None,
            claim_at: Time::NEVER,
            barred_at: Time::NEVER,
            news: VecDeque::new(),
        }
    }

    /// It is somebody else from now on, and claims its name anew.
    pub(crate) fn rename(&mut self, holder: Holder, claim: Owned) {
        (self.holder, self.claim, self.name) = (holder, claim, Name::Open);
    }

    /// Whether something may be written in the name's protection.
    pub(crate) fn holds_name(&self) -> bool {
        self.name == Name::Held && self.mirror.session().is_some()
    }

    /// The node that claims the name.
    pub(crate) fn path(&self) -> &str {
        self.claim.path()
    }

    pub(crate) fn poll_news(&mut self) -> Option<MemberNews> {
        self.news.pop_front()
    }

    pub(crate) fn tell(&mut self, news: MemberNews) {
        self.news.push_back(news);
    }

    /// A new session claims the name so long after it was connected.
    pub(crate) fn handle_session(&mut self, now: Time, session: Session, pause: Span) -> Change {
        let change = self.mirror.handle_session(session);
        match change {
            Change::Nothing | Change::Away => {}
            Change::Back => self.claim_at = now,
            Change::New => {
                self.claim.forget();
                self.name = Name::Open;
                self.claim_at = now + pause;
            }
        }
        change
    }

    /// Tries again what could not be read. Returns whether the name is to be claimed.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        if self.barred_at <= now {
            self.barred_at = Time::NEVER;
            self.mirror.read_barred();
        }
        let is_due = self.claim_at <= now;
        if is_due {
            self.claim_at = Time::NEVER;
        }
        is_due
    }

    pub(crate) fn next_deadline(&self) -> Time {
        self.claim_at.min(self.barred_at)
    }

    /// Everything that came has been taken up: what could not be read is told, and waits.
    pub(crate) fn rest(&mut self, now: Time) {
        while let Some((path, why)) = self.mirror.poll_barred() {
            self.tell(MemberNews::Forbidden { path, why });
        }
        if self.mirror.is_barred() && self.barred_at == Time::NEVER {
            self.barred_at = now + RETRY;
        }
    }

    /// Claims the name, with this in its node. Returns whether it is held.
    pub(crate) fn claim(&mut self, now: Time, data: &[u8]) -> bool {
        if self.mirror.session().is_none() || self.claim_at != Time::NEVER || !self.is_ours() {
            return false;
        }
        let trouble = match self.claim.pursue(now, Some(data), &mut self.mirror, P::CLAIM) {
            Standing::Busy => return false,
            Standing::Done => {
                if std::mem::replace(&mut self.name, Name::Held) != Name::Held {
                    self.tell(MemberNews::Claimed);
                }
                return true;
            }
            Standing::Waits(at) => {
                self.claim_at = at;
                return false;
            }
            Standing::Foreign => MemberNews::NameTaken,
            Standing::Deposed => MemberNews::Deposed,
            Standing::Refused(why) => MemberNews::Forbidden { path: self.claim.path().to_owned(), why },
        };
        if std::mem::replace(&mut self.name, Name::Lost) != Name::Lost {
            self.tell(trouble);
        }
        self.claim_at = now + RETRY;
        false
    }

    /// The name is not held as was thought: it was taken, or the session that held it is gone. `false`: that was known.
    pub(crate) fn lose_name(&mut self) -> bool {
        let held = self.name == Name::Held;
        if held {
            self.name = Name::Open;
            self.claim.forget();
        }
        held
    }

    /// Whether the tree says that it is ours. One that says nothing becomes so.
    fn is_ours(&mut self) -> bool {
        match self.mirror.data(VERSION_PATH) {
            Some(node) if node.data == VERSION.as_bytes() => {
                // It has been mended; who heard of it hears of that.
                if self.told.take().is_some() && self.name == Name::Held {
                    self.tell(MemberNews::Claimed);
                }
                return true;
            }
            Some(node) => {
                let found = String::from_utf8_lossy(&node.data).chars().take(FOUND_SHOWN).collect();
                self.tell_of_tree(MemberNews::Layout { found });
            }
            None if self.mirror.is_known(Aspect::Data, VERSION_PATH) && !self.making => {
                self.making = true;
                let (path, data) = (VERSION_PATH.to_owned(), VERSION.as_bytes().to_vec());
                let create = Operation::Create { path, data, lasting: Lasting::Persistent };
                self.mirror.write(P::VERSION, vec![create]);
            }
            None => {}
        }
        false
    }

    fn tell_of_tree(&mut self, news: MemberNews) {
        if self.told.as_ref() != Some(&news) {
            self.told = Some(news.clone());
            self.tell(news);
        }
    }

    /// The tree could be made ours, or not. What stands there now is read anyway, since it rings.
    pub(crate) fn tree_made(&mut self, now: Time, reply: &Reply) {
        self.making = false;
        if let Reply::Refused { why, .. } = reply
            && *why != Refusal::Exists
        {
            self.tell_of_tree(MemberNews::Forbidden { path: VERSION_PATH.to_owned(), why: *why });
            self.claim_at = now + RETRY;
        }
    }

    /// The node that claims the name was written, or looked at.
    pub(crate) fn name_written(&mut self, now: Time, reply: &Reply) {
        self.claim.settle(now, reply, &self.holder, &mut self.mirror, P::CLAIM);
    }
}

/// So many letters of what a tree says that it is are shown.
const FOUND_SHOWN: usize = 64;
