//! `verge broker`: one broker of the pair, until it is asked to end.

mod around;
mod gateway;
mod log;
mod logins;
mod observe;
pub mod processing;
mod reload;
mod security;

use crate::config::{AdmissionConfig, BrokerAddress, Config, Problems, RealtimeConfig};
use crate::doctor;
use crate::output::{Outcome, Trouble, yes};
use around::Around;
use contract::admission::Costs;
use contract::{NodeId, Span, Supply};
use engine::BrokerNode;
use host::realtime::{Wishes, ask};
use host::{
    Awake, Door, Notifier, Serving, Troubles, calibrate, now, prepare_descriptors, random_number, serve,
};
use reload::{LogTaker, Taker};
use security::{Certificates, check_exposure, load_tls};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use web::Answers;
use wire::Protocol;

/// The priority where the configuration says `auto`: above ordinary work, below the kernel's own threads.
const USUAL_PRIORITY: u8 = 50;
/// Descriptors that are no connections.
const DESCRIPTORS_KEPT: u64 = 32;
/// What costs are assumed where measuring fails.
const ASSUMED: Span = Span::micros(5);

/// Runs the broker of this name. `reload` reads the configuration again.
#[expect(
    clippy::too_many_lines,
    reason = "the parts of one broker, in the order in which they must be there"
)]
pub fn run(
    config: &Config,
    name: Option<&str>,
    insecure: bool,
    reload: impl Fn() -> Result<Config, Problems> + Send + 'static,
) -> Outcome {
    let (own, partner) = find(config, name)?;
    check_exposure(config, own, insecure)?;
    crate::allocator::use_huge_pages();
    let wanted = config.limits.links as u64 + DESCRIPTORS_KEPT;
    let descriptors = prepare_descriptors(wanted);
    let (lines, printer) = log::write_in_background(&own.name, config.log)?;
    // The variable may have been inherited from somebody else's manager, so that this is no reason not to run.
    let notifier = Notifier::from_environment().unwrap_or_else(|error| {
        lines
            .warn(&format!("note: the service manager at NOTIFY_SOCKET cannot be told of anything: {error}"));
        Notifier::default()
    });
    let mut security = logins::start(config, partner.is_some(), &lines)?;
    // Measured, and other threads started, before this one gets ahead of everybody else.
    let (costs, blocking) = costs(&config.admission);
    let (operators, bell, load) = processing::start(config, &lines)?;
    let (mut graphs_in, graph_taker, waker) = processing::changes()?;
    let certificates = Certificates::load(config, own, partner, &lines)?;
    let told = lines.clone();
    let troubles = Arc::new(Troubles::new(move |line| told.say(&format!("note: {line}"))));
    let lobby = certificates.lobby(config, own, &troubles)?;
    let mut takers: Vec<Box<dyn Taker>> =
        vec![Box::new(graph_taker), Box::new(LogTaker(lines.clone())), Box::new(certificates)];
    takers.extend(security.taker.take().map(|taker| Box::new(taker) as Box<dyn Taker>));
    reload::reload_in_background(config, reload, takers, lines.clone(), notifier.clone())?;
    let watched = observe::start(config, own, &notifier)?;
    let (mut answers, http) = watched.map_or((None, None), |(answers, http)| (Some(answers), http));
    let _awake = keep_awake(&config.realtime, &lines);
    for sentence in ask(&wishes(config)) {
        lines.say(&format!("note: {sentence}"));
    }
    if let Some(descriptors) = descriptors.filter(|allowed| *allowed < wanted) {
        lines.say(&format!(
            "note: the host allows {descriptors} descriptors, too few for limits.connections = {}: raise LimitNOFILE",
            config.limits.links
        ));
    }
    lines.say(&format!(
        "a message costs {} to take in, {} per subscriber, {} to copy",
        costs.arrival, costs.dispatch, costs.replication
    ));
    let gather = processing::longest_rest(config);
    let settings = settings(config, own, partner.is_some(), costs, blocking + gather);
    let doors = own.doors().map_err(Trouble)?;
    let serving = Serving {
        doors: doors.iter().map(|(_, door)| *door).collect(),
        limits: config.door_limits,
        troubles: Arc::clone(&troubles),
        partner: security::partner(partner, &lines)?,
        lobby,
        wakers: wakers(security.wakers, bell, waker, answers.as_ref())?,
        shares: processing::shares_processors(config).then_some((load, gather)),
        spin: spin(&config.realtime, &lines),
    };
    let (around, kept) = Around::new(config, &own.name, lines.clone(), security.desk)?;
    let mut node = BrokerNode::with_operators(settings, around, operators);
    let graphs = config.processing.graphs.clone();
    if !graphs.is_empty()
        && let Err(errors) = node.operators().change(graphs)
    {
        return Err(Trouble(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")));
    }
    let mut node = if doors.iter().any(|(_, door)| door.protocol == Protocol::Mqtt) {
        node.with_gateway(gateway::new(config, partner, security.rules, &kept))
    } else {
        node.without_gateway()
    };
    if let Some(guarding) = security.guarding {
        node = node.with_gate(guarding);
    }
    let listening = |opened: &[Door]| {
        let named = doors.iter().zip(opened).map(|((key, _), door)| (*key, door));
        lines.say(&format!("{}; process {}", listed(named), std::process::id()));
        http.iter().for_each(|http| lines.say(&format!("metrics at http://{http}/metrics")));
        if http.is_some_and(|http| !http.ip().is_loopback()) {
            lines.warn("note: metrics are shown beyond this host, to whoever asks");
        }
        if insecure {
            lines.warn("note: --insecure: whoever reaches these listeners may publish and subscribe");
        }
        notifier.ready();
    };
    let result = serve(node, serving, listening, |node, net| {
        graphs_in.apply(node, net, &lines);
        security.changes.apply(node, net, &lines);
        if let Some(answers) = &mut answers {
            answers.answer(|snapshot| {
                node.fill(now(), snapshot);
                snapshot.store_poisoned = node.reporter().store_is_poisoned();
                snapshot.troubles.clear();
                let counts = troubles.counts().map(|(cause, count)| (cause.name(), count));
                snapshot.troubles.extend(counts);
            });
        }
    });
    if result.is_ok() {
        lines.say("ended");
    }
    lines.end();
    let _ = printer.join();
    result?;
    Ok(yes(true))
}

/// For which reasons `verge broker` would refuse to run a broker of this configuration here, by the broker's name.
pub fn obstacles(config: &Config) -> Vec<(&str, Trouble)> {
    let one = |own: &BrokerAddress| {
        let exposed = check_exposure(config, own, false);
        let (_, partner) = find(config, Some(&own.name))?;
        exposed.and_then(|()| load_tls(config, own, partner).map(drop))
    };
    config.brokers.iter().filter_map(|own| one(own).err().map(|why| (own.name.as_str(), why))).collect()
}

/// What wakes the data thread besides sockets.
fn wakers(
    others: Vec<OwnedFd>,
    bell: OwnedFd,
    changes: OwnedFd,
    answers: Option<&Answers>,
) -> Result<Vec<OwnedFd>, Trouble> {
    let questions = answers.map(Answers::waker).transpose()?;
    Ok([bell, changes].into_iter().chain(others).chain(questions).collect())
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

/// Keeps processors from halting, if that is wanted and does no harm.
fn keep_awake(config: &RealtimeConfig, lines: &log::Lines) -> Option<Awake> {
    if !config.awake {
        return None;
    }
    if let Some(awake) = Awake::by_kernel(&config.processors) {
        lines.say("processors are kept awake: the kernel polls instead of halting them");
        return Some(awake);
    }
    if is_rationed("processors are not kept awake", "realtime.awake = false", lines) {
        return None;
    }
    let refused = |reason| {
        lines.warn(&format!(
            "note: processors are not kept awake ({reason}): one that halts may delay messages. Check realtime.processors"
        ));
    };
    let awake = Awake::by_threads(&config.processors).map_err(refused).ok()?;
    lines.say("processors are kept awake by threads of the lowest priority");
    Some(awake)
}

/// For how long the data thread looks for messages before it sleeps unless it is told: about what sleeping and waking take on a guest.
const USUAL_SPIN: Span = Span::micros(50);

/// How long the data thread looks for messages before it sleeps, if that does no harm.
fn spin(config: &RealtimeConfig, lines: &log::Lines) -> Span {
    let rationed = match config.spin {
        None => doctor::granted_processors().is_some(),
        Some(spin) => {
            spin > Span::ZERO
                && is_rationed("the data thread sleeps at once", "realtime.spin = \"0s\"", lines)
        }
    };
    if rationed { Span::ZERO } else { config.spin.unwrap_or(USUAL_SPIN) }
}

/// Whether spinning would use up processor time of which only a part is granted; says so.
fn is_rationed(consequence: &str, otherwise: &str, lines: &log::Lines) -> bool {
    let Some(granted) = doctor::granted_processors() else { return false };
    lines.warn(&format!(
        "note: {consequence}, since spinning would use up the {granted:.2} processors that the control group grants: lift its \
         CPU quota, or set {otherwise}"
    ));
    true
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
