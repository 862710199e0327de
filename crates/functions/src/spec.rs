//! A function, as somebody wrote it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::{Span, check_name};
use engine::Where;
use processing::rules::{RuleError, RuleSet, RuleSpec};
use processing::{Built, BuiltIn, Factory, Operator, Parameters, PayloadType, Setup, Value};
use rendezvous::{Interest, Profile, Space};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

/// What a function takes, and what it does with it.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionSpec {
    /// Which messages it takes: an interest.
    pub on: String,
    /// What these are.
    pub payload: PayloadType,
    /// Whether it runs only when it is asked to.
    pub is_asked: bool,
    /// Where it has to run.
    pub at: Where,
    /// What it does with them.
    pub does: Does,
}

/// What a function does.
#[derive(Clone, PartialEq, Debug)]
pub enum Does {
    /// All rules look at each message, and one fires at most.
    Rules(Vec<Rule>),
    /// An operator makes something of each.
    Operator(OperatorSpec),
}

/// An operator as a function.
#[derive(Clone, PartialEq, Debug)]
pub struct OperatorSpec {
    /// Which one.
    pub operator: OperatorText,
    /// One that takes less time, for messages whose results would come too late.
    pub cheaper: Option<CheaperSpec>,
    /// Where its results go.
    pub outlet: OutletSpec,
}

/// What serves a message where the better operator would take too long.
#[derive(Clone, PartialEq, Debug)]
pub struct CheaperSpec {
    /// From the arrival of a message to its result it may take so long.
    pub budget: Span,
    /// Which one.
    pub operator: OperatorText,
}

/// An operator, as it is written.
#[derive(Clone, PartialEq, Debug)]
pub struct OperatorText {
    /// Which kind.
    pub kind: String,
    /// What it is configured with.
    pub parameters: Parameters,
    /// The module of one that somebody wrote.
    pub module: Option<Arc<[u8]>>,
    /// How long a run of a module may take.
    pub runs_within: Span,
}

/// An operator, and a cheaper one.
pub type Operators = (Box<dyn Operator>, Option<Box<dyn Operator>>);

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Its name, and when it fires.
    pub when: RuleSpec,
    /// What it says then; the message itself, if nothing.
    pub say: Option<String>,
    /// Where that goes.
    pub outlet: OutletSpec,
    /// Whether the log of the peer says it.
    pub alarm: bool,
    /// The function that it starts before, and for how long.
    pub start: Option<(String, Span)>,
}

/// Where something goes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OutletSpec {
    /// Who wants such things gets it: a profile.
    pub give: Option<String>,
    /// Where it is published besides.
    pub topic: Option<String>,
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
    #[error("the rule `{0}` says nothing of what to do: give it `give`, `topic`, `alarm = true` or `start`")]
    Idle(String),
    /// What it does is not said, or twice.
    #[error("a function has either rules ([[rule]]) or an operator ([operator])")]
    Nothing,
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
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Which messages it looks at: an interest.
    pub on: String,
    /// What these are.
    #[serde(rename = "type", default = "json")]
    pub payload: String,
    /// `always`, or `asked`: only when somebody starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
    /// `any`, `edge` or `core`: which peers may run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What its operator gives, and to whom: a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give: Option<String>,
    /// Where it publishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// How long a result may take from the arrival of its message, where there is a cheaper operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Its operator: `kind`, and its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<toml::Table>,
    /// The same of one that takes less time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheaper: Option<toml::Table>,
    /// Its rules.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
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
    /// The function that it starts.
    pub start: Option<String>,
    /// For how long, after it has fired last.
    #[serde(rename = "for")]
    pub lasts: Option<String>,
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

    /// Puts modules in place of the names of their files, so that the text is all that a peer needs. Returns whether there was one.
    pub fn embed(&mut self, read: impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<bool, SpecError> {
        let mut was_there = false;
        for operator in self.operator.iter_mut().chain(&mut self.cheaper) {
            let Some(toml::Value::String(file)) = operator.remove(MODULE) else { continue };
            let bytes = read(&file).map_err(|why| value(MODULE, why))?;
            operator.insert(EMBEDDED.to_owned(), toml::Value::String(STANDARD.encode(bytes)));
            was_there = true;
        }
        Ok(was_there)
    }
}

/// The file of a module, and the module itself.
const MODULE: &str = "module";
const EMBEDDED: &str = "module_base64";
/// How long a run of a module may take.
const RUNS_WITHIN: &str = "budget";
/// The same where nothing is said, and the longest: a function has a thread of its own, and ends when a run does.
const RUN_MAX: Span = Span::secs(1);
const RUN_MOST: Span = Span::secs(5);
/// The kind of operators that somebody wrote.
pub const WASM: &str = "wasm";
/// How long a function runs that a rule has started.
const STARTED_FOR: Span = Span::secs(60);

fn value(key: &str, why: String) -> SpecError {
    SpecError::Value { key: key.to_owned(), why }
}

impl FunctionSpec {
    /// Reads a text, and sees that its operator can be set up; profiles and interests in it are of this space. A module may take a tenth of a second
    /// to begin.
    pub fn read(text: &str, space: &Space) -> Result<FunctionSpec, SpecError> {
        let spec = FunctionSpec::parse(text, space)?;
        spec.operators()?;
        Ok(spec)
    }

    /// Reads a text.
    pub fn parse(text: &str, space: &Space) -> Result<FunctionSpec, SpecError> {
        let Written { on, payload, runs, at, give, topic, budget, operator, cheaper, rules } =
            Written::read(text)?;
        Interest::read(space, &on).map_err(|error| value("on", error.to_string()))?;
        let payload = PayloadType::from_str(&payload).map_err(|error| value("type", error.to_string()))?;
        let is_asked = match runs.as_deref() {
            None | Some("always") => false,
            Some("asked") => true,
            Some(other) => return Err(value("runs", format!("is `{other}`, and may be always or asked"))),
        };
        let at = at.as_deref().map_or(Ok(Where::Anywhere), Where::from_str);
        let at = at.map_err(|error| value("at", error.to_string()))?;
        let outlet = outlet(give, topic, space).map_err(|(key, why)| value(key, why))?;
        let does = match operator {
            Some(table) if rules.is_empty() => {
                let cheaper = cheaper_spec(budget, cheaper)?;
                Does::Operator(operator_spec(table, cheaper, outlet)?)
            }
            _ if budget.is_some() || cheaper.is_some() => {
                let key = if budget.is_some() { "budget" } else { "cheaper" };
                return Err(value(key, "goes with an [operator]".to_owned()));
            }
            None if !rules.is_empty() && outlet == OutletSpec::default() => {
                Does::Rules(read_rules(rules, space)?)
            }
            None if !rules.is_empty() => {
                let why = "stands in each rule, and not above them".to_owned();
                return Err(value(if outlet.give.is_some() { "give" } else { "topic" }, why));
            }
            _ => return Err(SpecError::Nothing),
        };
        let spec = FunctionSpec { on, payload, is_asked, at, does };
        if let Does::Rules(_) = spec.does {
            check_payload(&spec.payload, &spec.set()?)?;
        }
        spec.check_loops(space)?;
        Ok(spec)
    }

    /// What took what it gives would never end.
    fn check_loops(&self, space: &Space) -> Result<(), SpecError> {
        let Ok(interest) = Interest::read(space, &self.on) else { return Ok(()) };
        let takes = |outlet: &OutletSpec| {
            let given = outlet.give.as_ref().and_then(|give| Profile::read(space, give).ok());
            given.is_some_and(|given| interest.matches(&given))
        };
        let why = "it would take what it gives, without an end: give something else".to_owned();
        match &self.does {
            Does::Operator(operator) if takes(&operator.outlet) => Err(value("give", why)),
            Does::Operator(_) => Ok(()),
            Does::Rules(rules) => match rules.iter().find(|rule| takes(&rule.outlet)) {
                Some(rule) => Err(SpecError::Rule { rule: rule.when.name.clone(), why }),
                None => Ok(()),
            },
        }
    }

    /// Its rules, ready to look at messages; none, if it has an operator.
    pub fn set(&self) -> Result<RuleSet, SpecError> {
        let specs: Vec<RuleSpec> = self.rules().iter().map(|rule| rule.when.clone()).collect();
        RuleSet::read(&specs).map_err(|error| match error {
            RuleError::Condition { index, reason, .. } => SpecError::Rule {
                rule: specs.get(index).map(|spec| spec.name.clone()).unwrap_or_default(),
                why: format!("its condition cannot be taken: {reason}"),
            },
            other => SpecError::Text(other.to_string()),
        })
    }

    /// Its rules; none, if it has an operator.
    pub fn rules(&self) -> &[Rule] {
        match &self.does {
            Does::Rules(rules) => rules,
            Does::Operator(_) => &[],
        }
    }

    /// `rules`, or the kind of its operator.
    pub fn kind(&self) -> &str {
        match &self.does {
            Does::Rules(_) => "rules",
            Does::Operator(OperatorSpec { operator, .. }) => &operator.kind,
        }
    }

    /// Its operator, as at its beginning, and the cheaper one, if there are such.
    pub fn operators(&self) -> Result<Option<Operators>, SpecError> {
        let Does::Operator(OperatorSpec { operator, cheaper, .. }) = &self.does else {
            return Ok(None);
        };
        let dearer = self.build("operator", operator)?;
        let Some(cheaper) = cheaper else { return Ok(Some((dearer.operator, None))) };
        let cheaper = self.build("cheaper", &cheaper.operator)?;
        if dearer.output != cheaper.output {
            let why = format!("has results that are {}, and the other one {}", cheaper.output, dearer.output);
            return Err(value("cheaper", why));
        }
        Ok(Some((dearer.operator, Some(cheaper.operator))))
    }

    fn build(&self, key: &str, text: &OperatorText) -> Result<Built, SpecError> {
        let OperatorText { kind, parameters, module, runs_within } = text;
        let inputs = [self.payload.clone()];
        let setup = Setup { inputs: &inputs, parameters };
        let built = match module {
            Some(module) => {
                let time = wasm::Clock { wall: Arc::new(host::monotonic), worked: Arc::new(host::worked) };
                let limits = wasm::Limits { budget: *runs_within, ..wasm::Limits::default() };
                wasm::operator(module, "the module", &setup, &limits, &time)
                    .map_err(|error| error.to_string())
            }
            None => BuiltIn.build(kind, &setup),
        };
        built.map_err(|why| value(key, why))
    }
}

fn operator_spec(
    table: toml::Table,
    cheaper: Option<CheaperSpec>,
    outlet: OutletSpec,
) -> Result<OperatorSpec, SpecError> {
    if outlet == OutletSpec::default() {
        return Err(value("operator", "its results go nowhere: give it `give` or `topic`, above".to_owned()));
    }
    Ok(OperatorSpec { operator: operator_text("operator", table)?, cheaper, outlet })
}

fn cheaper_spec(
    budget: Option<String>,
    cheaper: Option<toml::Table>,
) -> Result<Option<CheaperSpec>, SpecError> {
    match (budget, cheaper) {
        (None, None) => Ok(None),
        (Some(budget), Some(table)) => {
            let budget = span("budget", Some(&budget), Span::ZERO).map_err(|why| value("budget", why))?;
            if budget == Span::ZERO {
                return Err(value("budget", "is zero, and must be longer".to_owned()));
            }
            Ok(Some(CheaperSpec { budget, operator: operator_text("cheaper", table)? }))
        }
        (Some(_), None) => {
            let why = "needs [cheaper], an operator that takes less time than the one of [operator]";
            Err(value("budget", why.to_owned()))
        }
        (None, Some(_)) => {
            let why = "needs `budget`, above: how long a result may take from the arrival of its message";
            Err(value("cheaper", why.to_owned()))
        }
    }
}

fn operator_text(key: &str, mut table: toml::Table) -> Result<OperatorText, SpecError> {
    let Some(toml::Value::String(kind)) = table.remove("kind") else {
        let why = "says no `kind`: one of docs/operators.md, or wasm with `module`".to_owned();
        return Err(value(key, why));
    };
    let module = match table.remove(EMBEDDED) {
        None => None,
        Some(toml::Value::String(text)) => {
            let bytes = STANDARD.decode(text).map_err(|error| value(EMBEDDED, error.to_string()))?;
            Some(Arc::from(bytes))
        }
        Some(_) => return Err(value(EMBEDDED, "is a text".to_owned())),
    };
    if (kind == WASM) != module.is_some() {
        let why = "an operator of kind wasm has a `module`, and no other one has".to_owned();
        return Err(value(key, why));
    }
    let runs_within = match table.remove(RUNS_WITHIN) {
        Some(toml::Value::String(text)) if module.is_some() => text.parse::<Span>().ok(),
        None => Some(RUN_MAX),
        // What other operators have of this name is theirs.
        Some(other) if module.is_none() => {
            table.insert(RUNS_WITHIN.to_owned(), other);
            Some(RUN_MAX)
        }
        Some(_) => None,
    };
    let runs_within = runs_within.filter(|span| (Span(1)..=RUN_MOST).contains(span)).ok_or_else(|| {
        value(&format!("{key}.{RUNS_WITHIN}"), format!("is how long a run may take, up to {RUN_MOST}"))
    })?;
    let parameter = |(name, given): (String, toml::Value)| match parameter(&given) {
        Some(read) => Ok((name, read)),
        None => Err(value(&format!("{key}.{name}"), format!("{given} is no parameter"))),
    };
    let parameters = table.into_iter().map(parameter).collect::<Result<_, _>>()?;
    Ok(OperatorText { kind, parameters, module, runs_within })
}

/// A parameter of an operator. A text that is a time with its unit is one.
fn parameter(given: &toml::Value) -> Option<Value> {
    let number = |value: &toml::Value| match value {
        toml::Value::Integer(number) => Some(*number as f64),
        toml::Value::Float(number) => Some(*number),
        _ => None,
    };
    let numbers = |list: &toml::Value| list.as_array()?.iter().map(number).collect::<Option<Vec<f64>>>();
    match given {
        toml::Value::Integer(_) | toml::Value::Float(_) => number(given).map(Value::Number),
        toml::Value::Boolean(on) => Some(Value::Switch(*on)),
        toml::Value::String(text) => {
            let has_unit = text.ends_with(char::is_alphabetic) && !text.starts_with(char::is_alphabetic);
            let time = text.parse().ok().filter(|_| has_unit);
            Some(time.map_or_else(|| Value::Text(text.clone()), Value::Span))
        }
        toml::Value::Array(list) => {
            let texts = || list.iter().map(|text| Some(text.as_str()?.to_owned())).collect::<Option<_>>();
            let rows = || list.iter().map(numbers).collect::<Option<_>>();
            numbers(given)
                .map(Value::Numbers)
                .or_else(|| rows().map(Value::Matrix))
                .or_else(|| texts().map(Value::Texts))
        }
        _ => None,
    }
}

/// Whether conditions can look into such messages.
///
/// # Errors
///
/// Why not.
pub fn check_payload(payload: &PayloadType, rules: &RuleSet) -> Result<(), SpecError> {
    match payload {
        PayloadType::Bytes => {
            let why = "conditions look into messages: json, cbor, text, i16, i32, f32 or f64".to_owned();
            Err(value("type", why))
        }
        PayloadType::Json(path) | PayloadType::Cbor(path) if !path.is_empty() => {
            Err(value("type", "the path stands in conditions: `motor.rpm > 1`".to_owned()))
        }
        PayloadType::Text | PayloadType::Array(_) => match rules.place_beside_numbers() {
            Some(place) => {
                let why =
                    format!("numbers have `value`, `values[0]` and so on, and conditions ask for `{place}`");
                Err(value("type", why))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Where something goes, or which of its keys is wrong, and why.
fn outlet(
    give: Option<String>,
    topic: Option<String>,
    space: &Space,
) -> Result<OutletSpec, (&'static str, String)> {
    if let Some(give) = &give {
        let profile = Profile::read(space, give).map_err(|error| ("give", error.to_string()))?;
        if profile.terms().topic.is_some() {
            let why = "names a topic: say that as `topic`, and leave it out there".to_owned();
            return Err(("give", why));
        }
    }
    if let Some(topic) = &topic {
        check_name(topic).map_err(|error| ("topic", error.to_string()))?;
        if topic.starts_with('$') || topic.starts_with("rv/") {
            return Err((
                "topic",
                format!("`{topic}` is one of those that brokers and peers have for themselves"),
            ));
        }
    }
    Ok(OutletSpec { give, topic })
}

fn read_rules(rules: Vec<WrittenRule>, space: &Space) -> Result<Vec<Rule>, SpecError> {
    let rules = rules.into_iter().enumerate().map(|(index, text)| rule(index, text, space));
    let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
    let mut names = BTreeSet::new();
    match rules.iter().find(|rule| !names.insert(&rule.when.name)) {
        Some(twice) => Err(SpecError::Twice(twice.when.name.clone())),
        None => Ok(rules),
    }
}

fn rule(index: usize, text: WrittenRule, space: &Space) -> Result<Rule, SpecError> {
    let WrittenRule { name, condition, priority, every, say, give, topic, alarm, start, lasts } = text;
    let name = name.unwrap_or_else(|| (index + 1).to_string());
    let wrong = |why: String| SpecError::Rule { rule: name.escape_debug().to_string(), why };
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return Err(wrong("a name has 1 to 64 bytes, and no control characters".to_owned()));
    }
    let every = span("every", every.as_deref(), Span::ZERO).map_err(wrong)?;
    let lasts = span("for", lasts.as_deref(), STARTED_FOR).map_err(wrong)?;
    if lasts == Span::ZERO {
        return Err(wrong("`for` is zero, and must be longer".to_owned()));
    }
    let outlet = outlet(give, topic, space).map_err(|(key, why)| wrong(format!("`{key}`: {why}")))?;
    if let Some(start) = start.as_ref().filter(|start| !engine::is_function_name(start)) {
        return Err(wrong(format!(
            "no function is called `{start}`: its name has letters, digits, `-`, `_` and `.`"
        )));
    }
    if outlet == OutletSpec::default() && !alarm && start.is_none() {
        return Err(SpecError::Idle(name));
    }
    let start = start.map(|start| (start, lasts));
    Ok(Rule { when: RuleSpec { name, condition, priority, every }, say, outlet, alarm, start })
}

fn span(key: &str, text: Option<&str>, default: Span) -> Result<Span, String> {
    match text.map(str::parse::<Span>) {
        None => Ok(default),
        Some(Ok(span)) if span >= Span::ZERO && !span.is_forever() => Ok(span),
        Some(Ok(span)) => Err(format!("`{key}` is {span}, and must be a time such as 10s")),
        Some(Err(error)) => Err(format!("`{key}` is unclear: {error}")),
    }
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
        assert_eq!((spec.on.as_str(), spec.rules().len()), ("motor, temp*; deadline=100ms", 2));
        assert_eq!(spec.payload, PayloadType::Json(String::new()));
        let again = Written::read(GOOD).unwrap().to_text().unwrap();
        assert_eq!(read(&again), Ok(spec.clone()));
        assert_eq!((spec.rules()[0].when.every, spec.rules()[1].when.name.as_str()), (Span::secs(10), "2"));
    }

    const OPERATOR: &str = "on = \"motor, speed\"\ntype = \"f64\"\nruns = \"asked\"\ngive = \"motor, mean\"\n[operator]\nkind = \"average\"\nwindow = 10\n";

    #[test]
    fn an_operator_is_read_and_set_up() {
        let spec = read(OPERATOR).unwrap();
        assert!(spec.is_asked && spec.kind() == "average" && spec.rules().is_empty());
        assert!(spec.operators().unwrap().is_some());
        for (from, to, said) in [
            ("average", "averge", "there is no operator of kind `averge`"),
            ("window", "windw", "`windw` is no parameter"),
            ("window = 10", "window = 0", "`operator`: `window`"),
            ("kind = \"average\"", "", "says no `kind`"),
            ("give = \"motor, mean\"", "", "go nowhere"),
            ("asked", "sometimes", "`runs`"),
            ("runs = \"asked\"", "at = \"moon\"", "`at`: a function is at `edge`, at `core`"),
            ("motor, mean", "motor, speed", "it would take what it gives"),
            ("average", "wasm", "has a `module`"),
            ("window = 10", "window = 10\nbudget = 1", "`operator`: "),
            ("window = 10", "module_base64 = \"AA==\"", "and no other one has"),
            ("[operator]", "[operators]", "operators"),
            ("runs = \"asked\"", "budget = \"5ms\"", "`budget`: needs [cheaper]"),
            ("window = 10", "window = 10\n[cheaper]\nkind = \"average\"", "`cheaper`: needs `budget`"),
            ("f64", "bytes", "`operator`: "),
        ] {
            let why = read(&OPERATOR.replacen(from, to, 1)).unwrap_err();
            assert!(why.contains(said), "{from}: {why}");
        }
        let both = format!("{OPERATOR}\n[[rule]]\nif = \"a > 1\"\nalarm = true\n");
        assert!(read(&both).unwrap_err().contains("either rules"));
        let above = GOOD.replacen("\n[[rule]]", "topic = \"a\"\n[[rule]]", 1);
        assert!(read(&above).unwrap_err().contains("`topic`: stands in each rule"));
        let mut written =
            Written::read(&OPERATOR.replace("\"average\"", "\"wasm\"\nmodule = \"x.wasm\"")).unwrap();
        assert_eq!(written.embed(|file| Ok(file.as_bytes().to_vec())), Ok(true));
        assert!(read(&written.to_text().unwrap()).unwrap_err().contains("`operator`: "), "it is no module");
    }

    #[test]
    fn a_module_goes_with_the_text() {
        let module = wat::parse_str(
            r#"(module (memory (export "memory") 1)
                (func (export "verge_abi_version") (result i32) (i32.const 1))
                (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const 8))
                (func (export "verge_run") (param i64) (result i64) (i64.const 0x0000000800000008)))"#,
        );
        let text = OPERATOR.replace("\"average\"\nwindow = 10", "\"wasm\"\nmodule = \"x.wasm\"");
        assert!(read(&text).unwrap_err().contains("has a `module`"), "its file is not here");
        let mut written = Written::read(&text).unwrap();
        let module = module.unwrap();
        assert_eq!(written.embed(|_| Ok(module.clone())), Ok(true));
        let mut operator = read(&written.to_text().unwrap()).unwrap().operators().unwrap().unwrap().0;
        let (payload, mut output) = (2.5_f64.to_le_bytes(), Vec::new());
        let input = processing::Input { slot: 0, payload: &payload, created: contract::Time(1) };
        assert_eq!(operator.run(&[input], &mut output), Ok(processing::Answer::Result));
        assert_eq!(output, payload);
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
            ("warning, motor", "motor, temperature", "the rule `hot`: it would take what it gives"),
            ("plant/warm", "$SYS/a", "have for themselves"),
            ("\n[[rule]]\nname", "type = \"f64\"\n[[rule]]\nname", "numbers have `value`"),
            ("alarm = true", "start = \"a b\"", "no function is called `a b`"),
            ("alarm = true", "start = \"x\"\nfor = \"-1s\"", "the rule `hot`: `for`"),
            ("alarm = true", "start = \"x\"\nfor = \"0s\"", "the rule `hot`: `for` is zero"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let why = read(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(why.contains(said), "{from}: {why}");
        }
        assert!(read("on = \"motor\"").unwrap_err().contains("either rules"));
        assert!(read("").unwrap_err().contains("on"));
    }
}
