//! Clients come and go.

use super::publish::{Draft, is_own};
use super::timers::Timer;
use super::words::append_with_words;
use super::{ANSWER_TOO_LARGE, Action, Gateway, Login, Phase, Rules, Trouble, Wish};
use crate::aliases::Aliases;
use crate::ids::{NO_BODY, SessionId};
use crate::packet::{ConnAck, Connect, Disconnect, Reason, connack};
use crate::records::{Key, Records, write_session};
use crate::session::{Session, Walk, is_client_name};
use crate::settings::Standby;
use contract::{Mutant, Span, Time, invariant};
use std::net::SocketAddr;
use wire::{Effects, LinkId, Order};

/// Clients that wait to be known. Above it, further ones are refused.
const LOGINS_MAX: usize = 4_096;
/// `u32::MAX` seconds: for ever.
const FOR_EVER: u32 = u32::MAX;

impl<R: Rules> Gateway<R> {
    /// A client says who it is.
    pub(super) fn connect(
        &mut self,
        now: Time,
        link: LinkId,
        mut connect: Box<Connect>,
        net: &mut impl Effects,
    ) {
        let certificate = {
            let Some(client) = self.client_mut(link) else {
                return invariant!("a client that says who it is is connected");
            };
            client.name = Some(connect.client.clone());
            client.version = connect.version;
            (client.problems, client.bridge) = (connect.wants_problems, connect.bridge);
            client.packet_bytes_max = connect.packet_bytes_max.map_or(usize::MAX, |max| max as usize);
            client.certificate.clone()
        };
        if connect.authentication.is_some() {
            let text = "this broker knows no extended authentication";
            return self.refuse_connect(link, Reason::BAD_AUTHENTICATION_METHOD, Some(text), net);
        }
        if connect.client.is_empty() && !connect.version.is_5() && !connect.clean_start {
            let text = "a client without a name has no session to come back to";
            return self.refuse_connect(link, Reason::CLIENT_ID_NOT_VALID, Some(text), net);
        }
        if !is_client_name(&connect.client) {
            let text = "a client identifier has at most 123 bytes and no control characters";
            return self.refuse_connect(link, Reason::CLIENT_ID_NOT_VALID, Some(text), net);
        }
        if let Some(will) = &connect.will
            && (contract::check_name(&will.topic).is_err()
                || self.settings.limits.too_long(&will.topic).is_some()
                || is_own(&will.topic))
        {
            return self.refuse_connect(
                link,
                Reason::TOPIC_NAME_INVALID,
                Some("its will's topic is none that clients publish on, or too long"),
                net,
            );
        }
        if !self.rules.are_there() {
            return self.hold_or_open(now, link, connect, None, net);
        }
        if self.logins.len() >= LOGINS_MAX {
            return self.refuse_connect(
                link,
                Reason::SERVER_BUSY,
                Some("too many clients are logging in"),
                net,
            );
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let (client, user, password) =
            (connect.client.clone(), connect.user.clone(), connect.password.take());
        self.tickets.insert(ticket, link);
        self.logins.push_back(Login { ticket, client, user, password, certificate });
        match self.client_mut(link) {
            Some(client) => client.phase = Phase::Held { connect, ticket: Some(ticket) },
            None => invariant!("a client that says who it is is connected"),
        }
        // The same time limit as before it said who it is; the process around may be busy.
    }

    /// Who a client is: the name of its user, or why it may not come in.
    pub fn judged(
        &mut self,
        now: Time,
        ticket: u64,
        user: Result<Option<Box<str>>, Reason>,
        net: &mut impl Effects,
    ) {
        let asked = |client: &&mut super::Client| matches!(&client.phase, Phase::Held { ticket: Some(t), .. } if *t == ticket);
        // Whoever judges is a thread or a program of its own, and may say it twice.
        let Some(link) = self.tickets.remove(&ticket) else { return };
        // The client may have gone meanwhile, and another have its link.
        let Some(client) = self.client_mut(link).filter(asked) else { return };
        let Phase::Held { connect, .. } = std::mem::replace(&mut client.phase, Phase::Fresh) else {
            return invariant!("a client that was found waiting waits");
        };
        match user {
            Ok(user) => self.hold_or_open(now, link, connect, user, net),
            Err(reason) => {
                self.stats.logins_refused += 1;
                // Whoever checks logins tells of those that are wrong.
                let text = connect
                    .user
                    .is_none()
                    .then_some("it gives no user name, and nobody may come in without one");
                self.refuse_connect(link, reason, text, net);
            }
        }
    }

    /// Lets a client in, or has it wait if this broker does not reign: it may come to, before anybody else is asked.
    fn hold_or_open(
        &mut self,
        now: Time,
        link: LinkId,
        mut connect: Box<Connect>,
        user: Option<Box<str>>,
        net: &mut impl Effects,
    ) {
        if let Some(will) = &connect.will
            && !self.rules.allow(user.as_deref(), &connect.client, Action::Publish, &will.topic)
        {
            let why = self.rules.why_not(user.as_deref(), &connect.client, Action::Publish, &will.topic);
            return self.refuse_connect(link, Reason::NOT_AUTHORIZED, Some(&format!("its will: {why}")), net);
        }
        connect.user = user;
        if self.reigns {
            return self.open(now, link, &connect, net);
        }
        let until = now + self.settings.limits.hold;
        match self.client_mut(link) {
            Some(client) => client.phase = Phase::Held { connect, ticket: None },
            None => invariant!("a client that is held is connected"),
        }
        self.set_timer(link, until, Timer::Hold(link));
    }

    /// This broker does not reign, and will not soon.
    pub(super) fn send_elsewhere(&mut self, link: LinkId, net: &mut impl Effects) {
        let refers = self.settings.limits.standby == Standby::Redirect;
        let reason = match self.reference(link, Reason::USE_ANOTHER_SERVER).filter(|_| refers) {
            Some(_) => Reason::USE_ANOTHER_SERVER,
            None => Reason::SERVER_UNAVAILABLE,
        };
        self.stats.redirected += 1;
        self.refuse_connect(link, reason, Some("this broker stands by; the other one reigns"), net);
    }

    /// Where a client hears that it should go, if that is why it must, and as far as it is configured or known.
    pub(super) fn reference(&self, link: LinkId, reason: Reason) -> Option<Box<str>> {
        let client = self.client(link).filter(|_| reason == Reason::USE_ANOTHER_SERVER)?;
        let reference = self.settings.server_references.like(client.transport)?;
        match reference.strip_prefix(':') {
            None => Some(reference.into()),
            Some(port) => {
                let reached = SocketAddr::new(client.reached?.to_canonical(), port.parse().ok()?);
                Some(reached.to_string().into())
            }
        }
    }

    /// Says no to a CONNECT.
    pub(super) fn refuse_connect(
        &mut self,
        link: LinkId,
        reason: Reason,
        text: Option<&str>,
        net: &mut impl Effects,
    ) {
        self.stats.connects_refused += 1;
        // Who stands by says so once, and who checks logins says it itself.
        if let Some(text) =
            text.filter(|_| !matches!(reason, Reason::USE_ANOTHER_SERVER | Reason::SERVER_UNAVAILABLE))
        {
            let client = self.label(link);
            self.trouble(Trouble::Expelled { client, reason: text.to_owned() });
        }
        let reference = self.reference(link, reason);
        let Some(client) = self.client_mut(link) else {
            return invariant!("a client that is refused is connected");
        };
        let (version, most) = (client.version, client.packet_bytes_max);
        let server_reference = reference.as_deref();
        let words = text.and_then(|text| client.words(text));
        net.append(link, Order::Any, |out| {
            let _ = [server_reference, None].into_iter().any(|server_reference| {
                append_with_words(out, most, words, |out, text| {
                    connack(out, version, &ConnAck { reason, text, server_reference, ..ConnAck::default() });
                })
            });
        });
        self.hang_up(link, net);
    }

    /// This broker reigns now, or does not any more.
    pub fn set_reign(&mut self, now: Time, reigns: bool, net: &mut impl Effects) {
        if self.reigns == reigns {
            return;
        }
        self.reigns = reigns;
        if !reigns {
            self.end_counting();
            let text = "this broker stands by; the other one reigns";
            let refers = self.settings.limits.standby == Standby::Redirect;
            let reason = if refers { Reason::USE_ANOTHER_SERVER } else { Reason::SHUTTING_DOWN };
            for index in 0..self.clients.len() as u32 {
                if self.session_of(LinkId(index)).is_some() {
                    self.refuse(now, LinkId(index), reason, text, net);
                }
            }
            return;
        }
        self.begin_reign(now);
        for index in 0..self.clients.len() as u32 {
            let link = LinkId(index);
            // Others have the link, or nobody.
            let Some(client) = self.client_mut(link) else { continue };
            if !matches!(client.phase, Phase::Held { ticket: None, .. }) {
                continue;
            }
            match std::mem::replace(&mut client.phase, Phase::Fresh) {
                Phase::Held { connect, .. } => self.open(now, link, &connect, net),
                _ => invariant!("a client that was found waiting waits"),
            }
        }
    }

    /// Sessions that were connected elsewhere are given some time to come back.
    fn begin_reign(&mut self, now: Time) {
        self.sys_again(now);
        self.end_learning();
        let (grace, inflight) = (self.settings.limits.grace, self.settings.limits.inflight);
        for index in self.sessions.numbers() {
            let Some(session) = self.sessions.get_mut(index).filter(|session| session.link.is_none()) else {
                continue;
            };
            session.skip_ids(inflight);
            if session.ends_at.is_none() {
                // It was connected to the primary that has gone, or has no end.
                session.since = now;
            }
            if session.ends_at.is_none() && session.expiry != FOR_EVER {
                session.ends_at = Some(now + seconds(session.expiry).max(grace));
            }
            if session.will.is_some() && session.will_at.is_none() {
                let delay = session.will.as_ref().map_or(0, |will| will.delay).min(session.expiry);
                session.will_at = Some(now + seconds(delay).max(grace));
            }
            // Whatever the primary before has said, nothing takes longer than that.
            let latest = now + seconds(session.expiry).max(grace);
            session.ends_at = session.ends_at.map(|at| at.min(latest));
            session.will_at = session.will_at.map(|at| at.min(latest));
            let (ends_at, will_at) = (session.ends_at, session.will_at);
            ends_at.iter().for_each(|at| _ = self.timers.insert((*at, Timer::End(index))));
            will_at.iter().for_each(|at| _ = self.timers.insert((*at, Timer::Will(index))));
        }
    }

    /// Lets a client in.
    fn open(&mut self, now: Time, link: LinkId, connect: &Connect, net: &mut impl Effects) {
        let limits = self.settings.limits;
        let assigned = connect.client.is_empty().then(|| self.make_name());
        let name = assigned.as_deref().unwrap_or(&connect.client);
        let known = self.sessions.find(name);
        if let Some(known) = known {
            self.take_over(now, known, connect.clean_start, net);
        }
        let user = connect.user.as_deref();
        let connected = self.connected.get(&connect.user).copied().unwrap_or(0);
        if connected >= self.rules.connections(user) {
            self.stats.refused_full += 1;
            let text = "the user has as many connections as it may";
            return self.refuse_connect(link, Reason::QUOTA_EXCEEDED, Some(text), net);
        }
        let known = self.sessions.find(name).filter(|_| !connect.clean_start);
        if known.is_none() && self.sessions.len() >= limits.sessions {
            self.stats.refused_full += 1;
            let text = "the broker keeps no more sessions: raise mqtt.sessions";
            return self.refuse_connect(link, Reason::QUOTA_EXCEEDED, Some(text), net);
        }
        let index = known.unwrap_or_else(|| self.sessions.insert(Session::new(name, connect.version)));
        let longest = self.longest_expiry();
        let expiry = connect.session_expiry.min(longest);
        let keep_alive = seconds(u32::from(connect.keep_alive));
        // Who cannot be told of a shorter one has its own.
        let shortened = if connect.version.is_5() { keep_alive.min(limits.keep_alive) } else { keep_alive };
        let given = if connect.keep_alive == 0 { Span::FOREVER } else { shortened };
        self.attach(now, link, index, connect, expiry);
        self.serve_in_turn(link, index, net);
        let Some(client) = self.client_mut(link) else {
            return invariant!("a client that is let in is connected");
        };
        client.phase = Phase::Open { session: index };
        client.keep_alive = given;
        if std::mem::take(&mut client.waits) {
            net.present_again(link);
        }
        let word = ConnAck {
            session_present: known.is_some(),
            reason: Reason::SUCCESS,
            session_expiry: (expiry != connect.session_expiry).then_some(expiry),
            receive_maximum: Some(limits.receive_maximum),
            packet_bytes_max: Some(limits.packet_bytes as u32),
            assigned_client: assigned.as_deref(),
            topic_alias_maximum: limits.topic_aliases,
            server_keep_alive: (connect.keep_alive != 0 && shortened != keep_alive)
                .then_some((shortened.0 / Span::secs(1).0) as u16),
            server_reference: None,
            text: None,
        };
        // A session is there for its client when the backup knows it.
        let most = connect.packet_bytes_max.map_or(usize::MAX, |most| most as usize);
        let mut fits = true;
        net.append(link, Order::Last, |out| {
            fits = append_with_words(out, most, None, |out, _| connack(out, connect.version, &word));
        });
        if !fits {
            // Nobody hears a DISCONNECT before a CONNACK, and who was never let in leaves no will.
            match self.sessions.get_mut(index) {
                Some(session) => session.will = None,
                None => invariant!("a client that is let in has a session"),
            }
            let client = self.label(link);
            self.trouble(Trouble::Expelled { client, reason: ANSWER_TOO_LARGE.to_owned() });
            self.hang_up(link, net);
            return self.detach(now, index, link, ANSWER_TOO_LARGE);
        }
        self.tell_came(link, name, connect, known.is_some());
        self.stats.connects += 1;
        self.watch_keep_alive(now, link);
        self.record_session(index);
        self.release_again(index, net);
        self.pump(now, index, net);
    }

    /// Tells whoever runs the broker of a client that has been let in.
    fn tell_came(&mut self, link: LinkId, name: &str, connect: &Connect, resumed: bool) {
        let from = self.client(link).and_then(|client| client.from);
        self.trouble(Trouble::Came {
            client: name.into(),
            user: connect.user.clone(),
            address: from.map(|from| from.to_string()).unwrap_or_default(),
            version: connect.version,
            resumed,
        });
    }

    /// A session has a connection now.
    fn attach(&mut self, now: Time, link: LinkId, index: SessionId, connect: &Connect, expiry: u32) {
        let limits = self.settings.limits;
        *self.connected.entry(connect.user.clone()).or_default() += 1;
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("a client that is let in has a session");
        };
        (session.link, session.since) = (Some(link), now);
        session.aliases = Aliases::new(connect.topic_alias_maximum.min(limits.topic_aliases_out));
        session.version = connect.version;
        session.user.clone_from(&connect.user);
        if session.is_persistent() && expiry == 0 {
            remove_records(&mut self.records, session);
        }
        session.expiry = expiry;
        session.will.clone_from(&connect.will);
        session.resend_from = 0;
        session.begin_again();
        session.window = usize::from(connect.receive_maximum.min(limits.inflight)).max(1);
        let (ends_at, will_at) = (session.ends_at.take(), session.will_at.take());
        self.forget_times(index, ends_at, will_at);
    }

    /// Seconds for which a session may outlive its connection.
    pub(super) fn longest_expiry(&self) -> u32 {
        u32::try_from(self.settings.limits.session_expiry.0 / Span::secs(1).0).unwrap_or(FOR_EVER)
    }

    /// A name for a client that has none.
    fn make_name(&mut self) -> String {
        loop {
            self.next_name += 1;
            let name = format!("verge-{:x}-{}", self.settings.node, self.next_name);
            // Somebody may have called himself so.
            if self.sessions.find(&name).is_none() {
                return name;
            }
        }
    }

    /// A client comes whose session is there: an older connection of it ends, and so does the session if it begins anew.
    fn take_over(&mut self, now: Time, index: SessionId, clean_start: bool, net: &mut impl Effects) {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("a session that was found is there");
        };
        if session.link.is_none() && !session.is_persistent() {
            // It was connected to a primary that has died, and is known here for its will alone. It is back in time.
            session.will = None;
            return self.end_session(index);
        }
        // Who is back in time leaves no will; who begins anew has left.
        let ends = clean_start || !session.is_persistent();
        let delayed = session.will.as_ref().is_some_and(|will| will.delay > 0) || session.link.is_none();
        if !ends && delayed {
            session.will = None;
        }
        if let Some(older) = session.link {
            self.stats.taken_over += 1;
            self.refuse(now, older, Reason::SESSION_TAKEN_OVER, "the client has connected again", net);
        }
        if clean_start && self.sessions.get(index).is_some() {
            self.publish_will(index);
            self.end_session(index);
        }
    }

    /// A client ends its connection with a word.
    pub(super) fn part(
        &mut self,
        now: Time,
        link: LinkId,
        index: SessionId,
        word: Disconnect,
        net: &mut impl Effects,
    ) {
        let longest = self.longest_expiry();
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who says goodbye has a session");
        };
        if let Some(expiry) = word.session_expiry {
            if session.expiry == 0 && expiry != 0 {
                let text = "a session that ends with its connection cannot be prolonged at its end";
                return self.refuse(now, link, Reason::PROTOCOL_ERROR, text, net);
            }
            if session.is_persistent() && expiry == 0 {
                remove_records(&mut self.records, session);
            }
            session.expiry = expiry.min(longest);
        }
        if word.reason == Reason::SUCCESS {
            session.will = None;
        }
        self.stats.disconnects += 1;
        self.hang_up(link, net);
        let reason = if word.reason == Reason::SUCCESS {
            "it has said goodbye".to_owned()
        } else {
            format!("it has said goodbye: {}", word.reason)
        };
        self.detach(now, index, link, &reason);
    }

    /// A session has lost its connection.
    pub(super) fn detach(&mut self, now: Time, index: SessionId, link: LinkId, why: &str) {
        // A partner that reigns by now may have ended it before this broker has stepped down in the same turn.
        let Some(session) = self.sessions.get_mut(index).filter(|session| session.link == Some(link)) else {
            return;
        };
        let gone = Trouble::Gone { client: session.client.clone(), reason: why.to_owned() };
        self.trouble(gone);
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("a session that was found is there");
        };
        (session.link, session.since) = (None, now);
        session.aliases = Aliases::default();
        // It may have said in the same way that the session is another user's.
        if let Some(count) = self.connected.get_mut(&session.user) {
            *count -= 1;
            if *count == 0 {
                self.connected.remove(&session.user);
            }
        }
        // QoS 2 under way is covered without its client, which will ask again; it must not be taken for a new message then.
        session.pending.forget_once();
        session.outlets.clear();
        session.ahead.clear();
        // Where the other broker reigns sessions go there as they are, and nobody's will is published because of it.
        if let Some(will) = session.will.as_ref().filter(|_| self.reigns) {
            // A will that waits longer than its session is published with the session's end.
            let delay = seconds(will.delay.min(session.expiry));
            if delay == Span::ZERO {
                self.publish_will(index);
            } else {
                session.will_at = Some(now + delay);
                self.timers.insert((now + delay, Timer::Will(index)));
            }
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("publishing a will ends no session");
        };
        if !session.is_persistent() {
            return self.end_session(index);
        }
        // What was sent and not answered is sent again; what is not kept has gone.
        session.flights.retain(|flight| flight.body != NO_BODY || flight.received);
        // What is retained it is given when it comes back, as far as that is kept for it.
        session.walks.retain(Walk::is_kept);
        if session.expiry != FOR_EVER {
            let at = now + seconds(session.expiry);
            session.ends_at = Some(at);
            self.timers.insert((at, Timer::End(index)));
        }
        self.record_session(index);
    }

    /// Publishes the will of a session, if it has one.
    pub(super) fn publish_will(&mut self, index: SessionId) {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("a session whose will is published is there");
        };
        let will_at = session.will_at.take();
        let will = session.will.take();
        self.forget_times(index, None, will_at);
        // Where another broker reigns, that one publishes it.
        let Some(will) = will.filter(|_| self.reigns && !Mutant::LeaveNoWill.is_on()) else { return };
        self.stats.wills += 1;
        let Some(session) = self.sessions.get(index) else {
            return invariant!("a session whose will is published is there");
        };
        // More than one of each session that may be has to wait only where clients come and go faster than a turn.
        if self.drafts.len() < self.settings.limits.sessions {
            let (client, reason) =
                (session.client.clone(), format!("its will is published on `{}`", will.topic));
            self.drafts.push_back(Draft::of_will(session.publisher.clone(), will));
            self.trouble(Trouble::Gone { client, reason });
        }
        self.record_session(index);
    }

    /// A session ends, with everything that waits for it.
    pub(super) fn end_session(&mut self, index: SessionId) {
        self.publish_will(index);
        self.orphan(index);
        let Some(session) = self.sessions.remove(index) else {
            return invariant!("a session that ends is there");
        };
        self.gone.extend(self.subscriptions.filters_of(index).map(|text| session.wish(text)));
        self.subscriptions.remove_session(index);
        session.bodies().for_each(|body| self.release_body(body));
        if session.is_persistent() {
            remove_records(&mut self.records, &session);
        }
        if session.recorded {
            self.records.remove(&Key::Session(&session.client));
        }
        self.forget_times(index, session.ends_at, session.will_at);
        self.stop_telling(index);
    }

    /// A session does not end, nor is its will published, at the times that were set for it.
    pub(super) fn forget_times(&mut self, index: SessionId, ends_at: Option<Time>, will_at: Option<Time>) {
        let ends = ends_at.map(|at| (at, Timer::End(index)));
        let will = will_at.map(|at| (at, Timer::Will(index)));
        ends.iter().chain(&will).for_each(|timer| _ = self.timers.remove(timer));
    }

    /// Subscriptions of sessions that have ended: the broker need not count them any more.
    pub fn next_gone(&mut self) -> Option<Wish> {
        self.gone.pop()
    }

    /// A subscription that is served as best effort instead of being refused, and why.
    pub fn next_instead(&mut self) -> Option<(Wish, String)> {
        self.instead.pop()
    }

    /// Subscriptions that need something beyond the contracts of their topics.
    pub fn needy(&self) -> impl Iterator<Item = Wish> {
        self.sessions.iter().flat_map(|session| session.needs.filters().map(|text| session.wish(text)))
    }

    /// Records a session as it is now, or that it need not be known any more.
    pub(super) fn record_session(&mut self, index: SessionId) {
        let Gateway { sessions, subscriptions, records, .. } = self;
        let Some(session) = sessions.get_mut(index) else {
            return invariant!("a session that is recorded is there");
        };
        let before = session.recorded;
        session.recorded = session.is_recorded();
        session.walks_recorded = session.walks.iter().any(Walk::is_kept);
        let key = Key::Session(&session.client);
        if session.recorded {
            records.put(&key, |out| write_session(out, session, subscriptions.of_session(index)));
        } else if before {
            records.remove(&key);
        }
    }
}

/// What waits for a session is not to be known any more.
pub(super) fn remove_records(records: &mut Records, session: &Session) {
    let flights = session.flights.iter().filter(|flight| flight.body != NO_BODY || flight.received);
    let orders = flights.map(|flight| flight.order).chain(session.queue.iter().map(|queued| queued.order));
    orders.for_each(|order| records.remove(&Key::Waiting(&session.client, order)));
    let covered = session.incoming.iter().filter(|incoming| incoming.covered);
    covered.for_each(|incoming| records.remove(&Key::Incoming(&session.client, incoming.id)));
}

/// So many seconds; `u32::MAX` is for ever.
pub(super) fn seconds(count: u32) -> Span {
    if count == FOR_EVER { Span::FOREVER } else { Span::secs(i64::from(count)) }
}
