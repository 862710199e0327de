//! Conditions over what payloads say.

use super::setup::unsuitable;
use crate::memory::{FOREIGN, Put};
use crate::numbers::newest;
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::PayloadType;
use crate::rules::{RuleError, RuleSet, RuleSpec, Tuple, TupleFault, Verdict};
use contract::{Span, Time};

/// `rule`.
pub const RULE: Kind = Kind {
    name: "rule",
    doc: "Looks at each payload by conditions such as `level > 90 AND NOT pump.on`, one after another, and has a result for the first that holds. \
          What a condition asks for is a key of the document (`motor.rpm`, `axes[0].load`), or `value` and `values[1]` where the payload is \
          a number or several. See [rules](rules.md).",
    inputs: (1, 1),
    parameters: &[IF, SAY, EVERY],
    build,
};

const IF: ParameterDoc = ParameterDoc {
    name: "if",
    values: "a condition, or a list of them; required",
    doc: "when there is a result; of several, the first that holds counts",
};
const SAY: ParameterDoc = ParameterDoc {
    name: "say",
    values: "a text, or one for each condition",
    doc: "the result; left out: the payload as it came",
};
const EVERY: ParameterDoc = ParameterDoc {
    name: "every",
    values: "time, such as \"10s\"",
    doc: "a condition has no result again within so long, by the times of creation; what it holds for meanwhile has none",
};

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let input = &setup.inputs[0];
    match input {
        PayloadType::Bytes => {
            let wanted = "a document or numbers (json, cbor, text, i16, i32, f32 or f64)".to_owned();
            return Err(SetupError::Type {
                kind: RULE.name.to_owned(),
                slot: 0,
                wanted,
                given: input.to_string(),
            });
        }
        PayloadType::Json(path) | PayloadType::Cbor(path) if !path.is_empty() => {
            let wanted = "the whole document (`json` or `cbor`), since conditions say the path".to_owned();
            return Err(SetupError::Type {
                kind: RULE.name.to_owned(),
                slot: 0,
                wanted,
                given: input.to_string(),
            });
        }
        _ => {}
    }
    let conditions = setup.texts(&IF)?.ok_or_else(|| super::setup::missing(&IF))?;
    let says = setup.texts(&SAY)?;
    if let Some(says) = &says
        && says.len() != conditions.len()
    {
        let problem = format!("has {} texts, and there are {} conditions", says.len(), conditions.len());
        return Err(unsuitable(&SAY, problem));
    }
    let every = setup.span(&EVERY)?.unwrap_or(Span::ZERO);
    let spec = |condition: &String| RuleSpec {
        name: String::new(),
        condition: condition.clone(),
        priority: 0,
        every,
    };
    let specs: Vec<RuleSpec> = conditions.iter().map(spec).collect();
    let rules = RuleSet::read(&specs).map_err(|error| match error {
        RuleError::Condition { condition, reason, .. } => {
            unsuitable(&IF, format!("has `{condition}`, which cannot be taken: {reason}"))
        }
        other => SetupError::Other(other.to_string()),
    })?;
    if let (Some(place), PayloadType::Text | PayloadType::Array(_)) = (rules.place_beside_numbers(), input) {
        let problem = format!("asks for `{place}`, and numbers have `value`, `values[0]` and so on");
        return Err(unsuitable(&IF, problem));
    }
    let output = if says.is_some() { PayloadType::Bytes } else { input.clone() };
    let memory = if every > Span::ZERO { Memory::Saved } else { Memory::Nothing };
    let tuple = rules.tuple();
    let operator = Box::new(Rule { payload_type: input.clone(), rules, tuple, says });
    Ok(Built { operator, output, answers: Answers::Sometimes, memory })
}

struct Rule {
    payload_type: PayloadType,
    rules: RuleSet,
    tuple: Tuple,
    says: Option<Vec<String>>,
}

impl Operator for Rule {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let [input] = inputs else { return Err(Fault::Failed("a run needs one input")) };
        self.tuple.read(&self.payload_type, input.payload).map_err(|fault| match fault {
            TupleFault::Malformed(reason) => Fault::Malformed { slot: input.slot, reason },
            TupleFault::TooShort { bytes, needed } => Fault::TooShort { slot: input.slot, bytes, needed },
        })?;
        let Verdict::Fires(index) = self.rules.judge(newest(inputs), &self.tuple) else {
            return Ok(Answer::Nothing);
        };
        match &self.says {
            Some(says) => output.extend_from_slice(says.get(index).map_or(&[], |text| text.as_bytes())),
            None => output.extend_from_slice(input.payload),
        }
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        self.rules.quiet().iter().for_each(|until| memory.put_u64(until.0));
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let (times, rest) = memory.as_chunks::<8>();
        let quiet: Vec<Time> = times.iter().map(|time| Time(u64::from_le_bytes(*time))).collect();
        if !rest.is_empty() || quiet.len() != self.rules.quiet().len() {
            return Err(FOREIGN);
        }
        self.rules.set_quiet(&quiet);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, text};
    use crate::operator::Value;
    use contract::{Span, Time};

    fn texts(texts: &[&str]) -> Value {
        Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn the_first_that_holds_has_its_say() {
        let parameters =
            [("if", texts(&["level > 90", "level > 80"])), ("say", texts(&["overflow", "high"]))];
        let mut one = OneOperator::new("rule", &["json"], &parameters);
        let mut says = |document: &str| {
            one.run(document.as_bytes()).unwrap().map(|said| String::from_utf8(said).unwrap())
        };
        assert_eq!(says(r#"{"level": 95}"#).as_deref(), Some("overflow"));
        assert_eq!(says(r#"{"level": 85}"#).as_deref(), Some("high"));
        assert_eq!(says(r#"{"level": 80}"#), None);
        assert_eq!(says(r#"{"height": 99}"#), None);
        assert!(one.run(b"{").is_err());
    }

    #[test]
    fn without_a_say_it_passes_on_what_holds() {
        let mut one = OneOperator::new("rule", &["f64"], &[("if", text("value > 2"))]);
        assert_eq!(one.numbers(&3_f64.to_le_bytes()), Ok(Some(vec![3.0])));
        assert_eq!(one.numbers(&2_f64.to_le_bytes()), Ok(None));
        assert!(one.run(&[1]).is_err());
    }

    #[test]
    fn what_has_had_its_say_is_quiet_for_a_while_also_after_a_failover() {
        let parameters = [("if", text("value > 2")), ("every", Value::Span(Span(100)))];
        let mut one = OneOperator::new("rule", &["text"], &parameters);
        for (now, expected) in [(1_000, true), (1_099, false), (1_100, true)] {
            one.now = Time(now);
            assert_eq!(one.run(b"3").unwrap().is_some(), expected, "{now}");
        }
        let mut other = OneOperator::new("rule", &["text"], &parameters);
        other.take_over(&mut one);
        other.now = Time(1_199);
        assert_eq!(other.run(b"3"), Ok(None));
        other.now = Time(1_200);
        assert!(other.run(b"3").unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let refused =
            |input: &str, parameters: &[(&str, Value)]| OneOperator::refused("rule", &[input], parameters);
        assert!(refused("json", &[]).starts_with("`if` is missing"));
        assert!(refused("json", &[("if", text("a >"))]).contains("at letter 4"));
        assert!(refused("json", &[("if", texts(&[]))]).contains("1 to 256"));
        assert!(refused("json", &[("if", text("a > 1")), ("say", texts(&["x", "y"]))]).contains("2 texts"));
        assert!(refused("f64", &[("if", text("level > 1"))]).contains("numbers have `value`"));
        assert!(refused("bytes", &[("if", text("a > 1"))]).contains("a document or numbers"));
        assert!(refused("json:a", &[("if", text("a > 1"))]).contains("the whole document"));
        assert!(refused("json", &[("if", Value::Number(1.0))]).contains("must be"));
    }
}
