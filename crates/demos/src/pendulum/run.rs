//! One run of the demo: everything is started, faults come and go by the script, everything is ended.

use super::actuator::Rule;
use super::cluster::Cluster;
use super::picture;
use super::replica::{self, Record, Shared, World};
use super::report::{Report, Seen};
use super::script::{Part, Phase, phases, pushes};
use super::stand::Stand;
use super::{FAULTS, LIAR, REPLICAS};
use crate::crash::Folder;
use crate::pendulum::KvDemoArguments;
use console::Trouble;
use contract::{Span, Time};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// How long nodes and replicas may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// The pole is let go when the replicas have held it for so many periods.
const HELD: u64 = 20;

pub fn perform(folder: &Folder, arguments: &KvDemoArguments) -> Result<Report, Trouble> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    eprintln!("starting the nodes a, b, c and d, and a replica of the controller on each");
    let cluster = Cluster::start(folder, arguments.period)?;
    let mut stage = Stage::set(cluster, arguments, stop)?;
    let phases = phases(arguments.seconds);
    phases.iter().try_for_each(|phase| stage.play(phase))?;
    let statuses: Vec<Value> = (0..LIAR).filter_map(|place| stage.cluster.status(place)).collect();
    let Stage { cluster, crew, shared, begun, .. } = stage;
    let records = crew.end();
    cluster.end()?;
    let world = &mut *shared.world();
    let over = begun + phases.last().map_or(Span::ZERO, |phase| phase.until);
    world.stands().for_each(|stand| stand.advance(over));
    let out = &arguments.out;
    let unwritten = |error| Trouble(format!("cannot write {}: {error}", out.display()));
    let drawn = picture::draw(&world.with.angles, &world.without.angles, &phases)
        .map_err(|error| Trouble(error.to_string()))?;
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder).map_err(unwritten)?;
    }
    std::fs::write(out, drawn).map_err(unwritten)?;
    let seen = Seen {
        angles: [&world.with.angles, &world.without.angles],
        records: &records,
        statuses: &statuses,
        phases: &phases,
        begun,
    };
    Ok(Report::of(&seen, arguments))
}

/// Everything that takes part.
struct Stage<'a> {
    // Replicas end before their nodes.
    crew: Crew,
    cluster: Cluster<'a>,
    shared: Shared,
    /// When the poles were let go.
    begun: Time,
    /// Lines that have been said, one each second.
    said: i64,
}

impl<'a> Stage<'a> {
    /// Returns when both poles are balanced.
    fn set(
        cluster: Cluster<'a>,
        arguments: &KvDemoArguments,
        stop: Arc<AtomicBool>,
    ) -> Result<Stage<'a>, Trouble> {
        let period = arguments.period;
        let stand = |rule| Stand::new(rule, period, pushes(arguments.seconds), arguments.seed);
        let world =
            World { with: stand(Rule::Same(FAULTS + 1)), without: stand(Rule::Apart(arguments.without)) };
        let lies = Arc::new(AtomicBool::new(false));
        let shared = Shared { world: Arc::new(Mutex::new(world)), lies, stop };
        wait(&shared, "the nodes did not begin", || (0..REPLICAS).all(|place| counts(&cluster, place)))?;
        let start =
            |place| replica::start(place, place == LIAR, cluster.socket(place), period, shared.clone());
        let crew = Crew { stop: shared.stop.clone(), threads: (0..REPLICAS).map(start).collect() };
        wait(&shared, "the replicas did not agree", || shared.world().with.actuator.releases >= HELD)?;
        let begun = verge_kv::now();
        let world = &mut *shared.world();
        world.stands().for_each(|stand| stand.let_go(begun));
        eprintln!("{:>4}  {:<18} {:>12} {:>12}   node a says", "s", "", "with store", "without");
        Ok(Stage { crew, cluster, shared: shared.clone(), begun, said: 0 })
    }

    fn play(&mut self, phase: &Phase) -> Result<(), Trouble> {
        match phase.part {
            Part::Calm => {}
            Part::Lying => self.lie(true),
            Part::Honest => self.lie(false),
            Part::Dead => self.cluster.kill(LIAR)?,
            Part::Back => self.cluster.begin(LIAR)?,
        }
        loop {
            stopped(&self.shared)?;
            let since = verge_kv::now().since(self.begun);
            if since >= Span::secs(self.said + 1) {
                self.said += 1;
                self.say(phase.part);
            }
            if since >= phase.until {
                return Ok(());
            }
            sleep(LOOK);
        }
    }

    fn lie(&self, lies: bool) {
        self.shared.lies.store(lies, Ordering::Relaxed);
        self.cluster.lie(lies);
    }

    fn say(&self, part: Part) {
        let [with, without] = {
            let world = &mut *self.shared.world();
            let now = verge_kv::now();
            [&mut world.with, &mut world.without].map(|stand| {
                stand.advance(now);
                if stand.has_fallen() {
                    "fallen".to_owned()
                } else {
                    format!("{:.1}°", stand.angle().to_degrees())
                }
            })
        };
        let status = self.cluster.status(0).unwrap_or_default();
        let last = &status["lanes"][0]["last"];
        let says: Vec<String> = ["silent", "liars", "differ"]
            .into_iter()
            .filter_map(|what| {
                let names =
                    last[what].as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
                let verb = if what == "liars" { "lying" } else { what };
                (!names.is_empty()).then(|| format!("{verb}: {names}"))
            })
            .collect();
        let says = if says.is_empty() { "all agree".to_owned() } else { says.join("; ") };
        eprintln!("{:>4}  {:<18} {with:>12} {without:>12}   {says}", self.said, part.name());
    }
}

/// The threads of the replicas, which end with it.
struct Crew {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Record>>>,
}

impl Crew {
    /// What each of them has read and written.
    fn end(mut self) -> Vec<Vec<Record>> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn counts(cluster: &Cluster<'_>, place: usize) -> bool {
    let status = cluster.status(place).unwrap_or_default();
    status["lanes"][0]["jobs"]["counted"].as_u64().is_some_and(|jobs| jobs > 0)
}

fn wait(shared: &Shared, failed: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Trouble> {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        stopped(shared)?;
        if Instant::now() >= until {
            return Err(Trouble(format!("{failed} within {} s", PATIENCE.as_secs())));
        }
        sleep(LOOK);
    }
    Ok(())
}

fn stopped(shared: &Shared) -> Result<(), Trouble> {
    let stopped = shared.stop.load(Ordering::Relaxed);
    if stopped { Err(Trouble("the demo was asked to end".to_owned())) } else { Ok(()) }
}
