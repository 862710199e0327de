//! What is wrong with a configuration: everything at once, each with its place and a remedy.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

/// Where a value came from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// A file: its number among those read, and the place in it.
    File(usize, Range<usize>),
    /// An environment variable.
    Environment(String),
    /// `--set` on the command line.
    Flag(String),
}

/// What the files are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Brokers, links and contracts.
    Configuration,
    /// What goes wrong in a simulation.
    Scenario,
    /// Who may do what.
    Users,
}

impl Subject {
    fn flag(self) -> &'static str {
        match self {
            Subject::Configuration => "--config",
            Subject::Scenario => "--scenario",
            Subject::Users => "--file or the key security.users",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Subject::Configuration => "configuration",
            Subject::Scenario => "scenario",
            Subject::Users => "user file",
        })
    }
}

/// A file that was read.
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

impl File {
    /// Line and column of a place, counted from one.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at.min(self.text.len())).unwrap_or(&self.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// Where the value was given.
    pub source: Source,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl Problem {
    /// A place in a file that breaks the syntax.
    pub fn not_toml(file: usize, error: &toml::de::Error) -> Problem {
        Problem {
            source: Source::File(file, error.span().unwrap_or(0..0)),
            message: format!("this is not TOML: {}", error.message()),
            remedy: "mend the syntax here".to_owned(),
        }
    }
}

/// Everything that is wrong.
pub struct Problems {
    /// What the problems are of.
    pub subject: Subject,
    /// The files that were read.
    pub files: Vec<File>,
    /// The problems.
    pub list: Vec<Problem>,
}

impl Problems {
    /// A file that could not be read at all.
    pub fn unreadable(subject: Subject, path: &Path, error: &std::io::Error) -> Problems {
        let message = format!("cannot read {}: {error}", path.display());
        let remedy = format!("give the path of an existing file with {}", subject.flag());
        Problems {
            subject,
            files: Vec::new(),
            list: vec![Problem { source: Source::Default, message, remedy }],
        }
    }

    /// A file that holds something else than text. It is shown up to there.
    pub fn not_text(subject: Subject, path: &Path, error: &FromUtf8Error) -> Problems {
        let valid = error.utf8_error().valid_up_to();
        let (text, _) = error.as_bytes().split_at(valid);
        let mut text = String::from_utf8_lossy(text).into_owned();
        text.push(char::REPLACEMENT_CHARACTER);
        let message = format!("the byte {:#04x} here is not UTF-8", error.as_bytes()[valid]);
        let remedy = "save the file as UTF-8".to_owned();
        let source = Source::File(0, valid..text.len());
        Problems {
            subject,
            files: vec![File { path: path.to_path_buf(), text }],
            list: vec![Problem { source, message, remedy }],
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            match &problem.source {
                Source::File(index, span) if *index < self.files.len() => {
                    let file = &self.files[*index];
                    let path = file.path.display().to_string();
                    let end = span.end.min(file.text.len());
                    let span = span.start.min(end)..end;
                    let snippet = Snippet::source(&file.text)
                        .path(path)
                        .annotation(AnnotationKind::Primary.span(span).label(&problem.remedy));
                    let report = &[Level::ERROR.primary_title(&problem.message).element(snippet)];
                    writeln!(f, "{}\n", Renderer::plain().render(report))?;
                }
                Source::Environment(name) => {
                    writeln!(
                        f,
                        "error: {}\n  --> environment variable {name}\n   = {}\n",
                        problem.message, problem.remedy
                    )?;
                }
                Source::Flag(flag) => {
                    writeln!(f, "error: {}\n  --> --set {flag}\n   = {}\n", problem.message, problem.remedy)?;
                }
                _ => writeln!(f, "error: {}\n   = {}\n", problem.message, problem.remedy)?,
            }
        }
        let count = self.list.len();
        write!(f, "{count} problem{} in the {}", if count == 1 { "" } else { "s" }, self.subject)
    }
}
