//! One `[[fault]]` of a scenario.

use super::reader::{At, Reader};
use config::schema::nearest;
use sim::{Act, Fault, LastWrites, Target, When};
use toml::de::DeTable;

/// A kind of fault: its name, the keys that it needs, and those that it may have.
struct Shape {
    kind: &'static str,
    needs: &'static [&'static str],
    may: &'static [&'static str],
}

const SHAPES: [Shape; 8] = [
    Shape { kind: "crash", needs: &["host"], may: &["restart", "last_writes"] },
    Shape { kind: "host-crash", needs: &["host"], may: &["restart"] },
    Shape { kind: "pause", needs: &["host", "for"], may: &[] },
    Shape { kind: "partition", needs: &["between", "for"], may: &["one_way"] },
    Shape { kind: "break", needs: &["from", "to"], may: &["delivers", "half_open"] },
    Shape { kind: "handover", needs: &[], may: &[] },
    Shape { kind: "clock-step", needs: &["host", "by"], may: &[] },
    Shape { kind: "slow", needs: &["host", "times", "for"], may: &[] },
];

/// Keys of every fault.
const COMMON: [&str; 3] = ["kind", "at", "after"];
/// Connections that a dying process may still have written to.
const CONNECTIONS_MAX: i64 = 10_000;

/// What a key means, for whoever left it out.
fn meaning(key: &str) -> &'static str {
    match key {
        "host" => "say whose, as in host = \"primary\"",
        "for" => "say how long, as in for = \"200ms\"",
        "between" => "say between whom, as in between = [[\"a\"], [\"b\", \"publisher-1\"]]",
        "from" => "say between whom, as in from = \"publisher-1\" and to = \"primary\"",
        "to" => "say with whom, as in to = \"primary\"",
        "by" => "say by how much, as in by = \"-2s\"",
        "times" => "say how many times as slow, as in times = 10",
        _ => "add it",
    }
}

impl Reader<'_> {
    /// Reads one fault; the rest of a faulty one is read for its problems.
    pub fn fault(&mut self, table: &DeTable<'_>, at: At) -> Option<Fault> {
        let when = self.when(table, at.clone());
        let shape = self.shape(table, at.clone())?;
        let known: Vec<&str> = [&COMMON[..], shape.needs, shape.may].concat();
        self.check_keys(table, "", &known);
        for key in shape.needs.iter().filter(|key| table.get(**key).is_none()) {
            self.problem(at.clone(), format!("a {} lacks `{key}`", shape.kind), meaning(key).to_owned());
        }
        let act = match shape.kind {
            "crash" => self.crash(table),
            "host-crash" => {
                let restart = self.span(table, "restart");
                self.host(table, "host").map(|target| Act::HostCrash { target, restart })
            }
            "pause" => {
                let (target, span) = (self.host(table, "host"), self.span(table, "for"));
                target.zip(span).map(|(target, span)| Act::Pause { target, span })
            }
            "partition" => self.partition(table),
            "break" => self.break_of(table),
            "handover" => Some(Act::Handover),
            "clock-step" => {
                let (target, by) = (self.host(table, "host"), self.signed(table, "by"));
                target.zip(by).map(|(target, by)| Act::ClockStep { target, by })
            }
            _ => self.slow(table),
        };
        Some(Fault { when: when?, act: act? })
    }

    fn shape(&mut self, table: &DeTable<'_>, at: At) -> Option<&'static Shape> {
        let kinds = || SHAPES.iter().map(|shape| shape.kind);
        let all = || kinds().collect::<Vec<_>>().join(", ");
        let Some(value) = table.get("kind") else {
            self.problem(at, "this fault lacks `kind`".to_owned(), format!("say what goes wrong: {}", all()));
            return None;
        };
        let name = value.get_ref().as_str().unwrap_or("");
        let shape = SHAPES.iter().find(|shape| shape.kind == name);
        if shape.is_none() {
            let remedy = match nearest(name, kinds()) {
                Some(near) => format!("did you mean `{near}`? There are {}", all()),
                None => format!("there are {}", all()),
            };
            self.problem(value.span(), format!("no fault is called `{name}`"), remedy);
        }
        shape
    }

    fn when(&mut self, table: &DeTable<'_>, at: At) -> Option<When> {
        match (self.place(table, "at"), self.place(table, "after")) {
            (Some(_), None) => self.span(table, "at").map(When::At),
            (None, Some(_)) => self.span(table, "after").map(When::Settled),
            (None, None) => {
                let remedy =
                    "say when: at = \"30s\" of the run, or after = \"500ms\" of everything being whole";
                self.problem(at, "this fault lacks `at`".to_owned(), remedy.to_owned());
                None
            }
            (Some(_), Some(place)) => {
                let remedy = "leave one of them out".to_owned();
                self.problem(place, "this fault has both `at` and `after`".to_owned(), remedy);
                None
            }
        }
    }

    fn crash(&mut self, table: &DeTable<'_>) -> Option<Act> {
        let restart = self.span(table, "restart");
        let mut writes = LastWrites::All;
        if let Some(section) = self.section(table, "last_writes") {
            self.check_keys(section, "last_writes.", &["connections", "percent"]);
            let connections = self.number(section, "connections", 0, CONNECTIONS_MAX).unwrap_or(0);
            writes = LastWrites::Some(connections, self.number(section, "percent", 0, 100).unwrap_or(0));
        }
        self.host(table, "host").map(|target| Act::Crash { target, writes, restart })
    }

    fn slow(&mut self, table: &DeTable<'_>) -> Option<Act> {
        const TIMES_MAX: i64 = 1_000_000;
        let times = self.number(table, "times", 2, TIMES_MAX);
        let (target, span) = (self.host(table, "host"), self.span(table, "for"));
        Some(Act::Slow { target: target?, times: times?, span: span? })
    }

    fn partition(&mut self, table: &DeTable<'_>) -> Option<Act> {
        let (span, one_way) = (self.span(table, "for"), self.switch(table, "one_way"));
        let value = table.get("between")?;
        let groups: Vec<_> = value.get_ref().as_array().into_iter().flatten().collect();
        let groups: Option<Vec<_>> = groups.into_iter().map(|group| group.get_ref().as_array()).collect();
        let Some([from, to]) = groups.as_deref() else {
            let message = "between: these are not two groups of hosts".to_owned();
            self.problem(value.span(), message, meaning("between").to_owned());
            return None;
        };
        let [from, to] = [from, to].map(|group| {
            let hosts: Vec<Option<Target>> = group.iter().map(|name| self.host_in("between", name)).collect();
            hosts.into_iter().collect::<Option<Vec<Target>>>()
        });
        let (from, to) = (from?, to?);
        if from.is_empty() || to.is_empty() || from.iter().any(|host| to.contains(host)) {
            let message = "between: both groups need a host, and none may be in both".to_owned();
            self.problem(value.span(), message, meaning("between").to_owned());
            return None;
        }
        Some(Act::Partition { from, to, one_way, span: span? })
    }

    fn break_of(&mut self, table: &DeTable<'_>) -> Option<Act> {
        let (delivers, half_open) = (self.switch(table, "delivers"), self.switch(table, "half_open"));
        let (from, to) = (self.host(table, "from"), self.host(table, "to"));
        let (from, to) = (from?, to?);
        let is_client = |target: &Target| matches!(target, Target::Publisher(_) | Target::Subscriber(_));
        if from == to || (is_client(&from) && is_client(&to)) {
            let at = self.place(table, "to")?;
            let message = "between these two there is no connection".to_owned();
            let remedy = "clients are connected to brokers, and the brokers to each other".to_owned();
            self.problem(at, message, remedy);
            return None;
        }
        Some(Act::Break { from, to, delivers, half_open })
    }
}
