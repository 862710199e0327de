//! A scenario in TOML: what goes wrong in a simulation, and what is different from the configured deployment.
//!
//! Every mistake is found before any is reported, each with its place and a remedy, as in the configuration.

mod fault;
mod reader;

use super::hosts::Hosts;
use config::schema::Kind;
use config::value::{Raw, Value, understand_signed};
use config::{File, Problem, Problems, Subject, read_text};
use contract::Span;
use reader::{At, Reader};
use sim::{ClockError, Fault, Latency, PAYLOAD_BYTES_MIN, Pace, Scenario, Target, When};
use std::path::Path;
use toml::de::DeTable;

/// What a scenario file says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Script {
    /// How long messages flow.
    pub length: Option<Span>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    payload: Option<usize>,
    pace: Option<Pace>,
    publishers: Option<Latency>,
    subscribers: Option<Latency>,
    pair: Option<Latency>,
    clocks: Vec<(Target, ClockError)>,
}

/// The longest payload that is simulated.
const PAYLOAD_BYTES_MAX: i64 = 1 << 20;
/// How much slower than its period a sporadic topic is published on average, in percent.
const USUAL_JITTER: u32 = 20;

/// Reads a scenario. `asked` is the length that was given on the command line, if any.
pub fn read(path: &Path, hosts: &Hosts, asked: Option<Span>) -> Result<Script, Problems> {
    let text = read_text(path, Subject::Scenario)?;
    let (script, mut list) = understand(&text, hosts, asked);
    if list.is_empty() {
        return Ok(script);
    }
    list.sort_by_key(|problem| match &problem.source {
        config::Source::File(_, span) => span.start,
        _ => 0,
    });
    Err(Problems { subject: Subject::Scenario, files: vec![File { path: path.to_path_buf(), text }], list })
}

fn understand(text: &str, hosts: &Hosts, asked: Option<Span>) -> (Script, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader::new(hosts);
    reader.problems.extend(errors.iter().map(|error| Problem::not_toml(0, error)));
    let table = table.get_ref();
    reader.check_keys(table, "", &["duration", "workload", "network", "clock", "fault"]);
    let mut script = Script { length: reader.span(table, "duration"), ..Script::default() };
    if let Some(at) =
        script.length.filter(|length| *length == Span::ZERO).and(reader.place(table, "duration"))
    {
        reader.problem(
            at,
            "a run of no length shows nothing".to_owned(),
            "write for example \"10s\"".to_owned(),
        );
    }
    script.read_workload(&mut reader, table);
    script.read_network(&mut reader, table);
    script.read_clocks(&mut reader, table);
    let places = script.read_faults(&mut reader, table);
    script.check_times(&mut reader, &places, asked);
    (script, reader.problems)
}

impl Script {
    /// Changes the deployment as the scenario says.
    pub fn apply(&self, scenario: &mut Scenario) {
        for topic in scenario.publishers.iter_mut().flat_map(|publisher| &mut publisher.topics) {
            topic.payload_bytes = self.payload.unwrap_or(topic.payload_bytes);
            topic.pace = self.pace.unwrap_or(topic.pace);
        }
        for publisher in &mut scenario.publishers {
            publisher.latency = self.publishers.unwrap_or(publisher.latency);
        }
        for subscriber in &mut scenario.subscribers {
            subscriber.latency = self.subscribers.unwrap_or(subscriber.latency);
        }
        scenario.pair = self.pair.unwrap_or(scenario.pair);
        for (target, clock) in &self.clocks {
            let place = match target {
                Target::Broker(index) => scenario.clocks.get_mut(*index),
                Target::Publisher(index) => scenario.publishers.get_mut(*index).map(|spec| &mut spec.clock),
                Target::Subscriber(index) => scenario.subscribers.get_mut(*index).map(|spec| &mut spec.clock),
                Target::Device(index) => scenario.devices.get_mut(*index).map(|spec| &mut spec.clock),
                Target::Primary | Target::Backup => None,
            };
            place.into_iter().for_each(|place| *place = *clock);
        }
    }

    fn read_workload(&mut self, reader: &mut Reader<'_>, table: &DeTable<'_>) {
        let Some(table) = reader.section(table, "workload") else { return };
        reader.check_keys(table, "workload.", &["payload", "pace", "jitter"]);
        let bytes = reader.value(table, "payload", Kind::Bytes);
        if let (Some(Value::Integer(bytes)), Some(at)) = (bytes, reader.place(table, "payload")) {
            let least = PAYLOAD_BYTES_MIN as i64;
            if (least..=PAYLOAD_BYTES_MAX).contains(&bytes) {
                self.payload = usize::try_from(bytes).ok();
            } else {
                let remedy = format!(
                    "write a number from {least} (it says which message it is) to {PAYLOAD_BYTES_MAX}"
                );
                reader.problem(at, format!("a payload of {bytes} bytes is not simulated"), remedy);
            }
        }
        let pace = reader.value(table, "pace", Kind::Choice(&["periodic", "sporadic"]));
        let jitter = reader.value(table, "jitter", Kind::Integer(1, 10_000));
        let is_sporadic = pace == Some(Value::Word("sporadic".to_owned()));
        let percent = if let Some(Value::Integer(percent)) = jitter { percent as u32 } else { USUAL_JITTER };
        match reader.place(table, "jitter") {
            Some(at) if !is_sporadic => {
                let remedy = "add pace = \"sporadic\", or remove jitter".to_owned();
                reader.problem(at, "only a sporadic pace has jitter".to_owned(), remedy);
            }
            _ if is_sporadic => self.pace = Some(Pace::Sporadic(percent)),
            _ => self.pace = pace.map(|_| Pace::Periodic),
        }
    }

    fn read_network(&mut self, reader: &mut Reader<'_>, table: &DeTable<'_>) {
        let Some(table) = reader.section(table, "network") else { return };
        reader.check_keys(table, "network.", &["publishers", "subscribers", "pair"]);
        self.publishers = reader.latency(table, "publishers");
        self.subscribers = reader.latency(table, "subscribers");
        self.pair = reader.latency(table, "pair");
    }

    fn read_clocks(&mut self, reader: &mut Reader<'_>, table: &DeTable<'_>) {
        let Some(table) = reader.section(table, "clock") else { return };
        for (name, _) in table {
            let (name, at) = (name.get_ref().to_string(), name.span());
            let Some(clock) = reader.section(table, &name) else { continue };
            reader.check_keys(clock, &format!("clock.{name}."), &["offset", "drift_ppm"]);
            let Some(target) = reader.host_called(&name, at.clone()) else { continue };
            if matches!(target, Target::Primary | Target::Backup) {
                let message = format!("`{name}` is whoever reigns, and a clock belongs to a host");
                reader.problem(at, message, format!("name the host: {}", reader.hosts.list()));
                continue;
            }
            let offset = reader.signed(clock, "offset").unwrap_or(Span::ZERO);
            let drift_ppb = reader.drift_ppb(clock).unwrap_or(0);
            self.clocks.push((target, ClockError { offset, drift_ppb }));
        }
    }

    /// The faults, with the places of their times.
    fn read_faults(&mut self, reader: &mut Reader<'_>, table: &DeTable<'_>) -> Vec<At> {
        let Some(value) = table.get("fault") else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            let remedy = "write [[fault]] on a line of its own, and its keys below".to_owned();
            reader.problem(value.span(), "faults are a list of tables".to_owned(), remedy);
            return Vec::new();
        };
        let mut places = Vec::new();
        for item in items {
            let Some(table) = item.get_ref().as_table() else {
                let remedy = "write [[fault]] on a line of its own, and its keys below".to_owned();
                reader.problem(item.span(), "a fault must be a table".to_owned(), remedy);
                continue;
            };
            if let Some(fault) = reader.fault(table, item.span()) {
                self.faults.push(fault);
                places.push(reader.place(table, "at").unwrap_or(item.span()));
            }
        }
        places
    }

    /// Faults happen one after the other, and before the run ends.
    fn check_times(&self, reader: &mut Reader<'_>, places: &[At], asked: Option<Span>) {
        let end = asked.or(self.length);
        let whose = if asked.is_some() { "--for" } else { "duration" };
        let mut before = Span::ZERO;
        for (fault, place) in self.faults.iter().zip(places) {
            let When::At(at) = fault.when else { continue };
            if let Some(end) = end.filter(|end| at > *end) {
                let message = format!("this fault at {at} is after the end of the run: {whose} is {end}");
                reader.problem(place.clone(), message, format!("let it happen sooner, or lengthen {whose}"));
            }
            if at < before {
                let message = format!("this fault at {at} comes after one at {before}");
                let remedy = "faults happen in the order of the file: move it up".to_owned();
                reader.problem(place.clone(), message, remedy);
            }
            before = before.max(at);
        }
    }
}

impl Reader<'_> {
    fn signed(&mut self, table: &DeTable<'_>, key: &str) -> Option<Span> {
        let value = table.get(key)?;
        match understand_signed(&Raw::new(value.get_ref())) {
            Ok(span) => Some(span),
            Err(message) => {
                let remedy = "a duration, such as \"1ms\"; back if negative, as in \"-2s\"".to_owned();
                self.problem(value.span(), format!("{key}: {message}"), remedy);
                None
            }
        }
    }

    fn drift_ppb(&mut self, table: &DeTable<'_>) -> Option<i64> {
        const PPM_MAX: f64 = 100_000.0;
        let value = table.get("drift_ppm")?;
        let ppm = match Raw::new(value.get_ref()) {
            Raw::Number(number) => number.replace('_', "").parse::<f64>().ok(),
            _ => None,
        };
        let Some(ppm) = ppm.filter(|ppm| ppm.abs() <= PPM_MAX) else {
            let remedy = format!(
                "write microseconds that it gains in a second, up to {PPM_MAX}, as in drift_ppm = 20"
            );
            self.problem(value.span(), "drift_ppm: this is no drift".to_owned(), remedy);
            return None;
        };
        Some((ppm * 1_000.0) as i64)
    }

    fn latency(&mut self, table: &DeTable<'_>, key: &str) -> Option<Latency> {
        const SPANS: [&str; 3] = ["least", "typical", "most"];
        let section = self.section(table, key)?;
        let at = self.place(table, key)?;
        self.check_keys(section, &format!("network.{key}."), &SPANS);
        for name in SPANS.iter().filter(|name| section.get(**name).is_none()) {
            let remedy = "write { least = \"10us\", typical = \"20us\", most = \"50us\" }".to_owned();
            self.problem(at.clone(), format!("network.{key} lacks `{name}`"), remedy);
        }
        let [least, typical, most] = SPANS.map(|name| self.span(section, name));
        let (least, typical, most) = (least?, typical?, most?);
        if least <= typical && typical <= most && !most.is_forever() {
            return Some(Latency { least, typical, most });
        }
        let message = format!("network.{key} is least {least}, typical {typical}, most {most}");
        self.problem(
            at,
            message,
            "order them: least, then typical, then most, and all of them finite".to_owned(),
        );
        None
    }
}

#[cfg(test)]
mod tests;
