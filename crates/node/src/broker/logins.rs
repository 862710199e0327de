//! Who may come in, and what they may do: users and rules on the data thread, passwords on threads of their own.

use super::around::Around;
use super::processing::Node;
use super::reload::{Commit, Taker};
use crate::Trouble;
use crate::log::Lines;
use crate::users::read_pair_secret;
use access::{ANONYMOUS, Access, Attempts, Rate, UserLimits};
use broker::Event;
use config::Config;
use contract::{Span, Time};
use crossbeam_channel::{Receiver, Sender, bounded};
use engine::{Guarding, Rules};
use host::{Answer, Asked, Authenticator, Helpers, Network, now};
use mqtt::packet::Reason;
use mqtt::{Action, Login};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Addresses, and names from addresses, of which failed logins are remembered.
const ATTEMPTS_MAX: usize = 65_536;

/// Rules, as those on the data thread share them. They change while the broker runs.
#[derive(Clone, Debug, Default)]
pub struct UserRules {
    access: Option<Rc<RefCell<Arc<Access>>>>,
    /// What users have published lately who may not publish as much as they like. No more than there are users.
    rates: BTreeMap<Box<str>, Spent>,
}

/// What a user may still publish, by the limits that it had when this began.
#[derive(Clone, Debug)]
struct Spent {
    limits: UserLimits,
    messages: Option<Rate>,
    bytes: Option<Rate>,
}

impl Spent {
    fn new(limits: UserLimits, now: Time) -> Spent {
        let rate = |amount: Option<u64>| amount.map(|amount| Rate::per_second(amount, now));
        Spent { limits, messages: rate(limits.messages_per_second), bytes: rate(limits.bytes_per_second) }
    }

    fn take(&mut self, now: Time, bytes: usize) -> bool {
        let within = |rate: &mut Option<Rate>, amount| {
            rate.as_mut().is_none_or(|rate| rate.wait(now, amount) == Span::ZERO)
        };
        if !within(&mut self.messages, 1) || !within(&mut self.bytes, bytes as u64) {
            return false;
        }
        for (rate, amount) in [(&mut self.messages, 1), (&mut self.bytes, bytes as u64)] {
            rate.iter_mut().for_each(|rate| _ = rate.take(now, amount));
        }
        true
    }
}

impl UserRules {
    fn may(&self, user: Option<&str>, client: &str, action: access::Action, topic: &str) -> bool {
        let Some(access) = &self.access else { return true };
        let access = access.borrow();
        let user = access.user(user.unwrap_or(ANONYMOUS));
        user.is_some_and(|user| access.allows(user, client, action, topic).allowed)
    }

    fn limits(&self, user: Option<&str>) -> UserLimits {
        let Some(access) = &self.access else { return UserLimits::default() };
        let access = access.borrow();
        let user = access.user(user.unwrap_or(ANONYMOUS)).and_then(|user| access.get(user));
        user.map_or_else(UserLimits::default, |user| user.limits())
    }
}

impl Rules for UserRules {
    fn are_there(&self) -> bool {
        self.access.is_some()
    }

    fn spend(&mut self, now: Time, user: Option<&str>, bytes: usize) -> bool {
        let limits = self.limits(user);
        if limits.messages_per_second.is_none() && limits.bytes_per_second.is_none() {
            return true;
        }
        let name = user.unwrap_or(ANONYMOUS);
        match self.rates.get_mut(name).filter(|spent| spent.limits == limits) {
            Some(spent) => spent.take(now, bytes),
            None => {
                let mut spent = Spent::new(limits, now);
                let within = spent.take(now, bytes);
                self.rates.insert(name.into(), spent);
                within
            }
        }
    }

    fn connections(&self, user: Option<&str>) -> usize {
        self.limits(user).connections.map_or(usize::MAX, |most| most as usize)
    }

    fn allow(&self, user: Option<&str>, client: &str, action: Action, topic: &str) -> bool {
        self.may(user, client, action_of(action), topic)
    }

    fn why_not(&self, user: Option<&str>, client: &str, action: Action, topic: &str) -> String {
        let access = self.access.as_ref().map(|access| access.borrow());
        let checked = access.map_or(Ok(()), |access| {
            access.check(user.unwrap_or(ANONYMOUS), client, action_of(action), topic)
        });
        checked.err().unwrap_or_default()
    }
}

fn action_of(action: Action) -> access::Action {
    match action {
        Action::Publish => access::Action::Publish,
        Action::Subscribe => access::Action::Subscribe,
        Action::Contract => access::Action::Contract,
    }
}

/// Says who clients are.
pub struct Desk {
    access: Rc<RefCell<Arc<Access>>>,
    authenticator: Authenticator,
    /// Whose password is being looked at, by ticket. No more than the authenticator takes.
    asked: BTreeMap<u64, Attempt>,
    by_address: Attempts<Option<IpAddr>>,
    by_name: Attempts<(Option<IpAddr>, Box<str>)>,
    /// Where the next login comes from.
    caller: Option<IpAddr>,
    /// Answers that could be given at once. No more than clients that wait, which others bound.
    outcomes: VecDeque<(u64, Verdict)>,
    bell: UnixStream,
    lines: Lines,
}

type Verdict = Result<Option<Box<str>>, Reason>;

struct Attempt {
    user: Box<str>,
    client: Box<str>,
    address: Option<IpAddr>,
    /// What the password is checked against, if there is such a user.
    hash: Option<Box<str>>,
}

/// The hash of a user's password.
fn hash_of<'a>(access: &'a Access, user: &str) -> Option<&'a str> {
    access.user(user).and_then(|id| access.get(id))?.password()
}

/// Everything that a broker needs for it.
pub struct Security {
    /// For the node.
    pub guarding: Option<Guarding>,
    /// For the gateway.
    pub rules: UserRules,
    /// For the process around the node.
    pub desk: Option<Desk>,
    /// For when the configuration is read again.
    pub taker: Option<UserTaker>,
    /// For the data thread.
    pub changes: UserChanges,
    /// What wakes it.
    pub wakers: Vec<OwnedFd>,
}

/// Rules on their way to the data thread.
pub struct UserChanges {
    changes: Receiver<Arc<Access>>,
    access: Option<Rc<RefCell<Arc<Access>>>>,
    waker: UnixStream,
}

/// Reads the user file again.
pub struct UserTaker {
    path: PathBuf,
    sender: Sender<Arc<Access>>,
    wake: Arc<UnixStream>,
}

/// What the files say that the configuration names: what the brokers know each other by, and who may do what.
pub fn read_files(config: &Config, has_partner: bool) -> Result<(Option<Box<str>>, Option<Access>), Trouble> {
    let security = &config.security;
    let pair_secret = security.pair_secret_file.as_deref().map(read_pair_secret).transpose()?;
    let users = security.users.as_deref().map(crate::users::read).transpose()?;
    if users.is_some() && has_partner && pair_secret.is_none() {
        return Err(Trouble(
            "security.users is set, and nothing proves to this broker that its partner is one: set \
             security.pair_secret_file on both"
                .to_owned(),
        ));
    }
    Ok((pair_secret, users))
}

/// Reads the files that the configuration names, and starts the threads that check passwords. They must be there before the
/// data thread takes its priority, which they would inherit.
pub fn start(
    config: &Config,
    has_partner: bool,
    lines: &Lines,
    helpers: &Helpers,
) -> Result<Security, Trouble> {
    let security = &config.security;
    let (pair_secret, users) = read_files(config, has_partner)?;
    let users = users.map(Arc::new);
    if let Some(path) = &security.users {
        crate::users::warn_of_readers(path);
    }
    let (waker, wake) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    let (sender, changes) = bounded(1);
    let mut wakers = vec![OwnedFd::from(waker.try_clone()?)];
    let access = users.as_ref().map(|users| Rc::new(RefCell::new(Arc::clone(users))));
    let desk = match &access {
        Some(access) => {
            let authenticator = Authenticator::start(security.authentication, helpers)?;
            wakers.push(authenticator.bell().try_clone_to_owned()?);
            Some(Desk {
                access: Rc::clone(access),
                authenticator,
                asked: BTreeMap::new(),
                by_address: Attempts::new(security.logins_per_minute, ATTEMPTS_MAX),
                by_name: Attempts::new(security.logins_per_minute, ATTEMPTS_MAX),
                caller: None,
                outcomes: VecDeque::new(),
                bell: wake.try_clone()?,
                lines: lines.clone(),
            })
        }
        None => None,
    };
    let guards = users.is_some() || pair_secret.is_some();
    let taker = security.users.clone().map(|path| UserTaker { path, sender, wake: Arc::new(wake) });
    Ok(Security {
        guarding: guards.then_some(Guarding { access: users, pair_secret, partner: None }),
        rules: UserRules { access: access.clone(), rates: BTreeMap::new() },
        desk,
        taker,
        changes: UserChanges { changes, access, waker },
        wakers,
    })
}

impl Desk {
    /// Where the next login comes from.
    pub fn caller(&mut self, address: Option<IpAddr>) {
        self.caller = address.map(network);
    }

    /// Somebody wants to be known. The answer comes from [`Desk::next_verdict`].
    pub fn login(&mut self, login: Login) {
        let ticket = login.ticket;
        if let Some(verdict) = self.look(login) {
            self.outcomes.push_back((ticket, verdict));
            // A full socket has woken the thread already.
            let _ = self.bell.write(&[0]);
        }
    }

    /// Who somebody is, if that can be said at once.
    fn look(&mut self, login: Login) -> Option<Verdict> {
        let access = Rc::clone(&self.access);
        let access = access.borrow();
        let name = |id| access.get(id).map(|user| Box::from(user.name()));
        let by_certificate = login.certificate.as_deref().and_then(|name| access.by_certificate(name));
        if let Some(user) = by_certificate.and_then(name) {
            return Some(Ok(Some(user)));
        }
        let Some(user) = login.user.filter(|user| !user.is_empty()) else {
            let anonymous = access.anonymous().and_then(name);
            return Some(anonymous.map(Some).ok_or(Reason::NOT_AUTHORIZED));
        };
        let hash = hash_of(&access, &user).map(Box::from);
        let attempt = Attempt { user, client: login.client, address: self.caller, hash };
        let time = now();
        let by_name = (attempt.address, attempt.user.clone());
        if self.by_address.check(time, &attempt.address).is_err()
            || self.by_name.check(time, &by_name).is_err()
        {
            self.tell(&attempt, login.ticket, "too many logins have failed");
            return Some(Err(Reason::CONNECTION_RATE_EXCEEDED));
        }
        let password = login.password.as_deref().unwrap_or(&[]);
        match self.authenticator.ask(login.ticket, &access.challenge(&attempt.user), password) {
            Asked::Right => Some(Ok(Some(attempt.user))),
            Asked::Waiting => {
                self.asked.insert(login.ticket, attempt);
                None
            }
            Asked::Busy => {
                self.tell(&attempt, login.ticket, "too many clients are logging in");
                Some(Err(Reason::SERVER_BUSY))
            }
        }
    }

    /// The next client that is known now, or turned away.
    fn next_verdict(&mut self) -> Option<(u64, Verdict)> {
        if let Some((ticket, verdict)) = self.outcomes.pop_front() {
            let access = self.access.borrow();
            let there =
                |user: &Option<Box<str>>| user.as_deref().is_none_or(|user| access.user(user).is_some());
            return Some((
                ticket,
                verdict.and_then(|user| if there(&user) { Ok(user) } else { Err(Reason::NOT_AUTHORIZED) }),
            ));
        }
        let Answer { ticket, right } = self.authenticator.next_answer()?;
        let attempt = self.asked.remove(&ticket)?;
        // It was right when it was looked at; the user file may have changed since.
        if right && attempt.hash.as_deref() == hash_of(&self.access.borrow(), &attempt.user) {
            return Some((ticket, Ok(Some(attempt.user))));
        }
        let time = now();
        self.by_address.failed(time, attempt.address);
        self.by_name.failed(time, (attempt.address, attempt.user.clone()));
        self.tell(&attempt, ticket, "there is no such user, or the password is wrong");
        Some((ticket, Err(Reason::BAD_CREDENTIALS)))
    }

    /// Tells the admin of a refused login. The gate of the native protocol tells of its own.
    fn tell(&mut self, attempt: &Attempt, ticket: u64, reason: &str) {
        if engine::is_of_gate(ticket) {
            return;
        }
        let Attempt { user, client, address, .. } = attempt;
        let client = if client.is_empty() { "a client" } else { client };
        let from = address.map(|address| format!(" from {address}")).unwrap_or_default();
        self.lines.report(&Event::Expelled { client: &format!("{client} as `{user}`{from}"), reason });
    }
}

/// An address as attempts are counted: a host with IPv6 has a whole network of addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

impl UserChanges {
    /// Takes over what has come, and gives answers to who waits for them.
    pub fn apply(&mut self, node: &mut Node, net: &mut Network, lines: &Lines) {
        let mut bytes = [0; 256];
        while self.waker.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        while let Ok(changed) = self.changes.try_recv() {
            let users = changed.users().count();
            let before = self.access.as_ref().map(|access| access.replace(Arc::clone(&changed)));
            node.change_rules(now(), Arc::clone(&changed), net);
            if let Some(before) = before {
                let gone = |user: Option<&str>, certificate: Option<&str>| {
                    why_gone(&before, &changed, user.unwrap_or(ANONYMOUS), certificate)
                };
                node.expel_clients(now(), gone, net);
            }
            lines.say(&format!(
                "users: {users} in the file; what is asked for from now on is held to its rules"
            ));
        }
        while let Some((ticket, verdict)) = next_verdict(node.reporter()) {
            node.judged(now(), ticket, verdict, net);
        }
    }
}

/// Why a client may not stay that was let in before the user file changed, if it may not.
fn why_gone(before: &Access, after: &Access, user: &str, certificate: Option<&str>) -> Option<String> {
    let password = |access: &Access| {
        let user = access.user(user).and_then(|id| access.get(id));
        user.map(|user| user.password().map(str::to_owned))
    };
    let certified = |access: &Access| {
        let meant = certificate.and_then(|name| access.by_certificate(name));
        meant.is_some() && meant == access.user(user)
    };
    match (password(after), certified(before), certified(after)) {
        (None, _, _) => Some(format!("the user `{user}` has been taken out of the user file")),
        (Some(_), true, true) => None,
        (Some(_), true, false) => {
            Some(format!("its certificate does not stand for the user `{user}` any more"))
        }
        (Some(now), false, _) if password(before) == Some(now.clone()) => None,
        (Some(_), false, _) => {
            Some(format!("the password of the user `{user}` has been changed: log in again"))
        }
    }
}

fn next_verdict(around: &mut Around) -> Option<(u64, Verdict)> {
    around.desk.as_mut()?.next_verdict()
}

impl Taker for UserTaker {
    fn prepare(&mut self, _config: &Config) -> Result<Commit, String> {
        let access = crate::users::read(&self.path).map_err(|problems| problems.to_string())?;
        let (sender, wake) = (self.sender.clone(), Arc::clone(&self.wake));
        Ok(Box::new(move || {
            // It fails only when the data thread has ended.
            let _ = sender.send(Arc::new(access)).map(|()| (&*wake).write(&[0]));
        }))
    }
}
