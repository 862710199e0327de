//! What an operator's parameters mean for a module: a few are the host's, the others are numbers that it is handed.

use crate::abi::{SET, SET_SIGNATURE, check_function, remembers, shown};
use crate::engine::Ports;
use crate::error::Problem;
use processing::{Answers, Memory, ParameterDoc, Parameters, PayloadType, Value};

/// The parameters that are the host's. All others are the module's own.
pub const OWN_PARAMETERS: &[ParameterDoc] = &[
    ParameterDoc {
        name: "module",
        values: "a path",
        doc: "the module's file, which whoever sets the operator up has read",
    },
    ParameterDoc {
        name: "output",
        values: "bytes, i16, i32, f32, f64, json:path or cbor:path; default bytes",
        doc: "what the results are",
    },
    ParameterDoc {
        name: "answers",
        values: "`always` or `sometimes`; default sometimes",
        doc: "whether there is a result for every run",
    },
    ParameterDoc {
        name: "remembers",
        values: "`nothing` or `something`; default something",
        doc: "whether a result depends on what came before its inputs; where it does, the module must export `verge_save` and \
              `verge_restore`, or a failover takes that away",
    },
];

/// What was configured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Chosen {
    pub output: PayloadType,
    pub answers: Answers,
    pub memory: Memory,
    /// The module's own: the export that takes each, and its value.
    pub numbers: Vec<(String, f64)>,
}

/// Reads the parameters, and holds them against what the module exports.
pub(crate) fn choose(parameters: &Parameters, ports: &Ports) -> Result<Chosen, Problem> {
    let memory = if remembers(ports)? { Memory::Saved } else { Memory::Lost };
    let answers = Answers::Sometimes;
    let mut chosen = Chosen { output: PayloadType::default(), answers, memory, numbers: Vec::new() };
    for (name, value) in parameters {
        match (name.as_str(), value) {
            ("module", _) => {}
            ("output", Value::Text(text)) => chosen.output = text.parse().map_err(Problem::Output)?,
            ("answers", Value::Text(text)) if text == "always" => chosen.answers = Answers::Always,
            ("answers", Value::Text(text)) if text == "sometimes" => chosen.answers = Answers::Sometimes,
            ("remembers", Value::Text(text)) if text == "nothing" => chosen.memory = Memory::Nothing,
            ("remembers", Value::Text(text)) if text == "something" => {}
            ("remembers", _) => return Err(refused(name, "it must be \"nothing\" or \"something\"")),
            ("output", _) => return Err(refused(name, "it must be a type, as in \"f64\"")),
            ("answers", _) => return Err(refused(name, "it must be \"always\" or \"sometimes\"")),
            _ => chosen.numbers.push((setter(name, ports)?, number(name, value)?)),
        }
    }
    Ok(chosen)
}

fn setter(name: &str, ports: &Ports) -> Result<String, Problem> {
    let setter = format!("{SET}{name}");
    match check_function(ports, &setter, SET_SIGNATURE) {
        Err(Problem::Missing { .. }) => {
            let names = ports.exports.iter().filter_map(|export| export.name.strip_prefix(SET));
            let mut known: Vec<String> = names.take(KNOWN_MAX).map(shown).collect();
            known.sort();
            Err(Problem::UnknownParameter { name: shown(name), known })
        }
        checked => checked.map(|()| setter),
    }
}

fn number(name: &str, value: &Value) -> Result<f64, Problem> {
    match value {
        Value::Number(number) => Ok(*number),
        Value::Switch(on) => Ok(f64::from(u8::from(*on))),
        Value::Span(span) => Ok(span.0 as f64),
        Value::Text(_) | Value::Numbers(_) | Value::Matrix(_) | Value::Texts(_) => {
            Err(refused(name, "a module takes numbers, switches (0 or 1) and times (in nanoseconds)"))
        }
    }
}

fn refused(name: &str, doc: &'static str) -> Problem {
    Problem::Parameter { name: shown(name), doc }
}

/// How many parameters of a module an error lists.
const KNOWN_MAX: usize = 20;
