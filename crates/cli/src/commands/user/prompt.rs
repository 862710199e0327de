//! Asking for a password at the terminal, without showing it.

use console::Trouble;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};

/// Asks twice, so that a slip of the finger is noticed.
pub fn twice() -> Result<String, Trouble> {
    let open = File::options().read(true).write(true).open("/dev/tty");
    let terminal = open.map_err(|_| {
        Trouble(
            "there is no terminal to ask for the password: give it with --password-file or --password-stdin"
                .to_owned(),
        )
    })?;
    let quiet = Quiet::new(&terminal)?;
    let mut answers = BufReader::new(&terminal);
    let first = ask(&terminal, &mut answers, "Password: ")?;
    let second = ask(&terminal, &mut answers, "The same again: ")?;
    drop(quiet);
    if first != second {
        return Err(Trouble("the two passwords differ; nothing was changed".to_owned()));
    }
    Ok(first)
}

fn ask(mut terminal: &File, answers: &mut impl BufRead, question: &str) -> Result<String, Trouble> {
    terminal.write_all(question.as_bytes())?;
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    terminal.write_all(b"\n")?;
    Ok(answer.trim_end_matches(['\n', '\r']).to_owned())
}

/// A terminal that does not show what is typed. It does again when this is dropped.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl Quiet<'_> {
    fn new(terminal: &File) -> Result<Quiet<'_>, Trouble> {
        let failed = |error| Trouble(format!("cannot hide what is typed: {error}"));
        let before = tcgetattr(terminal).map_err(failed)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &hidden).map_err(failed)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // There is nothing left to do if the terminal is gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}
