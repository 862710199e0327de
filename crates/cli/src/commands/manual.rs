//! What shells and manual readers know of the commands: made from what may be typed.

use crate::arguments::Arguments;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use console::{Outcome, Trouble, line, yes};
use std::path::Path;

/// Prints what completes commands in a shell.
pub fn completion(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "verge", &mut script);
    line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(yes(true))
}

/// `help` as a command has nothing to say that pages do not.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Writes a page for each command.
pub fn pages(folder: &Path) -> Outcome {
    let failed = |error| Trouble(format!("cannot write manual pages into {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut command = without_help(Arguments::command());
    command.build();
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    line(&format!("manual pages are in {}: `man {}/verge.1`", folder.display(), folder.display()))?;
    Ok(yes(true))
}
