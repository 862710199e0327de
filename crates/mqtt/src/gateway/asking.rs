//! What clients of MQTT 5 ask for by user properties: contracts of what they publish, and what they need of what they subscribe.

use crate::packet::{ASKING, Publish};
use contract::{Contract, Loss, Needs, Span, invariant};
use std::fmt::Display;
use wire::limits::PAYLOAD_BYTES_MAX;

/// The contract that a message's user properties ask for: `verge-deadline`, `verge-period`, `verge-loss`, `verge-retain`,
/// `verge-priority`, `verge-size`. What they leave open is the fallback's, but a deadline or a loss alone makes the period the deadline.
/// Where they make no sense, says why and what would.
pub(super) fn asked_contract(fallback: &Contract, publish: &Publish<'_>) -> Result<Option<Contract>, String> {
    if publish.properties.is_empty() {
        return Ok(None);
    }
    let mut contract = *fallback;
    let (mut asked, mut period) = (false, None);
    for (name, value) in publish.properties.user() {
        let Some(term) = name.strip_prefix(ASKING) else { continue };
        let span = || value.parse::<Span>().map_err(|error| format!("{name}: {error}"));
        match term {
            "deadline" => contract.deadline = span()?,
            "period" => period = Some(span()?),
            "loss" if value == "unbounded" => contract.loss = Loss::Unbounded,
            "loss" => {
                let losses = value.parse().map_err(|_| no_term(name, value, "a number, or `unbounded`"))?;
                contract.loss = Loss::AtMost(losses);
            }
            "retain" => {
                let wanted = format_args!("a number of messages, {} at most", Contract::RETAIN_MAX);
                contract.retain = value.parse().map_err(|_| no_term(name, value, wanted))?;
            }
            "size" => {
                let wanted = format_args!("a number of bytes, {PAYLOAD_BYTES_MAX} at most");
                let size = value.parse().ok().filter(|size| *size as usize <= PAYLOAD_BYTES_MAX);
                contract.size = size.ok_or_else(|| no_term(name, value, wanted))?;
            }
            "priority" => {
                contract.priority =
                    value.parse().map_err(|_| no_term(name, value, "a number from 0 to 255"))?;
            }
            _ => continue,
        }
        asked = true;
    }
    contract.period =
        period.unwrap_or(if contract.deadline.is_forever() { contract.period } else { contract.deadline });
    if !asked {
        return Ok(None);
    }
    contract.check().map_err(|error| error.to_string())?;
    Ok(Some(contract))
}

/// What the user properties of a SUBSCRIBE say that its client needs: `verge-deadline`, `verge-loss`, `verge-link`, `verge-best-effort`. Where they
/// make no sense, says why and what would.
pub(super) fn asked_needs(asks: &[(Box<str>, Box<str>)]) -> Result<Needs, String> {
    let mut needs = Needs::NONE;
    for (name, value) in asks {
        match name.strip_prefix(ASKING).unwrap_or_else(|| invariant!("what asks begins like that", "")) {
            "deadline" => {
                let deadline = value.parse::<Span>().map_err(|error| format!("{name}: {error}"))?;
                needs.deadline = Some(deadline);
            }
            "loss" => needs.loss = Some(value.parse().map_err(|_| no_term(name, value, "a number"))?),
            "link" => {
                let link = value.parse::<contract::LinkClass>();
                needs.link = Some(link.map_err(|error| format!("{name}: {error}"))?);
            }
            "best-effort" => {
                let asked = value.parse();
                needs.best_effort = asked.map_err(|_| no_term(name, value, "`true` or `false`"))?;
            }
            _ => {
                return Err(format!(
                    "{name}: a subscriber may ask for verge-deadline, verge-loss and verge-link, or for verge-best-effort"
                ));
            }
        }
    }
    needs.check().map_err(|error| error.to_string())?;
    Ok(needs)
}

#[cold]
fn no_term(name: &str, value: &str, wanted: impl Display) -> String {
    format!("{name}: `{value}` is none: write {wanted}")
}
