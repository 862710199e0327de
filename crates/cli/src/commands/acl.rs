//! `verge acl`: whether somebody may do something, and why.

use crate::arguments::Format;
use crate::arguments::user::AclCommand;
use access::{Access, Because, Judgement, Rule, Verdict};
use console::{Outcome, json, line, yes};
use node::users::{nobody, read, warn_of_readers};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Answer<'a> {
    allowed: bool,
    user: &'a str,
    client: &'a str,
    action: &'a str,
    topic: &'a str,
    reason: String,
    rule: Option<RuleRow<'a>>,
}

#[derive(Serialize)]
struct RuleRow<'a> {
    verdict: &'static str,
    topic: &'a str,
    owner: String,
    line: u32,
    column: u32,
}

/// Runs one of the sub-commands.
pub fn run(file: &Path, command: &AclCommand, format: Format) -> Outcome {
    let AclCommand::Test { user, topic, action, client } = command;
    let access = read(file)?;
    warn_of_readers(file);
    let id = access.user(user).ok_or_else(|| nobody(user))?;
    let judgement = access.allows(id, client, *action, topic);
    let rule = match judgement.because {
        Because::Rule(rule) => Some(row(&access, rule)),
        _ => None,
    };
    let reason = reason(judgement, rule.as_ref(), file);
    let allowed = judgement.allowed;
    match format {
        Format::Json => {
            json(&Answer { allowed, user, client, action: action.name(), topic, reason, rule })?;
        }
        Format::Table => line(&format!("{}: {reason}", if allowed { "allowed" } else { "denied" }))?,
    }
    Ok(yes(allowed))
}

fn row<'a>(access: &Access, rule: &'a Rule) -> RuleRow<'a> {
    let verdict = match rule.verdict() {
        Verdict::Allow => "allow",
        Verdict::Deny => "deny",
    };
    let place = rule.place();
    let owner = access.owner(rule).to_string();
    RuleRow { verdict, topic: rule.pattern(), owner, line: place.line, column: place.column }
}

fn reason(judgement: Judgement<'_>, rule: Option<&RuleRow<'_>>, file: &Path) -> String {
    match (judgement.because, rule) {
        (_, Some(rule)) => {
            let RuleRow { verdict, topic, owner, line, column } = rule;
            format!("{}:{line}:{column} of {owner}: {verdict} \"{topic}\"", file.display())
        }
        (Because::NotATopic, None) => {
            "this is no topic, or has wildcards where one plain topic is needed".to_owned()
        }
        _ => "no rule allows it".to_owned(),
    }
}
