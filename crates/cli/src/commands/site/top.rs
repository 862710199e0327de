//! `verge site top`: what crosses each second, and how long what was missed still takes.

use super::{Row, ask, joins_nothing, yes_or_no};
use crate::arguments::Format;
use config::Config;
use console::{
    Outcome, RED, Trouble, YELLOW, begin_screen, coloured, fit_terminal, json, line, say_left_out, table,
};
use report::{FlowReport, MissedReport, SiteReport};
use serde::Serialize;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);
const HEADINGS: [&str; 10] = [
    "router",
    "reached",
    "way ms",
    "streams out",
    "out/s",
    "kB/s out",
    "dropped/s",
    "streams in",
    "in/s",
    "kB/s in",
];
/// Columns that are left out first where a terminal is narrow.
const LESS_IMPORTANT: [&str; 4] = ["way ms", "streams out", "streams in", "dropped/s"];

/// Nothing crosses, or nobody could say.
#[derive(Serialize)]
struct Idle {
    /// There is none whose uplink carries.
    broker: Option<String>,
    trouble: String,
}

/// What has crossed between two looks.
#[derive(Serialize, PartialEq, Debug)]
struct Crossed {
    /// The broker whose uplink carries.
    broker: String,
    /// From one look to the other.
    seconds: f64,
    routers: Vec<RouterRates>,
    missed: Vec<MissedRates>,
}

#[derive(Serialize, PartialEq, Debug)]
struct RouterRates {
    router: String,
    reached: bool,
    /// Half of the quickest way there and back, in nanoseconds.
    way_ns: Option<i64>,
    outward: Rates,
    inward: Rates,
}

#[derive(Serialize, PartialEq, Debug)]
struct Rates {
    streams: usize,
    messages_per_s: f64,
    /// Of their payloads.
    bytes_per_s: f64,
    dropped_per_s: f64,
}

/// What was missed of a site.
#[derive(Serialize, PartialEq, Debug)]
struct MissedRates {
    site: String,
    heard: bool,
    /// Messages that have not been looked at yet, at most.
    left: u64,
    messages_per_s: f64,
    bytes_per_s: f64,
    /// How long it takes at most until nothing is left, if it goes on so; `None`: nothing is left, or nothing comes.
    drained_in_s: Option<f64>,
}

/// Shows it again and again.
pub fn run(config: &Config, wide: bool, format: Format) -> Outcome {
    let Some(site) = &config.site else { return Err(joins_nothing()) };
    let mut before: Option<(Instant, String, SiteReport)> = None;
    loop {
        let rows: Vec<(Instant, Row)> =
            config.brokers.iter().map(|broker| (Instant::now(), ask(broker))).collect();
        let carrying = rows.iter().find_map(|(at, Row { broker, report, .. })| {
            let report = report.as_ref().filter(|report| report.carries)?;
            Some((*at, broker.clone(), report.clone()))
        });
        // Each uplink counts since it began: after a failover there is nothing to compare with.
        let known =
            before.take().filter(|(_, broker, _)| carrying.as_ref().is_some_and(|(_, now, _)| now == broker));
        match (&carrying, known) {
            (None, _) => show_nothing(&site.name, &rows, format)?,
            (Some((at, broker, report)), Some((since, _, earlier))) => {
                let crossed = crossed(broker, (&earlier, report), *at - since);
                match format {
                    Format::Json => json(&crossed)?,
                    Format::Table => show(&site.name, &crossed, wide)?,
                }
            }
            (Some(_), None) => {}
        }
        before = carrying;
        std::thread::sleep(EVERY);
    }
}

/// What has crossed between two reports of one uplink.
fn crossed(broker: &str, (before, after): (&SiteReport, &SiteReport), passed: Duration) -> Crossed {
    let seconds = passed.as_secs_f64().max(f64::MIN_POSITIVE);
    let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    let rates = |before: Option<&FlowReport>, after: &FlowReport| {
        let of = |figure: fn(&FlowReport) -> u64| {
            rate(before.map_or_else(|| figure(after), figure), figure(after))
        };
        Rates {
            streams: after.streams,
            messages_per_s: of(|flow| flow.messages),
            bytes_per_s: of(|flow| flow.bytes),
            dropped_per_s: of(|flow| flow.dropped),
        }
    };
    let routers = after.routers.iter().map(|router| {
        // What is published towards a router that is not reached waits, and may be too old when it is.
        let known = before.routers.iter().find(|known| router.reached && known.name == router.name);
        RouterRates {
            router: router.name.clone(),
            reached: router.reached,
            way_ns: router.clock_within_ns,
            outward: rates(known.map(|known| &known.outward), &router.outward),
            inward: rates(known.map(|known| &known.inward), &router.inward),
        }
    });
    let earlier = missed_of(before);
    let missed = missed_of(after).iter().map(|of| {
        let known = earlier.iter().find(|known| known.site == of.site).unwrap_or(of);
        let messages_per_s = rate(known.messages, of.messages);
        let drains = of.left > 0 && messages_per_s > 0.0;
        MissedRates {
            heard: of.heard,
            left: of.left,
            messages_per_s,
            bytes_per_s: rate(known.bytes, of.bytes),
            drained_in_s: drains.then(|| of.left as f64 / messages_per_s),
            site: of.site.clone(),
        }
    });
    Crossed { broker: broker.to_owned(), seconds, routers: routers.collect(), missed: missed.collect() }
}

/// What was missed of other sites, where this broker's keeper asks for it.
fn missed_of(report: &SiteReport) -> &[MissedReport] {
    report.keeper.as_ref().filter(|keeper| keeper.asks).map_or(&[], |keeper| &keeper.missed)
}

fn show_nothing(site: &str, rows: &[(Instant, Row)], format: Format) -> Result<(), Trouble> {
    let told =
        rows.iter().filter_map(|(_, row)| Some(format!("broker {}: {}", row.broker, row.trouble.as_ref()?)));
    let told: Vec<String> = told.collect();
    let (said, trouble) = match told.is_empty() {
        true => (coloured("nothing crosses:", RED), "no uplink carries".to_owned()),
        false => (coloured("what crosses is not known:", YELLOW), told.join("; ")),
    };
    if format == Format::Json {
        return json(&Idle { broker: None, trouble });
    }
    begin_screen()?;
    line(&format!("site {site}: {said} {trouble}"))
}

fn show(site: &str, crossed: &Crossed, wide: bool) -> Result<(), Trouble> {
    begin_screen()?;
    line(&format!("site {site}, by the uplink of broker {}", crossed.broker))?;
    let mut routers = table(&HEADINGS, &[2, 3, 4, 5, 6, 7, 8, 9]);

    for router in &crossed.routers {
        let RouterRates { outward, inward, .. } = router;
        routers.add_row([
            router.router.clone(),
            yes_or_no(router.reached),
            router.way_ns.map_or("?".to_owned(), |way| format!("{:.1}", way as f64 / 1e6)),
            outward.streams.to_string(),
            format!("{:.0}", outward.messages_per_s),
            format!("{:.1}", outward.bytes_per_s / 1e3),
            format!("{:.0}", outward.dropped_per_s),
            inward.streams.to_string(),
            format!("{:.0}", inward.messages_per_s),
            format!("{:.1}", inward.bytes_per_s / 1e3),
        ]);
    }
    let left_out = fit_terminal(&mut routers, wide, &HEADINGS, &LESS_IMPORTANT);
    line(&routers.to_string())?;
    say_left_out(&left_out)?;
    if crossed.missed.is_empty() {
        return Ok(());
    }
    let mut missed =
        table(&["missed of", "heard", "left at most", "in/s", "kB/s", "done in s at most"], &[2, 3, 4, 5]);
    for of in &crossed.missed {
        missed.add_row([
            of.site.clone(),
            yes_or_no(of.heard),
            of.left.to_string(),
            format!("{:.0}", of.messages_per_s),
            format!("{:.1}", of.bytes_per_s / 1e3),
            of.drained_in_s.map_or(String::new(), |seconds| format!("{seconds:.0}")),
        ]);
    }
    line(&missed.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{KeeperReport, RouterReport};

    fn report(messages: u64, left: u64) -> SiteReport {
        let flow = |messages| FlowReport {
            streams: 3,
            messages,
            bytes: 100 * messages,
            dropped: messages / 10,
            repeated: 0,
        };
        let router = RouterReport {
            name: "r1".to_owned(),
            reached: true,
            why: String::new(),
            clock_ahead_ns: None,
            clock_within_ns: Some(20_000_000),
            reckoned_ns: 0,
            wanted_elsewhere: 1,
            outward: flow(messages),
            inward: flow(2 * messages),
        };
        let missed = MissedReport {
            site: "south".to_owned(),
            heard: true,
            asks: true,
            left,
            messages,
            bytes: 8 * messages,
            gone: 0,
        };
        let keeper = KeeperReport {
            asks: true,
            wanted: 1,
            trouble: String::new(),
            bytes: 0,
            bytes_max: 0,
            kept: 0,
            not_kept: 0,
            given_up: 0,
            missed: vec![missed],
            given: Vec::new(),
        };
        SiteReport {
            published_bytes: None,
            site: "north".to_owned(),
            carries: true,
            wanted_here: 0,
            routers: vec![router],
            refused: Vec::new(),
            unpromised: Vec::new(),
            unwished: Vec::new(),
            by_one_router: Vec::new(),
            coordination: None,
            link: None,
            keeper: Some(keeper),
        }
    }

    #[test]
    fn what_has_crossed_is_told_by_the_second() {
        let found = crossed("a", (&report(100, 500), &report(140, 400)), Duration::from_secs(2));
        let [router] = found.routers.as_slice() else { panic!("one router") };
        let rates = |messages_per_s: f64, dropped_per_s| Rates {
            streams: 3,
            messages_per_s,
            bytes_per_s: 100.0 * messages_per_s,
            dropped_per_s,
        };
        assert_eq!((&router.outward, &router.inward), (&rates(20.0, 2.0), &rates(40.0, 4.0)));
        let [missed] = found.missed.as_slice() else { panic!("one site") };
        assert_eq!((missed.left, missed.messages_per_s, missed.drained_in_s), (400, 20.0, Some(20.0)));
    }

    #[test]
    fn what_begins_to_count_anew_has_no_rate() {
        let found = crossed("a", (&report(100, 0), &report(4, 0)), Duration::from_secs(1));
        assert_eq!(found.routers[0].outward.messages_per_s, 0.0);
        assert_eq!((found.missed[0].messages_per_s, found.missed[0].drained_in_s), (0.0, None));
    }
}
