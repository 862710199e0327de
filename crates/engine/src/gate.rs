//! Who may come in by the protocol of this program, and what they may do.
//!
//! A gate stands in front of the broker, which knows nothing of users. It looks at a connection's first frame before the broker
//! does, and from then on at the few that ask for something: to publish a topic, to receive a filter, to manage. Messages are
//! not looked at: their streams were, when they were registered.
//!
//! Somebody is known by a certificate, else by name and password, else is [`access::ANONYMOUS`]. Passwords are checked by the
//! process around, and until it has answered, the connection's bytes stay with the driver.
//!
//! The partner is not a client. It is known by the name in its certificate, or by a secret that both brokers have.

mod frames;

use crate::reporter::Reporter;
use access::{ANONYMOUS, Access, Action};
use broker::Broker;
use mqtt::packet::Reason;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use wire::{FarewellReason, Hello, LinkChange, LinkId, LinkMap};

/// What a gate goes by.
#[derive(Clone, Debug, Default)]
pub struct Guarding {
    /// Users and rules. `None`: every client may do everything.
    pub access: Option<Arc<Access>>,
    /// What the partner has to say to be known as one. It is said to the partner, too.
    pub pair_secret: Option<Box<str>>,
    /// The name in the partner's certificate. Whoever shows it need not know the secret.
    pub partner: Option<Box<str>>,
}

/// Tickets of the gate; those without this bit are the gateway's.
const TICKETS: u64 = 1 << 63;
/// Whether a login is of a client of the native protocol, by its ticket. The gate tells the admin what becomes of it.
pub fn is_of_gate(ticket: u64) -> bool {
    ticket & TICKETS != 0
}

/// What a connection may send before it is known. A greeting is far smaller.
pub(crate) const UNKNOWN_BYTES_MAX: usize = 64 << 10;
/// Connections that wait to be known at the same time. Above it, further ones are asked to come back.
const WAITING_MAX: usize = 4_096;

/// A connection.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Guest {
    /// Has not said who it is.
    Fresh {
        /// We made the connection, to the partner's address.
        dialed: bool,
        /// The name in its certificate.
        certificate: Option<Box<str>>,
    },
    /// Has, and waits for an answer.
    Waiting {
        ticket: u64,
        /// For the operator.
        client: Box<str>,
    },
    /// Is known. Its greeting comes again, and is let through.
    Known { user: Box<str> },
    /// A client that has greeted.
    Client(Identity),
    /// Need not be looked at: the partner, or a client where there are no rules.
    Free,
    /// Has been turned away.
    Gone,
}

/// Who a client is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) user: Box<str>,
    /// What it calls itself.
    pub(crate) client: Box<str>,
}

/// What becomes of a greeting.
pub(crate) enum Entry {
    /// The broker may see it.
    Enter,
    /// It has to wait.
    Wait,
    /// It is turned away.
    Refuse(FarewellReason, String),
}

/// Why somebody that has waited is turned away.
pub(crate) struct Refusal {
    pub(crate) reason: FarewellReason,
    /// Whom it concerns, for the admin.
    pub(crate) client: Box<str>,
    pub(crate) text: &'static str,
}

/// All connections, as a gate sees them.
#[derive(Clone, Debug)]
pub struct Gate {
    by: Guarding,
    guests: LinkMap<Guest>,
    /// Where connections come from, also those of other protocols.
    addresses: LinkMap<IpAddr>,
    waiting: BTreeMap<u64, LinkId>,
    next_ticket: u64,
}

impl Gate {
    pub(crate) fn new(by: Guarding) -> Gate {
        Gate {
            by,
            guests: LinkMap::default(),
            addresses: LinkMap::default(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
        }
    }

    pub(crate) fn guest(&self, link: LinkId) -> Option<&Guest> {
        self.guests.get(link)
    }

    /// A connection changes. Those of other protocols are not told of here, except that they end.
    pub(crate) fn handle_link(&mut self, link: LinkId, change: LinkChange) {
        let dialed = match change {
            LinkChange::Accepted(_) => false,
            LinkChange::Dialed(_) => true,
            LinkChange::Closed => return self.forget(link),
            LinkChange::Drained => return,
        };
        self.set(link, Guest::Fresh { dialed, certificate: None });
    }

    fn forget(&mut self, link: LinkId) {
        if let Some(Guest::Waiting { ticket, .. }) = self.guests.remove(link) {
            self.waiting.remove(&ticket);
        }
        self.addresses.remove(link);
    }

    fn set(&mut self, link: LinkId, guest: Guest) {
        self.guests.insert(link, guest);
    }

    /// Where a connection comes from.
    pub(crate) fn locate(&mut self, link: LinkId, address: IpAddr) {
        self.addresses.insert(link, address);
    }

    pub(crate) fn address(&self, link: LinkId) -> Option<IpAddr> {
        self.addresses.get(link).copied()
    }

    /// The name in a connection's certificate.
    pub(crate) fn identify(&mut self, link: LinkId, name: &str) {
        if let Some(Guest::Fresh { certificate, .. }) = self.guests.get_mut(link) {
            *certificate = Some(name.into());
        }
    }

    /// The name that a connection has shown, while nothing else is known of it.
    pub(crate) fn certificate(&self, link: LinkId) -> Option<&str> {
        match self.guest(link) {
            Some(Guest::Fresh { certificate, .. }) => certificate.as_deref(),
            _ => None,
        }
    }

    /// Nothing of a connection matters any more.
    pub(crate) fn give_up(&mut self, link: LinkId) {
        if let Some(Guest::Waiting { ticket, .. }) = self.guest(link) {
            let ticket = *ticket;
            self.waiting.remove(&ticket);
        }
        self.set(link, Guest::Gone);
    }

    /// Looks at a greeting.
    pub(crate) fn admit(
        &mut self,
        link: LinkId,
        hello: &Hello<'_>,
        broker: &Broker,
        reporter: &mut impl Reporter,
    ) -> Entry {
        match self.guest(link).cloned() {
            Some(Guest::Fresh { dialed, certificate }) if hello.standing.is_broker() => {
                self.admit_partner(link, hello, dialed, certificate.as_deref())
            }
            Some(Guest::Fresh { certificate, .. }) => {
                self.admit_client(link, hello, certificate, broker, reporter)
            }
            Some(Guest::Known { user }) => self.let_in(link, hello, &user, broker),
            // A second greeting: the broker has a word for it.
            _ => Entry::Enter,
        }
    }

    fn admit_partner(
        &mut self,
        link: LinkId,
        hello: &Hello<'_>,
        dialed: bool,
        certificate: Option<&str>,
    ) -> Entry {
        let Guarding { access, pair_secret, partner } = &self.by;
        let shows_name = partner.is_some() && certificate == partner.as_deref();
        let known = match pair_secret {
            Some(secret) => hello.password.is(secret),
            // Whom we have connected to was chosen by its address, and by the name in its certificate where there is one.
            None => dialed || (access.is_none() && partner.is_none()),
        };
        if known || shows_name {
            self.set(link, Guest::Free);
            return Entry::Enter;
        }
        let text = match pair_secret {
            Some(_) => {
                "it says that it is a broker and does not know the secret: give both brokers the same file as \
                        security.pair_secret_file"
            }
            None => {
                "it says that it is a broker and cannot prove it: set security.pair_secret_file on both brokers"
            }
        };
        Entry::Refuse(FarewellReason::Denied, text.to_owned())
    }

    fn admit_client(
        &mut self,
        link: LinkId,
        hello: &Hello<'_>,
        certificate: Option<Box<str>>,
        broker: &Broker,
        reporter: &mut impl Reporter,
    ) -> Entry {
        let Some(access) = self.by.access.as_ref().filter(|access| !access.is_open()) else {
            self.set(link, Guest::Free);
            return Entry::Enter;
        };
        let by_certificate = certificate.as_deref().and_then(|name| access.by_certificate(name));
        let user = if by_certificate.is_none() && hello.user.is_empty() {
            access.anonymous()
        } else {
            by_certificate
        };
        if let Some(user) = user.and_then(|user| access.get(user)) {
            let user = Box::from(user.name());
            return self.let_in(link, hello, &user, broker);
        }
        if hello.user.is_empty() {
            return Entry::Refuse(FarewellReason::Denied, LOG_IN.to_owned());
        }
        if self.waiting.len() >= WAITING_MAX {
            return Entry::Refuse(FarewellReason::Busy, BUSY.to_owned());
        }
        let ticket = TICKETS | self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(ticket, link);
        self.set(link, Guest::Waiting { ticket, client: named(hello, self.address(link)).into() });
        reporter.caller(self.address(link));
        reporter.login(mqtt::Login {
            ticket,
            client: hello.name.into(),
            user: Some(hello.user.into()),
            password: Some(hello.password.0.as_bytes().into()),
            certificate,
        });
        Entry::Wait
    }

    /// An answer has come to a question of [`Gate::admit`]. Returns the connection that goes on, or is to be closed.
    pub(crate) fn judged(
        &mut self,
        ticket: u64,
        user: Result<Option<Box<str>>, Reason>,
    ) -> Option<(LinkId, Result<(), Refusal>)> {
        let link = self.waiting.remove(&ticket)?;
        let Some(Guest::Waiting { client, .. }) = self.guest(link) else { return None };
        let client = client.clone();
        let result = match user {
            Ok(user) => {
                let user = user.unwrap_or_else(|| ANONYMOUS.into());
                self.set(link, Guest::Known { user });
                Ok(())
            }
            Err(reason) => {
                let (reason, text) = match reason {
                    Reason::SERVER_BUSY => (FarewellReason::Busy, BUSY),
                    Reason::CONNECTION_RATE_EXCEEDED => (FarewellReason::Busy, TOO_OFTEN),
                    Reason::NOT_AUTHORIZED => (FarewellReason::Denied, LOG_IN),
                    _ => (FarewellReason::Denied, WRONG),
                };
                Err(Refusal { reason, client, text })
            }
        };
        Some((link, result))
    }

    /// Lets a client in whose user is known.
    fn let_in(&mut self, link: LinkId, hello: &Hello<'_>, user: &str, broker: &Broker) -> Entry {
        if self.by.access.as_ref().is_none_or(|access| access.user(user).is_none()) {
            return Entry::Refuse(FarewellReason::Denied, WRONG.to_owned());
        }
        // A client's name leads to what is kept for it.
        let other = broker.client_link(hello.name).and_then(|link| self.guest(link));
        if matches!(other, Some(Guest::Client(identity)) if *identity.user != *user) {
            let text =
                "another user's client has this name and is connected: give every client a name of its own";
            return Entry::Refuse(FarewellReason::Denied, text.to_owned());
        }
        let identity = Identity { user: user.into(), client: hello.name.into() };
        let forbidden = broker
            .filters_of(hello.name)
            .find_map(|filter| self.check(&identity, Action::Subscribe, filter).err());
        if let Some(text) = forbidden {
            let text = format!(
                "a client of this name has subscribed before, and this user may not ({text}): give every client a name of \
                 its own, or wait for limits.session_linger"
            );
            return Entry::Refuse(FarewellReason::Denied, text);
        }
        self.set(link, Guest::Client(identity));
        Entry::Enter
    }

    /// Whether a client may do something; if not, why, with a remedy.
    pub(crate) fn check(&self, who: &Identity, action: Action, what: &str) -> Result<(), String> {
        let Some(access) = &self.by.access else { return Ok(()) };
        let Identity { user, client } = who;
        access.check(user, client, action, what)
    }

    /// Takes other rules. Returns the clients whose users are not among them any more.
    pub(crate) fn change(&mut self, access: Arc<Access>) -> Vec<(LinkId, Identity)> {
        let gone = |guest: &Guest| match guest {
            Guest::Client(identity) if access.user(&identity.user).is_none() => Some(identity.clone()),
            _ => None,
        };
        let gone = self.guests.iter().filter_map(|(link, guest)| Some((link, gone(guest)?))).collect();
        self.by.access = Some(access);
        gone
    }

    /// What this broker says to its partner.
    pub(crate) fn pair_secret(&self) -> Option<&str> {
        self.by.pair_secret.as_deref()
    }

    /// Whether clients have to be known.
    pub(crate) fn has_rules(&self) -> bool {
        self.by.access.is_some()
    }
}

/// A client that is not known yet, for the admin.
pub(crate) fn named(hello: &Hello<'_>, address: Option<IpAddr>) -> String {
    let mut text = hello.name.to_owned();
    if !hello.user.is_empty() {
        text += &format!(" as `{}`", hello.user);
    }
    if let Some(address) = address {
        text += &format!(" from {address}");
    }
    text
}

const WRONG: &str = "there is no such user, or the password is wrong: see `verge user list`";
const LOG_IN: &str =
    "nobody may come in without logging in: give --user NAME and a password, or a certificate";
const BUSY: &str = "too many clients are logging in; try again in a moment";
const TOO_OFTEN: &str = "too many logins have failed; wait, or raise security.logins_per_minute";
