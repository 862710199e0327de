//! `verge operator`: the kinds that there are, and trying a module of one's own.

mod list;
mod table;
mod test;

use crate::arguments::Format;
use crate::arguments::operator::OperatorCommand;
use console::Outcome;

/// Runs one of the sub-commands.
pub fn run(command: &OperatorCommand, format: Format) -> Outcome {
    match command {
        OperatorCommand::List => list::run(format),
        OperatorCommand::Test(arguments) => test::run(arguments, format),
    }
}
