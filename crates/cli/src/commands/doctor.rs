//! `verge doctor`: prints what [`doctor`] found.

use crate::arguments::Format;
use config::Config;
use console::{Outcome, json, line, yes};
use doctor::{Finding, Health, examine, examine_ports};
use std::path::Path;

/// Examines this host and the configured ports.
pub fn run(config: &Config, format: Format) -> Outcome {
    let mut findings = examine(Path::new("/"));
    let ports: Vec<_> = {
        let places = config.brokers.iter().flat_map(|broker| [&broker.clients, &broker.pair]);
        // What does not resolve here is not of this host.
        places.filter_map(|place| place.resolve_one().ok()).collect()
    };
    findings.extend(examine_ports(&ports));
    if format == Format::Json {
        json(&findings)?;
    } else {
        findings.iter().try_for_each(|finding| line(&describe(finding)))?;
        let poor = findings.iter().filter(|finding| finding.health == Health::Poor).count();
        let fair = findings.iter().filter(|finding| finding.health == Health::Fair).count();
        line(&format!("{} checks: {poor} poor, {fair} fair", findings.len()))?;
    }
    Ok(yes(findings.iter().all(|finding| finding.health != Health::Poor)))
}

fn describe(finding: &Finding) -> String {
    let mark = match finding.health {
        Health::Good => "good",
        Health::Fair => "FAIR",
        Health::Poor => "POOR",
    };
    let mut text = format!("{mark}  {}: {}", finding.name, finding.state);
    for (label, detail) in [("cost", &finding.cost), ("mend", &finding.remedy)] {
        if !detail.is_empty() {
            text.push_str(&format!("\n      {label}: {detail}"));
        }
    }
    text
}
