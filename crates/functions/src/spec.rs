//! A function, as somebody wrote it.

use contract::{Span, check_name};
use processing::PayloadType;
use processing::rules::{RuleError, RuleSet, RuleSpec};
use rendezvous::{Interest, Profile, Space};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::str::FromStr;

/// What a function takes, and its rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionSpec {
    /// Which messages it looks at: an interest.
    pub on: String,
    /// What these are.
    pub payload: PayloadType,
    /// What it does with them. All look at the same messages, and one fires at most.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Its name, and when it fires.
    pub when: RuleSpec,
    /// What it says then; the message itself, if nothing.
    pub say: Option<String>,
    /// Who wants such things gets it: a profile.
    pub give: Option<String>,
    /// Where it is published besides.
    pub topic: Option<String>,
    /// Whether the log of the peer says it.
    pub alarm: bool,
}

/// Why a text is no function.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// It is not written so.
    #[error("{0}")]
    Text(String),
    /// A value cannot be.
    #[error("`{key}`: {why}")]
    Value {
        /// Of which key.
        key: String,
        /// Why not.
        why: String,
    },
    /// A rule does nothing.
    #[error("the rule `{0}` says nothing of what to do: give it `give`, `topic` or `alarm = true`")]
    Idle(String),
    /// A name is there twice.
    #[error("there are two rules `{0}`: give each its own name")]
    Twice(String),
    /// A condition is not understood.
    #[error("the rule `{rule}`: {why}")]
    Rule {
        /// Which one.
        rule: String,
        /// Why.
        why: String,
    },
}

/// The text of a function, as TOML has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Which messages it looks at: an interest.
    pub on: String,
    /// What these are.
    #[serde(rename = "type", default = "json")]
    pub payload: String,
    /// Its rules.
    #[serde(default, rename = "rule")]
    pub rules: Vec<WrittenRule>,
}

fn json() -> String {
    "json".to_owned()
}

/// A rule, as TOML has it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenRule {
    /// Its name; its number, if it has none.
    pub name: Option<String>,
    /// Its condition.
    #[serde(rename = "if")]
    pub condition: String,
    /// Where several could fire, the one with the least number does.
    #[serde(default)]
    pub priority: i64,
    /// How often it fires at most.
    pub every: Option<String>,
    /// What it says.
    pub say: Option<String>,
    /// To whom: a profile.
    pub give: Option<String>,
    /// Where.
    pub topic: Option<String>,
    /// Whether the log says it.
    #[serde(default)]
    pub alarm: bool,
}

impl Written {
    /// Reads a text.
    pub fn read(text: &str) -> Result<Written, SpecError> {
        toml::from_str(text).map_err(|error| SpecError::Text(error.to_string().trim_end().to_owned()))
    }

    /// As it is read.
    pub fn to_text(&self) -> Result<String, SpecError> {
        toml::to_string(self).map_err(|error| SpecError::Text(error.to_string()))
    }
}

impl FunctionSpec {
    /// Reads a text; profiles and interests in it are of this space.
    pub fn read(text: &str, space: &Space) -> Result<FunctionSpec, SpecError> {
        let Written { on, payload, rules } = Written::read(text)?;
        let value = |key: &str, why: String| SpecError::Value { key: key.to_owned(), why };
        Interest::read(space, &on).map_err(|error| value("on", error.to_string()))?;
        let payload = PayloadType::from_str(&payload).map_err(|error| value("type", error.to_string()))?;
        match &payload {
            PayloadType::Bytes => {
                let why = "conditions look into messages: json, cbor, text, i16, i32, f32 or f64".to_owned();
                return Err(value("type", why));
            }
            PayloadType::Json(path) | PayloadType::Cbor(path) if !path.is_empty() => {
                return Err(value("type", "the path stands in conditions: `motor.rpm > 1`".to_owned()));
            }
            _ => {}
        }
        let rules = rules.into_iter().enumerate().map(|(index, text)| rule(index, text, space));
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        let mut names = BTreeSet::new();
        if let Some(twice) = rules.iter().find(|rule| !names.insert(&rule.when.name)) {
            return Err(SpecError::Twice(twice.when.name.clone()));
        }
        let spec = FunctionSpec { on, payload, rules };
        spec.set()?;
        Ok(spec)
    }

    /// Its rules, ready to look at messages.
    pub fn set(&self) -> Result<RuleSet, SpecError> {
        let specs: Vec<RuleSpec> = self.rules.iter().map(|rule| rule.when.clone()).collect();
        RuleSet::read(&specs).map_err(|error| match error {
            RuleError::Condition { index, reason, .. } => SpecError::Rule {
                rule: specs.get(index).map(|spec| spec.name.clone()).unwrap_or_default(),
                why: format!("its condition cannot be taken: {reason}"),
            },
            other => SpecError::Text(other.to_string()),
        })
    }
}

fn rule(index: usize, text: WrittenRule, space: &Space) -> Result<Rule, SpecError> {
    let WrittenRule { name, condition, priority, every, say, give, topic, alarm } = text;
    let name = name.unwrap_or_else(|| (index + 1).to_string());
    let wrong = |why: String| SpecError::Rule { rule: name.clone(), why };
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return Err(wrong("a name has 1 to 64 bytes, and no control characters".to_owned()));
    }
    let every = match every.as_deref().map(str::parse::<Span>) {
        None => Span::ZERO,
        Some(Ok(every)) if every >= Span::ZERO && !every.is_forever() => every,
        Some(Ok(every)) => return Err(wrong(format!("`every` is {every}, and must be a time such as 10s"))),
        Some(Err(error)) => return Err(wrong(format!("`every` is unclear: {error}"))),
    };
    if let Some(give) = &give {
        let profile = Profile::read(space, give).map_err(|error| wrong(format!("`give`: {error}")))?;
        if profile.terms().topic.is_some() {
            return Err(wrong(
                "`give` names a topic: say that as `topic`, and leave it out there".to_owned(),
            ));
        }
    }
    if let Some(topic) = &topic {
        check_name(topic).map_err(|error| wrong(format!("`topic`: {error}")))?;
    }
    if give.is_none() && topic.is_none() && !alarm {
        return Err(SpecError::Idle(name));
    }
    Ok(Rule { when: RuleSpec { name, condition, priority, every }, say, give, topic, alarm })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rendezvous::Kind;

    const GOOD: &str = r#"
on = "motor, temp*; deadline=100ms"

[[rule]]
name = "hot"
if = "value > 90 AND NOT muted"
every = "10s"
say = "too hot"
give = "warning, motor"
topic = "plant/alarms"
alarm = true

[[rule]]
if = "value > 80"
priority = 1
topic = "plant/warm"
"#;

    fn read(text: &str) -> Result<FunctionSpec, String> {
        let space = Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words)], false).unwrap();
        FunctionSpec::read(text, &space).map_err(|error| error.to_string())
    }

    #[test]
    fn a_text_is_read() {
        let spec = read(GOOD).unwrap();
        assert_eq!((spec.on.as_str(), spec.rules.len()), ("motor, temp*; deadline=100ms", 2));
        assert_eq!(spec.payload, PayloadType::Json(String::new()));
        let again = Written::read(GOOD).unwrap().to_text().unwrap();
        assert_eq!(read(&again), Ok(spec.clone()));
        assert_eq!((spec.rules[0].when.every, spec.rules[1].when.name.as_str()), (Span::secs(10), "2"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, said) in [
            ("motor, temp*; deadline=100ms", "motor, temp, x, y", "`on`: "),
            ("value > 80", "value >", "the rule `2`: its condition cannot be taken: at letter 8"),
            ("priority = 1", "priorty = 1", "priorty"),
            ("10s", "10", "the rule `hot`: `every` is unclear"),
            ("warning, motor", "warning, m*", "the rule `hot`: `give`"),
            ("warning, motor", "warning; topic=a", "say that as `topic`"),
            ("plant/alarms", "plant/+", "the rule `hot`: `topic`"),
            ("topic = \"plant/warm\"", "", "the rule `2` says nothing of what to do"),
            ("name = \"hot\"", "name = \"2\"", "two rules `2`"),
            ("\n[[rule]]\nname", "type = \"bytes\"\n[[rule]]\nname", "conditions look into messages"),
            ("\n[[rule]]\nname", "type = \"json:a\"\n[[rule]]\nname", "the path stands in conditions"),
            ("on =", "in =", "in"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let why = read(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(why.contains(said), "{from}: {why}");
        }
        assert!(read("on = \"motor\"").unwrap_err().contains("1 to 256"));
        assert!(read("").unwrap_err().contains("on"));
    }
}
