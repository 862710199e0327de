//! A session with the coordination service, for an uplink or a router, and errands that may take long.
//!
//! Whoever is coordinated has no time to wait: sessions are made and given up, and names of hosts are looked for, by a thread of ordinary
//! priority. What it has done is fetched with [`Service::turn`] after its bell has been rung.

use super::approach::{Approach, proxy_login};
use crate::Trouble;
use crate::log::Lines;
use crate::users::read_password;
use config::Config;
use coordination::{Event, Login, Proxy, Settings, Tls, Wake, ZooKeeper};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use federation::{Participant, Request, Ticket};
use host::tls::client_terms;
use host::{Helpers, Target, now};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long it takes until a session is tried again that could not even be begun.
const AGAIN: Duration = Duration::from_secs(1);

enum Errand {
    /// A new session; the former is abandoned, so that what it owns stays until it is claimed anew.
    Connect(Option<ZooKeeper>),
    /// No session any more; what it owns stays in the same way.
    Leave(ZooKeeper),
    /// Where a router is.
    Find(String, String),
}

enum Done {
    Connected(ZooKeeper),
    Failed(String),
    Found(String, Result<Vec<Target>, String>),
}

/// A participant as its driver sees it.
pub trait Coordinated {
    /// The number of the session that it wants.
    fn wants(&self) -> Option<u64>;
    /// The next request.
    fn poll(&mut self) -> Option<(Ticket, Request)>;
    /// It is told something.
    fn tell(&mut self, tell: &mut dyn FnMut(&mut dyn Participant));
    /// Something is wrong with the session, or nothing is any more.
    fn trouble(&mut self, trouble: Option<&str>);
    /// Where a router is that it asked for.
    fn found(&mut self, _router: &str, _targets: Vec<Target>) {}
}

/// See the module's words.
pub struct Service {
    errands: Sender<Errand>,
    done: Receiver<Done>,
    zookeeper: Option<ZooKeeper>,
    /// The number of the session that there is, or that has been asked for.
    life: Option<u64>,
    lines: Lines,
}

impl Service {
    /// Begins nothing yet. `ring` is called when there is something to fetch; `approach`: how routers are reached.
    pub fn start(
        config: &Config,
        lines: &Lines,
        helpers: &Helpers,
        approach: Approach,
        ring: Wake,
    ) -> Result<Service, Trouble> {
        let settings = settings(config)?;
        let (errands, asked) = unbounded();
        let (tell, done) = bounded(64);
        let (said, hires) = (lines.clone(), helpers.clone());
        helpers.hire("coordinating", move || {
            let mut known = BTreeMap::new();
            while let Ok(errand) = asked.recv() {
                let done = match errand {
                    Errand::Leave(former) => {
                        former.abandon();
                        continue;
                    }
                    Errand::Connect(former) => {
                        former.into_iter().for_each(ZooKeeper::abandon);
                        match ZooKeeper::connect(settings.clone(), Arc::clone(&ring)) {
                            Ok(zookeeper) => Done::Connected(zookeeper),
                            Err(error) => {
                                std::thread::sleep(AGAIN);
                                Done::Failed(error.to_string())
                            }
                        }
                    }
                    Errand::Find(router, locator) => {
                        let found = find(&locator, &approach, &mut known, &said, &hires);
                        Done::Found(router, found)
                    }
                };
                // The other end is there as long as the process.
                _ = tell.send(done);
                ring();
            }
            Ok(())
        })?;
        Ok(Service { errands, done, zookeeper: None, life: None, lines: lines.clone() })
    }

    /// Asks where a router is.
    pub fn find(&self, router: String, locator: String) {
        _ = self.errands.send(Errand::Find(router, locator));
    }

    /// Tells a participant what has come, and sends what it asks.
    pub fn turn(&mut self, of: &mut impl Coordinated) {
        while let Ok(done) = self.done.try_recv() {
            match done {
                Done::Connected(zookeeper) => self.zookeeper = Some(zookeeper),
                Done::Failed(why) => {
                    of.trouble(Some(&why));
                    self.life = None;
                }
                Done::Found(router, Ok(reach)) => of.found(&router, reach),
                Done::Found(router, Err(why)) => {
                    self.lines.warn(&format!("the router {router} is reached nowhere: {why}"));
                }
            }
        }
        let wanted = of.wants();
        if wanted != self.life {
            // One that is on its way is given up when it has come.
            match (wanted, self.zookeeper.take()) {
                (None, Some(former)) => _ = self.errands.send(Errand::Leave(former)),
                (Some(_), former) if former.is_some() || self.life.is_none() => {
                    _ = self.errands.send(Errand::Connect(former));
                }
                _ => return,
            }
            self.life = wanted;
            return;
        }
        let Some(zookeeper) = &mut self.zookeeper else { return };
        loop {
            while let Some(event) = zookeeper.poll_event() {
                match event {
                    Event::Session(session) => {
                        if let federation::Session::Connected(_) = session {
                            of.trouble(None);
                        }
                        of.tell(&mut |one| one.handle_session(now(), session));
                    }
                    Event::Reply(ticket, reply) => {
                        let mut reply = Some(reply);
                        of.tell(&mut |one| {
                            reply.take().into_iter().for_each(|reply| one.handle_reply(now(), ticket, reply));
                        });
                    }
                    Event::Ring(path) => of.tell(&mut |one| one.handle_event(now(), &path)),
                    Event::Trouble(trouble) => of.trouble(Some(&trouble.to_string())),
                }
            }
            let mut asked = false;
            while zookeeper.has_room()
                && let Some((ticket, request)) = of.poll()
            {
                asked = true;
                if zookeeper.ask(ticket, request).is_err() {
                    contract::invariant!("there was room");
                }
            }
            if !asked {
                return;
            }
        }
    }
}

/// Where the brokers of a router are: `host:port`, with commas between.
fn find(
    locator: &str,
    approach: &Approach,
    known: &mut BTreeMap<String, Target>,
    lines: &Lines,
    helpers: &Helpers,
) -> Result<Vec<Target>, String> {
    let one = |text: &str| {
        if let Some(target) = known.get(text) {
            return Ok(target.clone());
        }
        let target = approach.reach(&text.parse()?, "a router", lines, helpers)?;
        known.insert(text.to_owned(), target.clone());
        Ok(target)
    };
    locator.split(',').map(one).collect::<Result<_, String>>().map_err(|why| format!("`{locator}`: {why}"))
}

/// Where the service is, and as whom it is spoken to.
pub fn settings(config: &Config) -> Result<Settings, Trouble> {
    let Some(service) = &config.coordination else {
        return Err(Trouble(
            "no coordination service is configured: give coordination.servers, see sites.md".to_owned(),
        ));
    };
    let servers: Vec<String> = service.servers.iter().map(ToString::to_string).collect();
    let password = service.login.password_file.as_deref().map(read_password).transpose()?;
    let login = service.login.user.clone().zip(password).map(|(user, password)| {
        if service.sasl { Login::Sasl { user, password } } else { Login::Digest { user, password } }
    });
    let settings = Settings::new(&servers.join(","), &service.namespace);
    let proxy = config.site.as_ref().and_then(|site| site.proxy.as_ref());
    let proxy = proxy.map(|(address, login)| -> Result<Proxy, Trouble> {
        Ok(Proxy { kind: address.kind, address: address.place.to_string(), login: proxy_login(login)? })
    });
    let files = config.tls.clone();
    let terms = move || client_terms(&files).map_err(|error| error.to_string());
    let tls = service.secure.then(|| Tls(Arc::new(terms)));
    Ok(Settings { session_time_out: service.session, tls, login, proxy: proxy.transpose()?, ..settings })
}

/// What both brokers of a pair have in common, and no other pair has.
pub fn identity(config: &Config) -> String {
    let pair = config.pair();
    if config.is_local() { format!("{}:{pair}", host_name()) } else { pair }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
