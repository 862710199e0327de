//! The client: a thread of its own that reads, and a lock under which callers write.

use crate::Error;
use crate::events::{Events, Handler};
use crate::places::{Places, Reach, keep_asking, reach, reaches, remedy};
use crate::publisher::{Batch, Publisher};
use crate::subscription::{Account, Message, Subscription, queue};
use contract::{Contract, Epoch, Needs, Span, TopicFilter};
use endpoint::{BROKERS_MAX, Credentials, Delivery, Limits, PublicationState, Reigning, Settings};
use engine::ClientNode;
use host::tls::{Tls, TlsError, TlsSettings, server_name};
use host::{
    Driver, HandshakeSettings, Handshakes, Helpers, HostError, Network, Place, Poller, Troubles, last_word,
};
use report::NodeReport;
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::limits::{PASSWORD_BYTES_MAX, USER_BYTES_MAX};
use wire::{ClockDifference, Frame, PeerIndex, Shortfall, Standing};

/// A connection to a pair of brokers. Cheap to clone; the connection ends with the last clone and the last publisher
/// and subscription made from it.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    _life: Arc<Life>,
}

/// What the client's thread and its callers share.
pub(crate) struct Shared {
    driver: Mutex<Driver<ClientNode<Events>>>,
    changed: Condvar,
    ended: AtomicBool,
    /// Why the client's thread has ended, if it was not told to.
    reason: OnceLock<String>,
    /// The thread that makes handshakes. The client ends with it.
    helpers: Helpers,
    /// A byte here wakes the thread.
    waker: UnixStream,
    pub(crate) patience: Duration,
    /// Whether connections are encrypted.
    secure: bool,
    /// Why a handshake failed last.
    trouble: Arc<Mutex<String>>,
}

thread_local! {
    /// The client whose node this thread holds, by its address.
    static HOLDING: Cell<usize> = const { Cell::new(0) };
}

/// Marks that this thread holds a client's node, for as long as it lives.
struct Inside(usize);

impl Inside {
    fn enter(shared: &Shared) -> Inside {
        Inside(HOLDING.with(|holding| holding.replace(std::ptr::from_ref(shared).addr())))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        HOLDING.with(|holding| holding.set(self.0));
    }
}

/// Ends the thread when the last user is gone.
struct Life {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Who asks for names ends when these are dropped.
    _asking: Mutex<Vec<Sender<()>>>,
}

/// Settings of a client.
pub struct Builder {
    name: Option<String>,
    credentials: Credentials,
    patience: Duration,
    failover: Span,
    subscriptions: usize,
    tls: Option<TlsSettings>,
}

impl Default for Builder {
    fn default() -> Builder {
        let credentials = Credentials::default();
        Builder {
            name: None,
            credentials,
            patience: Duration::from_secs(5),
            failover: Span::millis(50),
            subscriptions: Limits::default().subscriptions,
            tls: None,
        }
    }
}

/// The client's thread.
const THREAD: &str = "verge-client";
/// Messages that wait for an application which iterates.
pub(crate) const QUEUE_MESSAGES: usize = 16_384;
/// Rows of streams asked for at once.
const ROWS: u32 = 256;

impl Builder {
    /// The client's name, which must be its own. A client that comes back under its name comes back to its streams.
    /// Without one, a name is made up.
    pub fn name(mut self, name: &str) -> Builder {
        self.name = Some(name.to_owned());
        self
    }

    /// Who the client is, where brokers want to know. Without it, it is `anonymous`.
    pub fn credentials(mut self, user: &str, password: &str) -> Builder {
        self.credentials = Credentials { user: user.to_owned(), password: password.to_owned() };
        self
    }

    /// How long a call may wait for a broker.
    pub fn patience(mut self, patience: Duration) -> Builder {
        self.patience = patience;
        self
    }

    /// The failover time of the deployment; see [`endpoint::Settings::failover`].
    pub fn failover(mut self, failover: Span) -> Builder {
        self.failover = failover;
        self
    }

    /// How many filters the client may subscribe at once; 256 if not given. A broker has a limit of its own (`limits.filters_per_session`), and
    /// refuses what is above that.
    pub fn subscriptions(mut self, most: usize) -> Builder {
        self.subscriptions = most;
        self
    }

    /// Speaks TLS with brokers, whose certificates must have the hosts under which they are given.
    pub fn tls(mut self, settings: TlsSettings) -> Builder {
        self.tls = Some(settings);
        self
    }

    /// Connects to brokers, given as `host:port`, several divided by commas. Returns when a primary is found.
    pub fn connect(self, brokers: &str) -> Result<Client, Error> {
        let client = self.start(brokers)?;
        client.wait_for_primary()?;
        Ok(client)
    }

    /// The same without waiting for a primary.
    pub fn start(self, brokers: &str) -> Result<Client, Error> {
        let places = Places::new(places(brokers)?);
        let (known, names) = (places.known(), places.names());
        check(&self.credentials)?;
        let now = host::now();
        let name = self.name.unwrap_or_else(|| format!("client-{:016x}", host::random_number()));
        let mut settings = Settings::new(&name, now.0, known.len() as u8);
        settings.failover = self.failover;
        settings.limits.subscriptions = self.subscriptions;
        settings.credentials = self.credentials;
        let node = ClientNode::new(settings, now, Events { places, ..Events::default() });
        let system = |error: HostError| Error::System(error.to_string());
        let mut driver = Driver::new(node, Vec::new()).map_err(system)?;
        let trouble = Arc::new(Mutex::new(String::new()));
        let helpers = Helpers::new().map_err(system)?;
        if let Some(settings) = &self.tls {
            secure(&mut driver, settings, Arc::clone(&trouble), &helpers)?;
        }
        for (index, place) in known.into_iter().enumerate() {
            let name = self.tls.is_some().then(|| server_name(place.0.host())).transpose();
            let name = name.map_err(|error| Error::Tls(error.to_string()))?;
            driver.with_unsent(|_, net| reach(net, PeerIndex(index as u8), &place.1, name));
        }
        driver.wake_with(helpers.bell()).map_err(system)?;
        let (waker, sleeper) = UnixStream::pair().map_err(|error| Error::System(error.to_string()))?;
        driver.wake_on(&sleeper).map_err(system)?;
        sleeper.set_nonblocking(true).map_err(|error| Error::System(error.to_string()))?;
        let poller = driver.poller();
        let shared = Arc::new(Shared {
            driver: Mutex::new(driver),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
            reason: OnceLock::new(),
            helpers,
            waker,
            patience: self.patience,
            secure: self.tls.is_some(),
            trouble,
        });
        let running = Arc::clone(&shared);
        let work = move || running.end(last_word(THREAD, || running.run(&poller, &sleeper)));
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::System(error.to_string()))?;
        let mut asking = Vec::new();
        for (index, place) in names {
            let (end, ended) = channel();
            let known = Arc::downgrade(&shared);
            // Nobody waits for its end: an answer may take many seconds.
            let ask = move || keep_asking(&known, index, &place, &ended);
            shared.helpers.hire("names", ask).map_err(|error| Error::System(error.to_string()))?;
            asking.push(end);
        }
        let life = Life {
            shared: Arc::clone(&shared),
            thread: Mutex::new(Some(thread)),
            _asking: Mutex::new(asking),
        };
        Ok(Client { shared, _life: Arc::new(life) })
    }
}

impl Client {
    /// Connects with the usual settings; see [`Builder::connect`].
    pub fn connect(brokers: &str) -> Result<Client, Error> {
        Builder::default().connect(brokers)
    }

    /// Settings to be changed before connecting.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Waits until a primary is found.
    pub fn wait_for_primary(&self) -> Result<(), Error> {
        let found = self.shared.wait(|node| match node.endpoint().has_primary() {
            true => Some(Ok(())),
            false => node.application().denial().map(|reason| Err(Error::Denied(reason))),
        })?;
        found.unwrap_or_else(|| Err(self.shared.no_primary()))
    }

    /// What each broker last did, in words, while none of them is this client's primary; `None` while one is. A client goes
    /// on looking for one by itself.
    pub fn without_primary(&self) -> Result<Option<String>, Error> {
        let shared = &self.shared;
        shared.with(|node, _| (!node.endpoint().has_primary()).then(|| shared.describe_brokers(node)))
    }

    /// The broker, by its place among the addresses, through which the primary is reached where that is out of reach from here.
    pub fn through(&self) -> Result<Option<usize>, Error> {
        self.shared.with(|node, _| node.endpoint().through().map(|broker| usize::from(broker.0)))
    }

    /// Begins to publish a topic under a contract. Returns when the primary has admitted it.
    pub fn publisher(&self, topic: &str, contract: Contract) -> Result<Publisher, Error> {
        self.publishers([(topic, Some(contract))]).and_then(first)
    }

    /// Begins to publish a topic whose contract is in the brokers' configuration.
    pub fn publisher_by_configuration(&self, topic: &str) -> Result<Publisher, Error> {
        self.publishers([(topic, None)]).and_then(first)
    }

    /// The same where the configuration has a contract for the topic, and one without a promise where it has none.
    pub fn publisher_as_configured(&self, topic: &str) -> Result<Publisher, Error> {
        match self.publisher_by_configuration(topic) {
            Err(Error::Refused { reason, .. }) if reason.contains("has no contract") => {
                self.publisher(topic, Contract::unstated())
            }
            publisher => publisher,
        }
    }

    /// Begins to publish many topics, asking for all before waiting for the first answer.
    pub fn publishers<'a>(
        &self,
        topics: impl IntoIterator<Item = (&'a str, Option<Contract>)>,
    ) -> Result<Vec<Publisher>, Error> {
        let publishers = self.shared.with(|node, net| {
            let one = |(topic, contract): (&str, Option<Contract>)| {
                let advertised = node.with(net, |endpoint, out| endpoint.advertise(topic, contract, out));
                let number = advertised.map_err(|error| Error::Topic(error.to_string()))?;
                Ok(Publisher { client: self.clone(), number, topic: topic.to_owned() })
            };
            topics.into_iter().map(one).collect::<Vec<Result<Publisher, Error>>>()
        })?;
        // Not collected inside: a publisher that is dropped there could not give its stream back.
        let publishers: Vec<Publisher> = publishers.into_iter().collect::<Result<_, _>>()?;
        for publisher in &publishers {
            let number = publisher.number;
            let state = self.shared.wait(|node| match node.endpoint().publication_state(number) {
                Some(PublicationState::Waiting) | None => None,
                Some(state) => Some(state.clone()),
            })?;
            match state {
                Some(PublicationState::Refused(reason, remedies)) => {
                    return Err(Error::Refused { topic: publisher.topic.clone(), reason, remedies });
                }
                Some(_) => {}
                None => return Err(self.shared.no_primary()),
            }
        }
        Ok(publishers)
    }

    /// Waits until the primary has looked at everything that was published before, and its word on what it could not keep has come.
    /// `false`: there is no primary, or it changed meanwhile.
    pub fn settle(&self) -> Result<bool, Error> {
        let Some(asked) = self.shared.with(|node, net| node.with(net, |endpoint, out| endpoint.ask(out)))?
        else {
            return Ok(false);
        };
        let answered = self.shared.wait(|node| match node.endpoint().has_answered(asked) {
            Some(false) => None,
            Some(true) => Some(true),
            None => Some(false),
        })?;
        answered.ok_or(Error::NoAnswer(self.shared.patience()))
    }

    /// Publishes several messages with one write.
    pub fn batch<T>(&self, act: impl FnOnce(&mut Batch<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.shared.batch(act)
    }

    /// Receives the topics of a filter, as an iterator.
    pub fn subscribe(&self, filter: &str) -> Result<Subscription, Error> {
        self.subscribe_needing(filter, Needs::NONE)
    }

    /// The same for a subscriber that needs more than the contracts of the topics say: messages sooner, fewer losses in a row, or over a way of
    /// another link class. Or for one that needs nothing ([`Needs::BEST_EFFORT`]), as dashboards do: it is served when there is time, and takes
    /// none from others. Brokers plan each topic by the strictest of those who receive it, and refuse what cannot be kept, with the numbers.
    /// ```no_run
    /// use verge::{Client, Needs, Span};
    /// # fn f(client: &Client) -> Result<(), verge::Error> {
    /// let needs = Needs { deadline: Some(Span::millis(5)), loss: Some(0), ..Needs::NONE };
    /// let vibration = client.subscribe_needing("turbine/+/vibration", needs)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe_needing(&self, filter: &str, needs: Needs) -> Result<Subscription, Error> {
        let (sender, receiver) = crossbeam_channel::bounded::<Message>(QUEUE_MESSAGES);
        let dropped = Arc::new(AtomicU64::new(0));
        let handler = queue(sender, receiver.clone(), Arc::clone(&dropped));
        let number = self.begin_subscription(filter, needs, handler)?;
        Ok(Subscription { client: self.clone(), number, receiver, dropped })
    }

    /// Receives the topics of a filter with a function, which is called on the client's thread, without a copy of the
    /// message being made. It must be quick, and may not call the client. Returns the subscription's number.
    pub fn subscribe_with(
        &self,
        filter: &str,
        handler: impl FnMut(&Delivery<'_>) + Send + 'static,
    ) -> Result<u32, Error> {
        self.begin_subscription(filter, Needs::NONE, handler)
    }

    /// Ends a subscription that [`Client::subscribe_with`] has begun. Its function is called no more once this returns.
    pub fn unsubscribe(&self, number: u32) {
        self.shared.unsubscribe(number);
    }

    pub(crate) fn begin_subscription(
        &self,
        filter: &str,
        needs: Needs,
        handler: impl FnMut(&Delivery<'_>) + Send + 'static,
    ) -> Result<u32, Error> {
        let parsed: TopicFilter = filter.parse().map_err(|error| Error::Topic(format!("{error}")))?;
        needs.check().map_err(|error| Error::SubscriptionRefused {
            filter: filter.to_owned(),
            reason: error.to_string(),
        })?;
        let handler: Handler = Box::new(handler);
        let number = self.shared.with(|node, net| {
            let number = node.with(net, |endpoint, out| endpoint.subscribe_with(&parsed, needs, out))?;
            node.application().handlers.insert(number, handler);
            Some(number)
        })?;
        let number = number.ok_or(Error::Limit("subscriptions"))?;
        let refused = match self.shared.wait(|node| node.application().subscribed.get(&number).cloned())? {
            Some(Ok(_)) => return Ok(number),
            Some(Err(reason)) => Error::SubscriptionRefused { filter: filter.to_owned(), reason },
            None => self.shared.no_primary(),
        };
        self.shared.unsubscribe(number);
        Err(refused)
    }

    /// Why subscriptions go on with less than was asked for, since this was last asked: a topic that came later cannot be carried as somebody
    /// needs it, or the broker serves a subscription as best effort for which it has no time (`admission.subscriptions`).
    pub fn dropped_needs(&self) -> Result<Vec<String>, Error> {
        self.shared.with(|node, _| std::mem::take(&mut node.application().dropped_needs))
    }

    /// Hears of every change of the primary, on the client's thread.
    pub fn on_reign(&self, handler: impl FnMut(Reigning) + Send + 'static) -> Result<(), Error> {
        self.shared.with(|node, _| node.application().on_reign = Some(Box::new(handler)))
    }

    /// Hears when messages were dropped for this client, since it reads slower than its topics publish; on the client's thread, and at
    /// most every ten seconds.
    pub fn on_shortfall(&self, handler: impl FnMut(&Shortfall) + Send + 'static) -> Result<(), Error> {
        self.shared.with(|node, _| node.application().on_shortfall = Some(Box::new(handler)))
    }

    /// The accounts of all streams received so far.
    pub fn accounts(&self) -> Result<Vec<Account>, Error> {
        self.shared.with(|node, net| {
            node.with(net, |endpoint, _| endpoint.judge_gaps(host::now()));
            node.endpoint().streams().map(|stream| Account::new(&stream)).collect()
        })
    }

    /// How far this host's clock is ahead of the primary's, and how exactly that is known. `None` until the primary has been asked.
    /// Latencies are counted from one clock to another, so that they mean nothing where clocks differ.
    pub fn clock(&self) -> Result<Option<ClockDifference>, Error> {
        self.shared.with(|node, _| node.endpoint().clock())
    }

    /// An error, with the reason, once the client has ended: one of its handlers has panicked, or the system has refused what it cannot
    /// do without. Nothing comes any more then, and nothing can be sent. Whoever only waits for messages asks now and then.
    pub fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// The addresses of the brokers, as far as they are known: names are asked for while the client runs.
    pub fn brokers(&self) -> Result<Vec<SocketAddr>, Error> {
        self.shared.with(|node, _| node.application().places.addresses())
    }

    /// How each broker is reached, or why it is not. A name that does not resolve is among them.
    pub fn reaches(&self) -> Result<Vec<Reach>, Error> {
        self.shared.with(|node, _| reaches(node))
    }

    /// Whether it has been asked for every name once.
    pub fn has_asked(&self) -> Result<bool, Error> {
        self.shared.with(|node, _| node.application().places.is_asked())
    }

    /// The snapshot of one broker, by its place among the addresses; `None` if it is not connected. With `streams`,
    /// all its streams, operators and levels as well.
    pub fn status(&self, broker: usize, streams: bool) -> Result<Option<NodeReport>, Error> {
        let index = broker as u8;
        self.shared.with(|node, _| {
            if node.endpoint().connected().any(|broker| broker.0 == index) {
                node.application().denied.remove(&index);
            }
            node.application().snapshots.remove(&index);
            node.application().rows.remove(&index);
            node.application().row_answers.remove(&index);
        })?;
        let mut first_stream = 0;
        let mut answers = 0;
        loop {
            let rows = if streams { ROWS } else { 0 };
            let asked = Frame::StatusRequest { first_stream, rows };
            if !self.request(index, &asked)? {
                let denied = self.shared.with(|node, _| node.application().denied.get(&index).cloned())?;
                return denied.map_or(Ok(None), |reason| Err(Error::Denied(reason)));
            }
            answers += u64::from(streams);
            let report = self.shared.wait(|node| {
                let events = node.application();
                let complete = events.row_answers.get(&index).copied().unwrap_or(0) >= answers;
                match events.snapshots.get(&index).filter(|_| complete) {
                    Some(report) => Some(Ok(report.clone())),
                    None => events.denied.get(&index).map(|reason| Err(Error::Denied(reason.clone()))),
                }
            })?;
            let Some(mut report) = report.transpose()? else {
                return Err(Error::NoAnswer(self.shared.patience()));
            };
            let cut = self.shared.with(|node, _| {
                let events = node.application();
                let cut = events.cut_at.remove(&index);
                // Operators are counted like streams, and come again with the streams that were left out.
                cut.iter()
                    .for_each(|cut| events.rows.entry(index).or_default().operators.truncate(*cut as usize));
                cut
            })?;
            first_stream = cut.unwrap_or(first_stream + rows);
            if !streams || first_stream >= report.stream_slots.max(report.operator_rows) {
                let rows = self.shared.with(|node, _| node.application().rows.remove(&index))?;
                let rows = rows.unwrap_or_default();
                (report.streams, report.operators, report.levels) =
                    (rows.streams, rows.operators, rows.levels);
                return Ok(Some(report));
            }
        }
    }

    /// Who the clients of the primary are: a JSON array, one object for each.
    pub fn clients(&self) -> Result<String, Error> {
        let primary = self.primary()?;
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            self.shared.with(|node, _| node.application().clients = None)?;
            self.request(primary, &Frame::ClientsRequest { after: &after })?;
            let (next, rows) = self.answer(primary, |events| events.clients.take())?;
            all.extend(rows);
            if next.is_empty() {
                break;
            }
            after = next;
        }
        // Each row ends with a comma.
        let rows = String::from_utf8_lossy(&all);
        Ok(format!("[{}]", rows.trim_end_matches(',')))
    }

    /// Has the primary disconnect a client, and end its session if that is wanted. Says whether there was one.
    pub fn drop_client(&self, client: &str, ends: bool) -> Result<bool, Error> {
        let primary = self.primary()?;
        self.shared.with(|node, _| node.application().dropped_client = None)?;
        self.request(primary, &Frame::DropClient { client, ends })?;
        self.answer(primary, |events| events.dropped_client.take())
    }

    /// Where the primary is among the addresses.
    fn primary(&self) -> Result<u8, Error> {
        self.wait_for_primary()?;
        let primary = self.shared.with(|node, _| node.endpoint().primary())?;
        primary.map(|PeerIndex(primary)| primary).ok_or_else(|| self.shared.no_primary())
    }

    /// Waits for an answer of a broker, or for its refusal to answer.
    fn answer<T>(&self, broker: u8, mut take: impl FnMut(&mut Events) -> Option<T>) -> Result<T, Error> {
        let answer = self.shared.wait(|node| {
            let events = node.application();
            match take(events) {
                Some(answer) => Some(Ok(answer)),
                None => events.denied.get(&broker).map(|reason| Err(Error::Denied(reason.clone()))),
            }
        })?;
        answer.unwrap_or_else(|| Err(Error::NoAnswer(self.shared.patience())))
    }

    /// Asks the primary to give the reign to its backup. Returns the new epoch.
    pub fn handover(&self) -> Result<Epoch, Error> {
        self.wait_for_primary()?;
        self.shared.with(|node, _| node.application().handover = None)?;
        let primary = self.shared.with(|node, _| node.endpoint().primary())?;
        let Some(PeerIndex(primary)) = primary else { return Err(self.shared.no_primary()) };
        self.request(primary, &Frame::Handover)?;
        match self.shared.wait(|node| node.application().handover.take())? {
            Some(Ok(epoch)) => Ok(epoch),
            Some(Err(reason)) => Err(Error::Handover(reason)),
            None => Err(Error::NoAnswer(self.shared.patience())),
        }
    }

    fn request(&self, broker: u8, frame: &Frame<'_>) -> Result<bool, Error> {
        self.shared
            .with(|node, net| node.with(net, |endpoint, out| endpoint.request(PeerIndex(broker), frame, out)))
    }
}

impl Shared {
    /// The client's own thread. An error is what it cannot go on with.
    fn run(&self, poller: &Poller, sleeper: &UnixStream) -> Result<(), String> {
        let mut ready = Vec::new();
        while !self.ended.load(Ordering::Acquire) {
            host::end_on_purpose(THREAD)?;
            if let Some(loss) = self.helpers.loss() {
                return Err(loss.to_string());
            }
            let due = lock(&self.driver).due();
            let waited = poller.wait_until(due, &mut ready);
            waited.map_err(|error| format!("cannot wait for sockets: {error}"))?;
            if ready.iter().any(host::Ready::is_waker) {
                // What is written there only wakes.
                let _ = rustix::io::read(sleeper, &mut [0_u8; 64][..]);
            }
            let mut driver = lock(&self.driver);
            let _inside = Inside::enter(self);
            let before = driver.with_unsent(|node, _| node.application().heard);
            driver.turn(&ready);
            let after = driver.with_unsent(|node, _| node.application().heard);
            drop(driver);
            if after != before {
                self.changed.notify_all();
            }
        }
        Ok(())
    }

    /// The thread ends, by a handler's panic or an error too. Nobody must wait for it.
    fn end(&self, result: Result<(), String>) {
        if let Err(reason) = result {
            let _ = self.reason.set(reason);
        }
        self.ended.store(true, Ordering::Release);
        // Handlers may own the last of this client's users, which ask for the node when they are dropped.
        let handlers = lock(&self.driver).with_unsent(|node, _| node.application().take_handlers());
        drop(handlers);
        self.changed.notify_all();
    }

    /// An error once the client has ended.
    fn check(&self) -> Result<(), Error> {
        if !self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = self.reason.get().map_or("nobody uses it any more", String::as_str);
        Err(Error::Ended(reason.to_owned()))
    }

    fn wake(&self) {
        // A full socket has woken the thread already.
        let _ = rustix::io::write(&self.waker, b"!");
    }

    /// Does something with the node, and sends what it writes.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&mut ClientNode<Events>, &mut Network) -> T,
    ) -> Result<T, Error> {
        self.refuse_reentry()?;
        let mut driver = lock(&self.driver);
        let _inside = Inside::enter(self);
        let result = driver.with(act);
        let has_news = driver.has_news();
        drop(driver);
        if has_news {
            // Sending found the connection broken; the thread has to look after that at once.
            self.wake();
        }
        Ok(result)
    }

    pub(crate) fn batch<T>(&self, act: impl FnOnce(&mut Batch<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.with(|node, net| act(&mut Batch { node, net }))?
    }

    /// Waits until `look` finds something. `None` when the patience is over.
    fn wait<T>(
        &self,
        mut look: impl FnMut(&mut ClientNode<Events>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.refuse_reentry()?;
        let until = Instant::now() + self.patience;
        let mut driver = lock(&self.driver);
        loop {
            self.check()?;
            if let Some(found) = driver.with_unsent(|node, _| look(node)) {
                return Ok(Some(found));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            driver = self.changed.wait_timeout(driver, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends a subscription and forgets its handler.
    pub(crate) fn unsubscribe(&self, number: u32) {
        // Inside a handler the client cannot be called; the subscription then ends with the connection.
        let handler = self.with(|node, net| {
            node.application().subscribed.remove(&number);
            node.with(net, |endpoint, out| endpoint.unsubscribe(number, out));
            node.application().handlers.remove(&number)
        });
        drop(handler);
    }

    /// The node is held while handlers and batches run; whoever asked for it from inside would wait for itself.
    fn refuse_reentry(&self) -> Result<(), Error> {
        self.check()?;
        let inside = HOLDING.with(|holding| holding.get() == std::ptr::from_ref(self).addr());
        if inside { Err(Error::InsideHandler) } else { Ok(()) }
    }

    fn patience(&self) -> Span {
        Span::nanos(i64::try_from(self.patience.as_nanos()).unwrap_or(i64::MAX))
    }

    fn no_primary(&self) -> Error {
        match self.with(|node, _| (self.describe_brokers(node), remedy(&reaches(node)))) {
            Ok((brokers, remedy)) => Error::NoPrimary { waited: self.patience(), brokers, remedy },
            Err(error) => error,
        }
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// There is something new that nobody has sent: the thread looks after it, and whoever waits looks again.
    pub(crate) fn tell_of_change(&self) {
        self.wake();
        self.changed.notify_all();
    }

    /// What each broker last did, in words.
    fn describe_brokers(&self, node: &mut ClientNode<Events>) -> String {
        let brokers: Vec<String> = reaches(node).into_iter().map(|reach| describe(&reach, node)).collect();
        let mut brokers = brokers.join(", ");
        let trouble = lock(&self.trouble);
        if !trouble.is_empty() {
            brokers.push_str(&format!("; {trouble}"));
        }
        brokers
    }
}

/// What one broker last did.
fn describe(reach: &Reach, node: &mut ClientNode<Events>) -> String {
    let Reach { address, broker, trouble, .. } = reach;
    let broker = PeerIndex(broker.unwrap_or(usize::from(u8::MAX)) as u8);
    let standing = node.endpoint().standing(broker);
    let no_way = node.application().no_way.get(&broker.0);
    match (trouble, standing, no_way) {
        (Some(trouble), ..) => format!("{address} {trouble}"),
        (None, Some(Standing::Backup), Some(reason)) => format!(
            "{address} stands by for a primary out of reach from here, and lets nobody through: {reason}"
        ),
        (None, Some(Standing::Backup), None) => {
            format!("{address} stands by for a primary out of reach from here")
        }
        (None, ..) => format!("{address} looks for its partner"),
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.wake();
        if HOLDING.with(|holding| holding.get() == std::ptr::from_ref(&*self.shared).addr()) {
            // Dropped by one of its own handlers: the thread ends after it, and the connections with it.
            return;
        }
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // The thread only ends; that it panicked has been printed, and there is nobody left to tell.
            let _ = thread.join();
        }
        let mut driver = lock(&self.shared.driver);
        driver.with(|node, net| node.with(net, |endpoint, out| endpoint.say_farewell(out)));
        let handlers = driver.with_unsent(|node, _| node.application().take_handlers());
        drop(driver);
        drop(handlers);
    }
}

/// A handler that panicked leaves nothing half done in the driver, so its lock is taken all the same.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn first(publishers: Vec<Publisher>) -> Result<Publisher, Error> {
    publishers.into_iter().next().ok_or(Error::Limit("publications"))
}

/// Handshakes of one client at once: one for each broker.
const HANDSHAKES: usize = BROKERS_MAX;
/// How long one may take.
const HANDSHAKE_TIME: Span = Span::secs(2);

/// Encrypts the connections of a client. `trouble` gets why a handshake failed.
fn secure(
    driver: &mut Driver<ClientNode<Events>>,
    settings: &TlsSettings,
    trouble: Arc<Mutex<String>>,
    helpers: &Helpers,
) -> Result<(), Error> {
    let bad = |error: TlsError| Error::Tls(error.to_string());
    let (tls, _) = Tls::load(settings).map_err(bad)?;
    if !tls.dials() {
        return Err(Error::Tls(
            "nobody is known who issues certificates of brokers: give tls.ca, or --ca".to_owned(),
        ));
    }
    let troubles = Arc::new(Troubles::new(move |line| line.clone_into(&mut lock(&trouble))));
    let settings = HandshakeSettings {
        handshakes: HANDSHAKES,
        within: HANDSHAKE_TIME,
        tls: Some(Arc::new(tls)),
        troubles,
    };
    let lobby = Handshakes::start(settings, helpers);
    let system = |error: HostError| Error::System(error.to_string());
    driver.employ(lobby.map_err(system)?).map_err(system)
}

/// What is too long would be cut on its way, and be another name or password.
fn check(credentials: &Credentials) -> Result<(), Error> {
    let Credentials { user, password } = credentials;
    let limits =
        [("user name", user.len(), USER_BYTES_MAX), ("password", password.len(), PASSWORD_BYTES_MAX)];
    match limits.into_iter().find(|(_, bytes, max)| bytes > max) {
        Some((what, bytes, max)) => {
            Err(Error::Credentials(format!("a {what} of {bytes} bytes is above the limit of {max}")))
        }
        None if user.is_empty() && !password.is_empty() => {
            Err(Error::Credentials("there is a password and no user name".to_owned()))
        }
        None => Ok(()),
    }
}

/// Reads where brokers are, `host:port`, several divided by commas.
pub fn places(brokers: &str) -> Result<Vec<Place>, Error> {
    let one = |text: &str| text.parse().map_err(|reason| Error::Address { text: text.to_owned(), reason });
    let texts = brokers.split(',').map(str::trim).filter(|text| !text.is_empty());
    let places: Vec<Place> = texts.map(one).collect::<Result<_, _>>()?;
    match places.len() {
        0 => Err(Error::Address { text: brokers.to_owned(), reason: "it is empty".to_owned() }),
        1..=BROKERS_MAX => Ok(places),
        _ => Err(Error::Limit("brokers")),
    }
}
