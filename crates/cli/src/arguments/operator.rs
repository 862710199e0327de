//! What may be typed after `verge operator`.

use clap::{Args, Subcommand};
use contract::Span;
use processing::{PayloadType, Value};
use std::path::PathBuf;

const EXAMPLES: &str = "\
The table is a CSV file: a column for each input, a line for each run, the names of the inputs in the first line. A cell holds
a number, or several as in 1;2;3; where it is empty, that input is absent. Cells of json and bytes are taken as they are.

Examples:
  verge operator test spread.wasm --input sample.csv --parameter above=1.5
  verge operator test my.wasm --input sample.csv --type i16 --output json --budget 200us --format json

Exit codes: 0 every run went well, 1 a run had a fault, 2 the module or the table is not usable.";

#[derive(Subcommand, Debug)]
pub enum OperatorCommand {
    /// List the kinds of operators that come with the program, and their parameters.
    List,
    /// Run a WebAssembly module over a table, once for each line, under its limits.
    #[command(after_help = EXAMPLES)]
    Test(TestArguments),
}

#[derive(Args, Debug)]
pub struct TestArguments {
    /// The module: a `.wasm` file.
    pub module: PathBuf,
    /// The table: CSV.
    #[arg(long, short = 'i', value_name = "FILE")]
    pub input: PathBuf,
    /// What the inputs are: bytes, i16, i32, f32, f64, text or json; once for all of them, or once for each.
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = "f64", value_delimiter = ',')]
    pub types: Vec<PayloadType>,
    /// What the results are [default: what the first input is].
    #[arg(long, value_name = "TYPE")]
    pub output: Option<PayloadType>,
    /// A parameter of the module.
    #[arg(long, short = 'P', value_name = "NAME=VALUE", value_parser = parse_parameter)]
    pub parameter: Vec<(String, Value)>,
    /// How long a run may take.
    #[arg(long, value_name = "SPAN", default_value = "1ms")]
    pub budget: Span,
    /// What the slowest code burns in a microsecond, in fuel: how often the clock is asked.
    #[arg(long, value_name = "N", default_value_t = wasm::FUEL_PER_MICRO)]
    pub fuel: u64,
    /// How much memory it may have.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub memory: u32,
    /// The time between two lines, as the module sees it.
    #[arg(long, value_name = "SPAN", default_value = "100ms")]
    pub every: Span,
}

fn parse_parameter(text: &str) -> Result<(String, Value), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err("write NAME=VALUE, as in gain=2.5".to_owned());
    };
    let parsed = match value {
        "true" => Value::Switch(true),
        "false" => Value::Switch(false),
        _ => match (value.parse(), value.parse()) {
            (Ok(number), _) => Value::Number(number),
            (_, Ok(span)) => Value::Span(span),
            _ => Value::Text(value.to_owned()),
        },
    };
    Ok((name.to_owned(), parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers_switches_times_or_words() {
        for (text, value) in [
            ("a=2.5", Value::Number(2.5)),
            ("a=-3", Value::Number(-3.0)),
            ("a=true", Value::Switch(true)),
            ("a=5ms", Value::Span(Span::millis(5))),
            ("a=b=c", Value::Text("b=c".to_owned())),
        ] {
            assert_eq!(parse_parameter(text), Ok(("a".to_owned(), value)), "{text}");
        }
        assert!(parse_parameter("gain").is_err());
    }
}
