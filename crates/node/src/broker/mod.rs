//! One broker of the pair, until it is asked to end.

mod approach;
mod around;
mod beside;
pub(crate) mod coordination;
mod gateway;
mod keeper;
mod logins;
pub(crate) mod observe;
mod picture;
mod places;
mod processing;
mod reload;
mod routing;
mod security;
mod snapshot;
mod topics;
mod uplink;

use crate::Trouble;
use crate::signals::Heard;
use crate::{facts, log};
use around::Around;
use beside::Voice;
use broker::Snapshot;
use config::{BrokerAddress, Config, Problems, RealtimeConfig};
use contract::{NodeId, Span};
use engine::{BrokerNode, Operators};
use host::realtime::{Wishes, ask};
use host::{
    Awake, Door, Heart, HeartSettings, Helpers, Notifier, Serving, Shares, Troubles, Whereabouts, now,
    random_number, serve,
};
use mqtt::Rules;
use planner::{Identity, USUAL_PRIORITY, memory, settings, staffing};
use reload::{LogTaker, Taker};
use security::{Certificates, check_exposure, load_tls};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use web::Answers;
use wire::Protocol;

/// The highest real-time priority.
const HIGHEST_PRIORITY: u8 = 99;
/// Runs the broker of this name. `reload` reads the configuration again.
#[expect(
    clippy::too_many_lines,
    reason = "the parts of one broker, in the order in which they must be there"
)]
pub fn run(
    config: &Config,
    name: Option<&str>,
    insecure: bool,
    heard: Heard,
    reload: impl Fn() -> Result<Config, Problems> + Send + 'static,
) -> Result<(), Trouble> {
    let (own, partner) = find(config, name)?;
    check_exposure(config, own, insecure)?;
    let shares = memory::shares(config, host::allowance().as_ref());
    if shares.broker.memory_bytes >= memory::AMPLE {
        crate::allocator::use_huge_pages();
    }
    let allowed = places::prepare(config);
    let helpers = Helpers::new()?;
    let lines = log::write_in_background(&own.name, config.log, &helpers)?;
    // The variable may have been inherited from somebody else's manager, so that this is no reason not to run.
    let notifier = Notifier::from_environment().unwrap_or_else(|error| {
        lines
            .warn(&format!("note: the service manager at NOTIFY_SOCKET cannot be told of anything: {error}"));
        Notifier::default()
    });
    let wants = heard.tell(config.limits.drain, lines.clone(), notifier.clone(), &helpers)?;
    let mut security = logins::start(config, partner.is_some(), &lines, &helpers)?;
    // Measured, and other threads started, before this one gets ahead of everybody else.
    let here = facts(config, |text| lines.say(&format!("note: {text}")));
    let costs = here.costs;
    let (operators, bell, load) = processing::start(config, &here, &lines, &helpers)?;
    let (mut graphs_in, graph_taker, waker) = processing::changes(here.clone())?;
    let (mut contracts, topic_taker) = topics::questions(lines.clone(), graph_taker.wake());
    let certificates = Certificates::load(config, own, partner, &lines)?;
    let told = lines.clone();
    let troubles = Arc::new(Troubles::new(move |line| told.say(&format!("note: {line}"))));
    let handshakes = certificates.handshakes(config, own, &troubles, &helpers)?;
    let mut takers: Vec<Box<dyn Taker>> = vec![
        Box::new(graph_taker),
        Box::new(LogTaker(lines.clone())),
        Box::new(certificates),
        Box::new(topic_taker),
    ];
    takers.extend(security.taker.take().map(|taker| Box::new(taker) as Box<dyn Taker>));
    let (told, notified) = (lines.clone(), notifier.clone());
    reload::reload_in_background(config, reload, takers, wants.hangups, told, notified, &helpers)?;
    let (voice, beside) = Voice::new(&own.name, &lines);
    let joined = uplink::start(config, own, (&lines, &voice), &helpers)?;
    let kept = keeper::start(config, own, (&lines, &voice), &helpers)?;
    let joined = joined.map(|joined| (joined, kept));
    let (routing, routing_bell) = routing::start(config, &lines, &helpers)?.unzip();
    let watched = observe::start(config, own, &notifier, (places::http(allowed), joined), &helpers)?;
    let (mut answers, http) = watched.map_or((None, None), |(answers, http)| (Some(answers), http));
    let _awake = keep_awake(&config.realtime, &lines, &helpers);
    for sentence in ask(&wishes(config)) {
        lines.say(&format!("note: {sentence}"));
    }
    lines.say(&format!(
        "a message costs {} to take in, {} per subscriber, {} to copy; a read costs {}, a write {} (TCP), a turn {}",
        costs.arrival, costs.dispatch, costs.replication, costs.io.tcp.read, costs.io.tcp.write, costs.turn
    ));
    lines.say(&memory::describe(&shares.broker));
    shares.notes.iter().for_each(|note| lines.say(&format!("note: {note}")));
    let gather = here.longest_rest(config);
    let settings = settings(config, own, partner.is_some(), &here, identity());
    let doors = doors(config, own, &lines)?;
    let whereabouts = partner.map(|partner| security::whereabouts(partner, &lines, &helpers)).transpose()?;
    let serving = Serving {
        doors: doors.iter().map(|(_, door)| *door).collect(),
        limits: config.door_limits,
        troubles: Arc::clone(&troubles),
        heart: heart(config, &doors, whereabouts.as_ref(), &lines, &helpers),
        partner: security::partner(partner, whereabouts)?,
        handshakes,
        wakers: wakers(
            security.wakers.into_iter().chain(routing_bell),
            [bell, waker, wants.bell],
            answers.as_ref(),
        )?,
        asked_to_end: wants.ends,
        later: places::later(allowed, http.is_some()),
        shares: staffing(config, here.processors).processors.is_empty().then_some((load, gather)),
        busy_poll: busy_poll(&config.realtime, &lines),
        helpers,
    };
    let (around, kept) = Around::new(config, &own.name, lines.clone(), beside, security.desk)?;
    let may_be_old = around.may_be_old();
    let mut node = BrokerNode::with_operators(settings, around, operators);
    if may_be_old {
        node.doubt();
    }
    let graphs = config.processing.graphs.clone();
    if !graphs.is_empty()
        && let Err(errors) = node.operators().change(graphs)
    {
        return Err(Trouble(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")));
    }
    let mut node = if doors.iter().any(|(_, door)| door.protocol == Protocol::Mqtt) {
        node.with_gateway(gateway::new(partner, shares.mqtt, security.rules, &kept))
    } else {
        node.without_gateway()
    };
    if let Some(guarding) = security.guarding {
        node = node.with_gate(guarding);
    }
    let listening = |opened: &[Door], shares: &Shares| {
        let named = doors.iter().zip(opened).map(|((key, _), door)| (*key, door));
        lines.say(&format!("{}; process {}", listed(named), std::process::id()));
        http.iter().for_each(|http| lines.say(&format!("metrics at http://{http}/metrics")));
        if http.is_some_and(|http| !http.ip().is_loopback()) {
            lines.warn("note: metrics are shown beyond this host, to whoever asks");
        }
        if insecure {
            lines.warn("note: --insecure: whoever reaches these listeners may publish and subscribe");
        }
        places::say(shares, &lines);
        notifier.ready();
    };
    let mut shown = Snapshot::default();
    let result = serve(node, serving, listening, |node, net| {
        graphs_in.apply(node, net, &lines);
        contracts.answer(node, net);
        security.changes.apply(node, net, &lines);
        if wants.status.swap(false, Ordering::AcqRel) {
            fill(node, &troubles, &mut shown);
            snapshot::say(&shown, &lines);
        }
        if let Some(routing) = &routing {
            routing.answer(|| seen(node, net.sent()));
        }
        if let Some(answers) = &mut answers {
            answers.answer(|snapshot| fill(node, &troubles, snapshot));
        }
    });
    if result.is_ok() {
        lines.say("ended");
    }
    lines.end();
    result?;
    Ok(())
}

/// Where a broker listens. What nobody has asked for is left to a program that is there already.
fn doors(
    config: &Config,
    own: &BrokerAddress,
    lines: &log::Lines,
) -> Result<Vec<(&'static str, Door)>, Trouble> {
    let mut doors = own.doors().map_err(Trouble)?;
    doors.retain(|(key, door)| {
        let given = *key != "mqtt" || config.is_given(&format!("brokers.{}.{key}", own.name));
        let in_use = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
        let is_free = given || !std::net::TcpListener::bind(door.address).is_err_and(in_use);
        if !is_free {
            lines.say(&format!("note: no MQTT, since another program listens on {}", door.address));
        }
        is_free
    });
    Ok(doors)
}

/// What a router's place in coordination depends on.
fn seen<O: Operators, G: Rules>(node: &BrokerNode<Around, O, G>, sent: u64) -> routing::Seen {
    let broker = node.broker();
    let reign = broker.is_primary().then(|| broker.reign().epoch.0);
    routing::Seen { reign, sites: broker.sites().map(str::to_owned).collect(), sent }
}

/// A broker as it is now, with what its process knows of it.
fn fill<O: Operators, G: Rules>(
    node: &mut BrokerNode<Around, O, G>,
    troubles: &Troubles,
    snapshot: &mut Snapshot,
) {
    node.fill(now(), snapshot);
    snapshot.troubles.clear();
    snapshot.troubles.extend(troubles.counts().map(|(cause, count)| (cause.name(), count)));
}

/// For which reasons `verge broker` would refuse to run a broker of this configuration here, by the broker's name.
pub fn obstacles(config: &Config) -> Vec<(&str, Trouble)> {
    let one = |own: &BrokerAddress| {
        let exposed = check_exposure(config, own, false);
        let (_, partner) = find(config, Some(&own.name))?;
        let files = || logins::read_files(config, partner.is_some()).map(drop);
        exposed.and_then(|()| load_tls(config, own, partner).map(drop)).and_then(|()| files())
    };
    config.brokers.iter().filter_map(|own| one(own).err().map(|why| (own.name.as_str(), why))).collect()
}

/// What wakes the data thread besides sockets.
fn wakers(
    others: impl Iterator<Item = OwnedFd>,
    bells: [OwnedFd; 3],
    answers: Option<&Answers>,
) -> Result<Vec<OwnedFd>, Trouble> {
    let questions = answers.map(Answers::waker).transpose()?;
    Ok(bells.into_iter().chain(others).chain(questions).collect())
}

/// Doors for the admin, by their keys.
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
fn keep_awake(config: &RealtimeConfig, lines: &log::Lines, helpers: &Helpers) -> Option<Awake> {
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
    let awake = Awake::by_threads(&config.processors, helpers).map_err(refused).ok()?;
    lines.say("processors are kept awake by threads of the lowest priority");
    Some(awake)
}

/// For how long the data thread looks for messages before it sleeps unless it is told: about what sleeping and waking take on a guest.
const USUAL_BUSY_POLL: Span = Span::micros(50);

/// How long the data thread looks for messages before it sleeps, if that does no harm.
fn busy_poll(config: &RealtimeConfig, lines: &log::Lines) -> Span {
    let rationed = match config.busy_poll {
        None => doctor::granted_processors().is_some(),
        Some(most) => {
            most > Span::ZERO
                && is_rationed("the data thread sleeps at once", "realtime.spin = \"0s\"", lines)
        }
    };
    if rationed { Span::ZERO } else { config.busy_poll.unwrap_or(USUAL_BUSY_POLL) }
}

/// Whether busy polling would use up processor time of which only a part is granted; says so.
fn is_rationed(consequence: &str, otherwise: &str, lines: &log::Lines) -> bool {
    let Some(granted) = doctor::granted_processors() else { return false };
    lines.warn(&format!(
        "note: {consequence}, since busy polling would use up the {granted:.2} processors that the control group grants: lift its \
         CPU quota, or set {otherwise}"
    ));
    true
}

/// Who sends and hears heartbeats, where there is a partner. Where they cannot be, the broker runs without, and says what that means.
fn heart(
    config: &Config,
    doors: &[(&'static str, Door)],
    partner: Option<&Whereabouts>,
    lines: &log::Lines,
    helpers: &Helpers,
) -> Option<Heart> {
    let partner = partner?.clone();
    let own = doors.iter().find(|(key, _)| *key == "pair")?.1.address;
    let above = wishes(config).priority.map(|priority| priority.saturating_add(1).min(HIGHEST_PRIORITY));
    let settings = HeartSettings { own, partner, hearing: config.detection.hearing(), priority: above };
    match Heart::start(settings, helpers) {
        Ok((heart, refusals)) => {
            refusals.iter().for_each(|sentence| lines.say(&format!("note: {sentence}")));
            Some(heart)
        }
        Err(error) => {
            lines.warn(&format!(
                "note: {error}. Until then a partner that has much to do, or a lost packet, may be taken for its death"
            ));
            None
        }
    }
}

fn wishes(config: &Config) -> Wishes {
    let priority = config.realtime.priority.unwrap_or(USUAL_PRIORITY);
    Wishes {
        priority: (priority > 0).then_some(priority),
        processors: config.realtime.processors.clone(),
        lock_memory: config.realtime.lock_memory.unwrap_or(true),
    }
}

/// Drawn anew at each start.
fn identity() -> Identity {
    Identity { node: NodeId(random_number()), nonce: nonce(), started: now() }
}

/// What heartbeats are signed with, besides the pair's secret.
fn nonce() -> wire::Nonce {
    let mut nonce = [0; 16];
    if host::fill_random(&mut nonce).is_err() {
        nonce[..8].copy_from_slice(&random_number().to_ne_bytes());
    }
    nonce
}
