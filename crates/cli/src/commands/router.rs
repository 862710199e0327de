//! `verge router`: routers that a coordination service names.

use super::site::{SERVICE_PATIENCE, survey};
use crate::arguments::Format;
use config::Config;
use console::{Outcome, Trouble, json, line, yes};
use contract::Span;
use federation::Survey;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How often it is looked how many topics a router still has.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// What draining has come to.
#[derive(Serialize)]
struct Drained {
    router: String,
    drains: bool,
    topics: usize,
}

/// Has a router give its topics to others, and waits until it has none; or has it take part again. Yes: that is so.
pub fn drain(config: &Config, router: &str, undo: bool, within: Span, format: Format) -> Outcome {
    let before = survey(config)?;
    if !before.routers.contains_key(router) {
        let names: Vec<&str> = before.routers.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        return Err(Trouble(format!("no router `{router}` is known to the coordination service: {names}")));
    }
    let others = |survey: &Survey| {
        let mut others = survey.routers.iter().filter(|(name, _)| *name != router);
        others.any(|(_, other)| other.record.is_some() && !other.drains)
    };
    if !undo && !others(&before) {
        return Err(Trouble(format!(
            "`{router}` is the only router: there is nobody to take its topics. Start another first"
        )));
    }
    node::drain_router(config, router, !undo, SERVICE_PATIENCE)?;
    let until = Instant::now() + Duration::from_nanos(within.as_nanos_u64());
    let mut told = usize::MAX;
    let topics = loop {
        let topics = survey(config)?.routers.get(router).map_or(0, |router| router.topics);
        if undo || topics == 0 || Instant::now() >= until {
            break topics;
        }
        if topics != told && format == Format::Table {
            line(&format!("{router}: {topics} topics left"))?;
        }
        told = topics;
        std::thread::sleep(LOOKS_EVERY);
    };
    if format == Format::Json {
        json(&Drained { router: router.to_owned(), drains: !undo, topics })?;
    } else {
        line(&match topics {
            _ if undo => format!("{router} is given topics again"),
            0 => format!("{router} has no topics any more, and may be stopped"),
            left => format!("{router} still has {left} topics; it goes on with that"),
        })?;
    }
    Ok(yes(undo || topics == 0))
}
