//! The thread that speaks with the service.
//!
//! The client connects again by itself for seven fifths of the session's time-out, and then gives the session up, though the service may
//! not have: it may have been away itself. So the session is only over when the service says so: until then it is gone on with.
//!
//! Rings are told before answers wherever both have come: an answer that was read after a ring is never told before it.

use crate::requests::{Answer, Service};
use crate::settings::Settings;
use crate::through::Ways;
use crate::watches::Watches;
use crate::zookeeper::{Asked, Event, Trouble, Wake};
use federation::{REQUESTS_MAX, Reply, Session, Ticket};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc;
use zookeeper_client::{Client, Error, SessionInfo, SessionState};

/// How long is waited before the service is tried again: the first time, and from then on.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// How long the service has to hear that a session is closed.
const CLOSE_MAX: Duration = Duration::from_secs(1);

type Answered = (u64, Ticket, Answer);
type UnderWay = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// See the module's words.
pub(crate) struct Driver {
    settings: Settings,
    asked: mpsc::Receiver<Asked>,
    told: mpsc::Sender<Event>,
    wake: Wake,
    under_way: FuturesUnordered<UnderWay>,
    watches: Watches,
    /// Changes of the session that have been told.
    life: u64,
    connected: bool,
    /// The last session, while the service has not said that it is over.
    session: Option<SessionInfo>,
    trouble: Option<Trouble>,
}

/// Whoever asks is gone.
struct Gone;

impl Driver {
    pub(crate) fn new(
        settings: Settings,
        asked: mpsc::Receiver<Asked>,
        told: mpsc::Sender<Event>,
        wake: Wake,
    ) -> Driver {
        Driver {
            settings,
            asked,
            told,
            wake,
            under_way: FuturesUnordered::new(),
            watches: Watches::default(),
            life: 0,
            connected: false,
            session: None,
            trouble: None,
        }
    }

    /// Until whoever asks is gone.
    pub(crate) async fn drive(mut self) {
        let (mut failures, mut ways) = (0, None);
        loop {
            let (settings, session) = (self.settings.clone(), self.session.clone());
            let Ok(connected) = self.meanwhile(connect(settings, &mut ways, session)).await else { return };
            let pause = match connected {
                Ok(service) => {
                    failures = 0;
                    if self.serve(Arc::new(service)).await.is_err() {
                        return;
                    }
                    continue;
                }
                Err(Failed::Expired) => {
                    self.session = None;
                    self.tell_session(Session::Expired).await;
                    continue;
                }
                Err(Failed::Trouble(trouble)) => {
                    self.tell_trouble(trouble).await;
                    BACK_OFF[failures.min(BACK_OFF.len() - 1)]
                }
            };
            failures += 1;
            if self.meanwhile(tokio::time::sleep(pause)).await.is_err() {
                return;
            }
        }
    }

    /// Does something while there is no connection: what is asked is not done.
    async fn meanwhile<T>(&mut self, what: impl Future<Output = T>) -> Result<T, Gone> {
        let mut what = std::pin::pin!(what);
        loop {
            tokio::select! {
                done = &mut what => return Ok(done),
                asked = self.asked.recv() => {
                    let Some(Asked { life, ticket, .. }) = asked else { return Err(Gone) };
                    self.tell_reply(life, ticket, Reply::Lost).await;
                }
            }
        }
    }

    /// Serves until the client gives up.
    async fn serve(&mut self, service: Arc<Service>) -> Result<(), Gone> {
        let mut states = service.client.state_watcher();
        self.session = Some(service.client.session().clone());
        self.trouble = None;
        let number = service.client.session_id().0;
        // What has become of it since it was connected is told below.
        self.connect(number).await;
        if service.client.state() == SessionState::Disconnected {
            self.away().await;
        }
        loop {
            tokio::select! {
                biased;
                state = states.changed() => match state {
                    SessionState::SyncConnected => self.connect(number).await,
                    SessionState::Disconnected | SessionState::ConnectedReadOnly => self.away().await,
                    SessionState::Expired | SessionState::AuthFailed | SessionState::Closed => break,
                },
                path = self.watches.next() => self.tell(Event::Ring(path)).await,
                Some((life, ticket, answer)) = self.under_way.next() => self.answer(life, ticket, answer).await,
                asked = self.asked.recv(), if self.under_way.len() < REQUESTS_MAX => match asked {
                    Some(asked) => self.begin(&service, asked).await,
                    None => {
                        self.close(service).await;
                        return Err(Gone);
                    }
                },
            }
        }
        self.away().await;
        self.under_way.clear();
        self.watches.clear();
        Ok(())
    }

    /// Sends a request.
    async fn begin(&mut self, service: &Arc<Service>, asked: Asked) {
        let Asked { life, ticket, request } = asked;
        if life != self.life || !self.connected {
            return self.tell_reply(life, ticket, Reply::Lost).await;
        }
        let service = Arc::clone(service);
        let answer = async move { (life, ticket, service.answer(&request).await) };
        let mut answer: UnderWay = Box::pin(answer);
        // Sent here, so that what is asked is sent in the order in which it was asked.
        match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready((life, ticket, answer)) => self.answer(life, ticket, answer).await,
            Poll::Pending => self.under_way.push(answer),
        }
    }

    async fn answer(&mut self, life: u64, ticket: Ticket, answer: Answer) {
        let Answer { reply, watch, forbidden } = answer;
        if let Some(path) = forbidden {
            let user = self.settings.login.as_ref().map_or("nobody", |login| login.user()).to_owned();
            self.tell_trouble(Trouble::Forbidden { path, user }).await;
        }
        let mut rung = None;
        if let Some((kind, path, watcher)) = watch
            && self.watches.add(kind, path.clone(), watcher).await
        {
            rung = Some(path);
        }
        self.tell_reply(life, ticket, reply).await;
        if let Some(path) = rung {
            self.tell(Event::Ring(path)).await;
        }
    }

    async fn connect(&mut self, number: i64) {
        self.away().await;
        self.connected = true;
        self.tell_session(Session::Connected(number)).await;
    }

    async fn away(&mut self) {
        if std::mem::take(&mut self.connected) {
            self.tell_session(Session::Away).await;
        }
    }

    /// The session ends, and what it owns goes.
    async fn close(&mut self, service: Arc<Service>) {
        let mut states = service.client.state_watcher();
        // The client closes the session when nobody holds it any more.
        self.under_way.clear();
        self.watches.clear();
        drop(service);
        let closed = async { while !states.changed().await.is_terminated() {} };
        _ = tokio::time::timeout(CLOSE_MAX, closed).await;
    }

    async fn tell_session(&mut self, session: Session) {
        self.life += 1;
        self.tell(Event::Session(session)).await;
    }

    /// What was asked in another life is not waited for any more.
    async fn tell_reply(&mut self, life: u64, ticket: Ticket, reply: Reply) {
        if life == self.life {
            self.tell(Event::Reply(ticket, reply)).await;
        } else {
            // There is room again.
            (self.wake)();
        }
    }

    async fn tell_trouble(&mut self, trouble: Trouble) {
        if self.trouble.as_ref() != Some(&trouble) {
            self.trouble = Some(trouble.clone());
            self.tell(Event::Trouble(trouble)).await;
        }
    }

    async fn tell(&mut self, event: Event) {
        // Whoever is gone hears nothing; that is noticed where requests are taken.
        _ = self.told.send(event).await;
        (self.wake)();
    }
}

/// Why there is no connection.
enum Failed {
    /// The service says that the session is over.
    Expired,
    Trouble(Trouble),
}

/// Tries each server once, over TLS and through a proxy where that is wanted.
async fn connect(
    settings: Settings,
    ways: &mut Option<Ways>,
    session: Option<SessionInfo>,
) -> Result<Service, Failed> {
    let servers = settings.servers.clone();
    let unreachable = |why| Failed::Trouble(Trouble::Unreachable { servers: servers.clone(), why });
    if ways.is_none() && (settings.proxy.is_some() || settings.tls.is_some()) {
        *ways = Some(Ways::open(&settings).await.map_err(unreachable)?);
    }
    let reached = ways.as_ref().map_or(&servers, |ways| &ways.servers);
    let connector = settings.connector();
    let is_resumed = session.is_some();
    let connector = match session {
        Some(session) => connector.with_session(session),
        None => connector,
    };
    let connected = connector.connect(reached).await;
    let refused = ways.as_ref().and_then(Ways::take_reason);
    let root = match connected {
        Ok(root) => root,
        Err(Error::SessionExpired) if is_resumed => return Err(Failed::Expired),
        Err(Error::AuthFailed) => {
            let user = settings.login.as_ref().map_or("nobody", |login| login.user()).to_owned();
            return Err(Failed::Trouble(Trouble::TurnedAway { servers: servers.clone(), user }));
        }
        Err(error) => {
            return Err(unreachable(refused.unwrap_or_else(|| error.to_string())));
        }
    };
    let namespace = settings.namespace.clone();
    let failed = |why: &Error| {
        let (servers, namespace) = (servers.clone(), namespace.clone());
        Failed::Trouble(Trouble::Namespace { servers, namespace, why: why.to_string() })
    };
    let chroot = |root: Client| root.chroot(namespace.clone());
    let client = chroot(root.clone()).map_err(|_| failed(&Error::NoNode))?;
    let service = Service { root, client, namespace: namespace.clone(), access: settings.access() };
    if is_resumed {
        // What is dropped closes its session: nothing may go wrong any more with one that owns something.
        return Ok(service);
    }
    match service.make_namespace().await {
        Ok(()) => Ok(service),
        Err(error @ (Error::ConnectionLoss | Error::Timeout | Error::ClientClosed)) => {
            Err(unreachable(error.to_string()))
        }
        Err(error) => Err(failed(&error)),
    }
}
