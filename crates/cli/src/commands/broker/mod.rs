//! `verge broker`: one broker of the pair, until it is asked to end.

mod processing;
mod security;

use crate::config::{AdmissionConfig, BrokerAddress, Config, Problems};
use crate::output::{Outcome, Trouble, yes};
use contract::admission::Costs;
use contract::{NodeId, Span, Supply};
use crossbeam_channel::{Sender, bounded};
use engine::{BrokerNode, Reporter};
use host::realtime::{Wishes, ask, raise_descriptor_limit};
use host::{Door, Serving, Troubles, calibrate, now, random_number, serve};
use security::{Certificates, check_exposure};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The priority where the configuration says `auto`: above ordinary work, below the kernel's own threads.
const USUAL_PRIORITY: u8 = 50;
/// Lines that may wait to be printed; above it they are counted and left out.
const LINES_MAX: usize = 4096;
/// Descriptors that are no connections.
const DESCRIPTORS_KEPT: u64 = 32;
/// What costs are assumed where measuring fails.
const ASSUMED: Span = Span::micros(5);

/// Runs the broker of this name. `reload` reads the configuration again.
pub fn run(
    config: &Config,
    name: Option<&str>,
    insecure: bool,
    reload: impl Fn() -> Result<Config, Problems> + Send + 'static,
) -> Outcome {
    let (own, partner) = find(config, name)?;
    check_exposure(config, own, insecure)?;
    let (lines, printer) = print_in_background(&own.name)?;
    // Measured, and other threads started, before this one gets ahead of everybody else.
    let (costs, blocking) = costs(&config.admission);
    let (operators, bell) = processing::start(config, &lines)?;
    let certificates = Certificates::load(config, own, partner, &lines)?;
    let told = lines.clone();
    let troubles = Arc::new(Troubles::new(move |line| told.say(&format!("note: {line}"))));
    let lobby = certificates.lobby(config, own, &troubles)?;
    let (mut reloads, waker) = processing::reload_in_background(reload, certificates, lines.clone())?;
    for sentence in ask(&wishes(config)) {
        lines.say(&format!("note: {sentence}"));
    }
    if let Some(descriptors) =
        raise_descriptor_limit().filter(|n| *n < config.limits.links as u64 + DESCRIPTORS_KEPT)
    {
        lines.say(&format!(
            "note: the host allows {descriptors} descriptors, too few for limits.connections = {}: raise LimitNOFILE",
            config.limits.links
        ));
    }
    lines.say(&format!(
        "a message costs {} to take in, {} per subscriber, {} to copy",
        costs.arrival, costs.dispatch, costs.replication
    ));
    let settings = settings(config, own, partner.is_some(), costs, blocking);
    let doors = own.doors();
    let serving = Serving {
        doors: doors.iter().map(|(_, door)| *door).collect(),
        limits: config.door_limits,
        troubles,
        partner: security::partner(partner)?,
        lobby,
        wakers: vec![bell, waker],
    };
    let mut node = BrokerNode::with_operators(settings, lines.clone(), operators);
    let graphs = config.processing.graphs.clone();
    if !graphs.is_empty()
        && let Err(errors) = node.operators().change(graphs)
    {
        return Err(Trouble(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")));
    }
    let listening = |opened: &[Door]| {
        let named = doors.iter().zip(opened).map(|((key, _), door)| (*key, door));
        lines.say(&format!("{}; process {}", listed(named), std::process::id()));
        if insecure {
            lines.say("note: --insecure: whoever reaches these listeners may publish and subscribe");
        }
    };
    let result = serve(node, serving, listening, |node, net| reloads.apply(node, net, &lines));
    if result.is_ok() {
        lines.say("ended");
    }
    lines.end();
    let _ = printer.join();
    result?;
    Ok(yes(true))
}

/// Doors for the operator, by their keys.
fn listed<'a>(doors: impl Iterator<Item = (&'static str, &'a Door)>) -> String {
    let one = |(key, door): (&str, &Door)| match key {
        "pair" => format!("partner at {}", door.address),
        key => format!("{} at {}", key.replace('_', " "), door.address),
    };
    doors.map(one).collect::<Vec<_>>().join(", ")
}

/// The broker to run, and its partner.
fn find<'a>(
    config: &'a Config,
    name: Option<&str>,
) -> Result<(&'a BrokerAddress, Option<&'a BrokerAddress>), Trouble> {
    let names = config.brokers.iter().map(|broker| broker.name.as_str()).collect::<Vec<_>>().join(", ");
    let own = match (name, config.brokers.as_slice()) {
        (Some(name), brokers) => brokers
            .iter()
            .find(|broker| broker.name == name)
            .ok_or_else(|| Trouble(format!("no broker `{name}` is configured: there are {names}")))?,
        (None, [only]) => only,
        (None, _) => {
            return Err(Trouble(format!("which broker? Say `verge broker NAME` with one of {names}")));
        }
    };
    Ok((own, config.brokers.iter().find(|broker| broker.name != own.name)))
}

fn wishes(config: &Config) -> Wishes {
    let priority = config.realtime.priority.unwrap_or(USUAL_PRIORITY);
    Wishes {
        priority: (priority > 0).then_some(priority),
        processors: config.realtime.processors.clone(),
        lock_memory: config.realtime.lock_memory.unwrap_or(true),
    }
}

/// The configured costs, and measured ones for those that are left to the host.
pub fn costs(admission: &AdmissionConfig) -> (Costs, Span) {
    let complete = (admission.arrival, admission.dispatch, admission.replication, admission.blocking);
    if let (Some(arrival), Some(dispatch), Some(replication), Some(blocking)) = complete {
        return (Costs { arrival, dispatch, replication }, blocking);
    }
    let measured = calibrate();
    let assumed = Costs { arrival: ASSUMED, dispatch: ASSUMED, replication: ASSUMED };
    let costs = measured.map_or(assumed, |measured| measured.costs);
    let blocking = measured.map_or(Span::millis(5), |measured| measured.blocking);
    let costs = Costs {
        arrival: admission.arrival.unwrap_or(costs.arrival),
        dispatch: admission.dispatch.unwrap_or(costs.dispatch),
        replication: admission.replication.unwrap_or(costs.replication),
    };
    (costs, admission.blocking.unwrap_or(blocking))
}

/// The share as admission counts it.
pub fn supply(admission: &AdmissionConfig, blocking: Span) -> Supply {
    Supply { share_ppm: (admission.share * 1e6) as u32, blocking }
}

fn settings(
    config: &Config,
    own: &BrokerAddress,
    has_peer: bool,
    costs: Costs,
    blocking: Span,
) -> broker::Settings {
    broker::Settings {
        name: own.name.clone(),
        node: NodeId(random_number()),
        started: now(),
        prefers_to_reign: own.starts_as_primary || !has_peer,
        has_peer,
        policy: config.policy,
        replication: config.replication,
        delays: config.delays,
        links: config.links.clone(),
        costs,
        supply: supply(&config.admission, blocking),
        schedulability: config.admission.schedulability,
        topics: config.topics.iter().map(|family| family.rule.clone()).collect(),
        detection: config.detection,
        limits: config.limits,
    }
}

/// Lines for the operator. They are written by another thread, since a terminal that is stopped must not stop the data.
#[derive(Clone)]
pub struct Lines(Sender<Option<String>>);

impl Lines {
    fn say(&self, line: &str) {
        // When the queue is full, the operator is not reading anyway.
        let _ = self.0.try_send(Some(line.to_owned()));
    }

    /// Nothing more will be said.
    fn end(&self) {
        let _ = self.0.send(None);
    }
}

impl Reporter for Lines {
    fn report(&mut self, event: &broker::Event<'_>) {
        self.say(&event.to_string());
    }
}

fn print_in_background(name: &str) -> Result<(Lines, JoinHandle<()>), Trouble> {
    let (sender, receiver) = bounded::<Option<String>>(LINES_MAX);
    let name = name.to_owned();
    let printer = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        for line in receiver.into_iter().map_while(|line| line) {
            let time = jiff::Timestamp::from_nanosecond(i128::from(now().0)).unwrap_or_default();
            eprintln!("{time:.3} {name}: {line}");
        }
    })?;
    Ok((Lines(sender), printer))
}
