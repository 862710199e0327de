//! What happens to sites and routers, one after the other.

use super::SitesDemoArguments;
use super::hosts::{Hosts, Place};
use super::ledger::{Ledger, RECEIVERS, Way};
use super::load::{self, DEADLINE, Load, PERIOD, RETAIN};
use super::service::Service;
use crate::crash::{
    Folder, PATIENCE, Process, configuration, free_ports, make_recording, say, start_broker,
    wait_for_protection,
};
use console::Trouble;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use verge::Client;

/// Calm before something dies, and for how long it stays dead.
const CALM: Duration = Duration::from_secs(3);
/// Until a router that is alone has been replaced: its session has to end where a service names routers.
const REPLACED: Duration = Duration::from_secs(9);
/// Until what was missed has come, behind what is live.
const CAUGHT_UP: Duration = Duration::from_secs(14);
/// Until a site that has moved is known where it is.
const MOVED: Duration = Duration::from_secs(6);
/// Until everything that was missed has come at the end.
const SETTLE: Duration = Duration::from_secs(40);
/// What uplinks retain of each stream: more than is published until a router has been replaced.
const UPLINK_RETAIN: u32 = 80;
/// Where ZooKeeper listens.
const SERVICE_PORT: u16 = 2181;

/// What is said when somebody ends it.
pub const ASKED_TO_END: &str = "the demo was asked to end";
/// What the processes say.
pub const LOGS: [&str; 9] = [
    "north-a.log",
    "north-b.log",
    "south-a.log",
    "south-b.log",
    "east-a.log",
    "east-b.log",
    "r1.log",
    "r2.log",
    "service.log",
];

/// A site: a pair of brokers, each a process.
struct Site {
    place: Place,
    config: PathBuf,
    logs: [PathBuf; 2],
    brokers: [Option<Process>; 2],
    /// Where clients at the site reach it.
    near: String,
    watcher: Client,
}

impl Site {
    fn start(folder: &Folder, hosts: &Hosts, place: Place, more: &str) -> Result<Site, Trouble> {
        let name = place.name();
        let config = folder.file(&format!("{name}.toml"));
        let logs = ["a", "b"].map(|broker| folder.file(&format!("{name}-{broker}.log")));
        hosts.at(place, || {
            let ports = free_ports::<4>()?;
            std::fs::write(&config, configuration(ports, 0, None) + more)?;
            let near = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[2]);
            let brokers = [Some(start_broker(&config, 0, &logs)?), Some(start_broker(&config, 1, &logs)?)];
            let watcher = Client::builder().patience(PATIENCE).connect(&near)?;
            wait_for_protection(&watcher, 0)?;
            Ok(Site { place, config, logs, brokers, near, watcher })
        })
    }

    /// SIGKILL to the primary. Returns its place, and its epoch.
    fn kill_primary(&mut self) -> Result<(usize, u64), Trouble> {
        let (name, epoch) = wait_for_protection(&self.watcher, 0)?;
        let index = usize::from(name == "b");
        if let Some(mut broker) = self.brokers[index].take() {
            broker.kill()?;
        }
        Ok((index, epoch))
    }

    fn restart(&mut self, hosts: &Hosts, index: usize) -> Result<(), Trouble> {
        let broker = hosts.at(self.place, || start_broker(&self.config, index, &self.logs))?;
        self.brokers[index] = Some(broker);
        Ok(())
    }
}

/// A router that is alone.
struct Router {
    place: Place,
    address: String,
    config: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

impl Router {
    fn new(folder: &Folder, hosts: &Hosts, place: Place, more: &str) -> Result<Router, Trouble> {
        let name = place.name();
        let [clients, pair] = free_ports::<2>()?;
        let address = format!("{}:{clients}", hosts.address(place));
        let config = folder.file(&format!("{name}.toml"));
        let text = format!(
            "{more}[brokers.a]\nclients = \"{address}\"\npair = \"127.0.0.1:{pair}\"\nstart_as = \"primary\"\n"
        );
        std::fs::write(&config, text)?;
        Ok(Router { place, address, config, log: folder.file(&format!("{name}.log")), process: None })
    }

    fn start(&mut self, hosts: &Hosts) -> Result<(), Trouble> {
        let config = self.config.display().to_string();
        // The network is the demo's own.
        let words = ["--config", &config, "--while-input", "broker", "a", "--insecure"].map(str::to_owned);
        self.process = Some(hosts.at(self.place, || Process::start(&words, &self.log))?);
        Ok(())
    }

    fn kill(&mut self) -> Result<(), Trouble> {
        match self.process.take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }
}

/// Everything that takes part.
struct Stage<'a> {
    hosts: &'a Hosts,
    north: Site,
    south: Site,
    routers: [Router; 2],
    ledger: Ledger,
    bar: ProgressBar,
    /// Somebody has asked it to end.
    stop: Arc<AtomicBool>,
}

/// What was published at the northern site and wanted nowhere else.
#[derive(Serialize)]
pub struct Stayed {
    pub messages: u64,
    pub bytes: u64,
    /// What left the site of all that it published, with everything around it.
    pub link_bytes: Option<u64>,
}

/// Plays all of it. Returns what came, and what stayed.
pub fn perform(
    folder: &Folder,
    hosts: &Hosts,
    arguments: &SitesDemoArguments,
) -> Result<(Ledger, Stayed), Trouble> {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    bar.set_style(style.map_err(|error| Trouble(error.to_string()))?);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let recording = arguments.data.clone().map_or_else(|| make_recording(folder), Ok)?;
    let columns = load::columns(&recording)?;
    let (_service, coordination) = coordination(folder, hosts, arguments, &bar)?;
    let mut routers = routers(folder, hosts, &coordination)?;
    say(&bar, "starting the routers r1 and r2, and the sites north, south and east: a pair of brokers each");
    routers.iter_mut().try_for_each(|router| router.start(hosts))?;
    let listed = if coordination.is_empty() { list(&routers) } else { coordination };
    let site = |place: Place| Site::start(folder, hosts, place, &joined(folder, place.name(), &listed));
    let (north, south, east) = (site(Place::North)?, site(Place::South)?, site(Place::East)?);
    let ledger = Ledger::default();
    let _historians = [historian(hosts, &south, 0, &ledger)?, historian(hosts, &east, 1, &ledger)?];
    say(
        &bar,
        &format!(
            "publishing {} columns of {} at north as topics, {} in all, and subscribing them at the others",
            columns.len().min(arguments.topics as usize),
            recording.file_name().unwrap_or_default().display(),
            arguments.topics
        ),
    );
    let (plant, _screen) = hosts.at(Place::North, || {
        let connect = || Client::builder().patience(PATIENCE).connect(&north.near);
        let screen = connect()?;
        screen.subscribe_with("local/+", |_| ())?;
        Ok((connect()?, screen))
    })?;
    let load = Load::start(plant, arguments.topics, columns, ledger.clone())?;
    let mut stage = Stage { hosts, north, south, routers, ledger, bar, stop };
    stage.wait_for_the_way(arguments.topics)?;
    stage.play(arguments)?;
    let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (messages, bytes) = (counted(&load.local.messages), counted(&load.local.bytes));
    let plant = load.stop()?;
    stage.ledger.end();
    stage.settle()?;
    drop(plant);
    stage.bar.finish_and_clear();
    Ok((stage.ledger.clone(), Stayed { messages, bytes, link_bytes: hosts.sent(Place::North) }))
}

/// A server of ZooKeeper where one is wanted, and the lines by which sites and routers find it.
fn coordination(
    folder: &Folder,
    hosts: &Hosts,
    arguments: &SitesDemoArguments,
    bar: &ProgressBar,
) -> Result<(Option<Service>, String), Trouble> {
    let Some(jars) = &arguments.zookeeper else {
        say(bar, "without ZooKeeper: sites have a list of the routers");
        return Ok((None, String::new()));
    };
    say(bar, "starting ZooKeeper");
    let address = hosts.address(Place::Service);
    let port = if hosts.is_apart() { SERVICE_PORT } else { free_ports::<1>()?[0] };
    let service = hosts.at(Place::Service, || Service::start(folder, jars, &address, port))?;
    Ok((Some(service), format!("[coordination]\nservers = [\"{address}:{port}\"]\n")))
}

fn routers(folder: &Folder, hosts: &Hosts, coordination: &str) -> Result<[Router; 2], Trouble> {
    let router = |place: Place| {
        let named = if coordination.is_empty() {
            String::new()
        } else {
            format!("{coordination}[router]\nname = \"{}\"\n", place.name())
        };
        Router::new(folder, hosts, place, &named)
    };
    Ok([router(Place::R1)?, router(Place::R2)?])
}

/// The lines by which sites know the routers where no service names them.
fn list(routers: &[Router; 2]) -> String {
    let line =
        |router: &Router| format!("[routers.{}]\naddress = \"{}\"\n", router.place.name(), router.address);
    routers.iter().map(line).collect()
}

/// What makes a pair a site.
fn joined(folder: &Folder, name: &str, routers: &str) -> String {
    let journal = folder.file(&format!("journal-{name}"));
    format!(
        "{routers}[site]\nname = \"{name}\"\njournal = \"{}\"\n[uplink]\nretain = {UPLINK_RETAIN}\n\
         [[topic]]\nfilter = \"plant/#\"\nperiod = \"{PERIOD}\"\ndeadline = \"{DEADLINE}\"\nretain = {RETAIN}\nkeep = \"1h\"\n",
        journal.display()
    )
}

/// Who writes down what comes to a site.
fn historian(hosts: &Hosts, site: &Site, receiver: usize, ledger: &Ledger) -> Result<Client, Trouble> {
    hosts.at(site.place, || {
        let client = Client::builder().patience(PATIENCE).connect(&site.near)?;
        for (way, filter) in [(Way::Live, "plant/#"), (Way::Backlog, "$backlog/plant/#")] {
            let book = ledger.clone();
            client.subscribe_with(filter, move |delivery| {
                book.came(receiver, way, delivery.topic, delivery.payload);
            })?;
        }
        Ok(client)
    })
}

impl Stage<'_> {
    /// What is published before the way is open has nobody to go to.
    fn wait_for_the_way(&self, topics: u32) -> Result<(), Trouble> {
        let until = Instant::now() + PATIENCE;
        while self.ledger.topics_that_came() < topics as usize {
            if Instant::now() > until {
                return Err(Trouble("not every topic has crossed between the sites".to_owned()));
            }
            self.watch_for(Duration::from_millis(50))?;
        }
        // And the journals' places are known.
        self.watch_for(Duration::from_secs(4))
    }

    fn play(&mut self, arguments: &SitesDemoArguments) -> Result<(), Trouble> {
        self.ledger.begin("nothing", &[]);
        self.watch_for(CALM)?;
        self.kill_a_primary(Place::North)?;
        self.kill_a_primary(Place::South)?;
        self.ledger.begin("the router r1 was killed", &[]);
        say(&self.bar, "killed the router r1 with SIGKILL: its topics go by r2");
        self.routers[0].kill()?;
        self.watch_for(REPLACED)?;
        self.routers[0].start(self.hosts)?;
        self.watch_for(CALM)?;
        if self.hosts.is_apart() {
            self.cut_a_link(arguments.cut)?;
            self.move_a_site()?;
        } else {
            self.stop_the_routers(arguments.cut)?;
        }
        self.ledger.begin("all is well again", &[]);
        self.watch_for(CALM)?;
        Ok(())
    }

    fn kill_a_primary(&mut self, place: Place) -> Result<(), Trouble> {
        let name = place.name();
        let (index, epoch) = self.site(place).kill_primary()?;
        self.ledger.begin(&format!("{name}'s primary was killed"), &[]);
        say(&self.bar, &format!("killed the primary of {name} with SIGKILL"));
        self.watch_for(CALM)?;
        self.restart(place, index, epoch)?;
        self.watch_for(CALM)?;
        Ok(())
    }

    /// The southern link is cut, and the northern primary dies meanwhile.
    fn cut_a_link(&mut self, seconds: u32) -> Result<(), Trouble> {
        let cut = Duration::from_secs(seconds.into());
        self.ledger.begin(&format!("south's link was cut for {seconds} s"), &["south"]);
        say(&self.bar, "cut the link of south");
        self.hosts.cut(Place::South, true);
        self.watch_for(cut / 2)?;
        let (index, epoch) = self.north.kill_primary()?;
        self.ledger.begin("north's primary was killed meanwhile", &["south"]);
        say(&self.bar, "and killed the primary of north meanwhile");
        self.watch_for(cut / 2)?;
        self.hosts.cut(Place::South, false);
        self.ledger.begin("the link is back", &["south"]);
        say(&self.bar, "the link is back: what was missed comes from north's journal");
        self.restart(Place::North, index, epoch)?;
        self.watch_for(CAUGHT_UP)?;
        Ok(())
    }

    fn move_a_site(&self) -> Result<(), Trouble> {
        let (old, new) = self.hosts.move_on(Place::South)?;
        self.ledger.begin(&format!("south moved to {new}"), &[]);
        say(&self.bar, &format!("south has the address {new} now, and {old} no longer"));
        self.watch_for(MOVED)?;
        Ok(())
    }

    /// Without a link that can be cut: both routers are gone for a while, and the northern primary dies meanwhile.
    fn stop_the_routers(&mut self, seconds: u32) -> Result<(), Trouble> {
        let cut = Duration::from_secs(seconds.into());
        self.ledger.begin(&format!("both routers were gone for {seconds} s"), &RECEIVERS);
        say(&self.bar, "killed both routers: the sites are cut off from each other");
        self.routers.iter_mut().try_for_each(Router::kill)?;
        self.watch_for(cut / 2)?;
        let (index, epoch) = self.north.kill_primary()?;
        self.ledger.begin("north's primary was killed meanwhile", &RECEIVERS);
        say(&self.bar, "and killed the primary of north meanwhile");
        self.watch_for(cut / 2)?;
        self.ledger.begin("the routers are back", &RECEIVERS);
        say(&self.bar, "the routers are back: what was missed comes from north's journal");
        let hosts = self.hosts;
        self.routers.iter_mut().try_for_each(|router| router.start(hosts))?;
        self.restart(Place::North, index, epoch)?;
        self.watch_for(CAUGHT_UP)?;
        Ok(())
    }

    fn restart(&mut self, place: Place, index: usize, above: u64) -> Result<(), Trouble> {
        let hosts = self.hosts;
        let site = self.site(place);
        site.restart(hosts, index)?;
        wait_for_protection(&site.watcher, above)?;
        Ok(())
    }

    fn site(&mut self, place: Place) -> &mut Site {
        if place == Place::South { &mut self.south } else { &mut self.north }
    }

    /// Shows how it goes for a while.
    fn watch_for(&self, span: Duration) -> Result<(), Trouble> {
        let until = Instant::now() + span;
        while Instant::now() < until {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Trouble(ASKED_TO_END.to_owned()));
            }
            let (published, live, backlog) = self.ledger.counts();
            self.bar.set_message(format!(
                "{published} published; to both sites together {live} came live, {backlog} as backlog"
            ));
            self.bar.tick();
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Waits for what is still on its way.
    fn settle(&self) -> Result<(), Trouble> {
        let until = Instant::now() + SETTLE;
        say(&self.bar, "nothing is published any more: waiting for what is still on its way");
        while !self.ledger.is_complete() && Instant::now() < until {
            self.watch_for(Duration::from_millis(200))?;
        }
        Ok(())
    }
}
