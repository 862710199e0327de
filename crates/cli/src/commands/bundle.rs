//! `verge bundle`: what somebody who helps has to see, in one file.
//!
//! It is made by the commands that a person would be asked to type, each with what it said and its exit code, so that nothing is in it which a
//! person could not have looked at before it is sent. What is secret is taken out of configuration files.

use crate::arguments::BundleArguments;
use config::main_file;
use console::{Outcome, Trouble, complain, line, yes};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long one command may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most of what a command says that is kept, its end.
const KEPT_BYTES: usize = 1 << 20;
const NAP: Duration = Duration::from_millis(20);
/// What is asked of this program.
const OWN: [&[&str]; 6] = [
    &["--version"],
    &["config", "check"],
    &["-o", "json", "config", "show"],
    &["-o", "json", "check"],
    &["-o", "json", "doctor"],
    &["-o", "json", "status", "--all"],
];
/// And of the host, where it has them.
const HOST: [(&str, &[&str]); 4] = [
    ("uname", &["-a"]),
    ("lscpu", &[]),
    ("free", &["-m"]),
    ("journalctl", &["--no-pager", "-o", "short-iso", "-n", "5000", "-u", "verge@*"]),
];

#[derive(Serialize)]
struct Bundle {
    made: String,
    files: Vec<Kept>,
    commands: Vec<Said>,
}

#[derive(Serialize)]
struct Kept {
    path: PathBuf,
    text: String,
}

#[derive(Serialize)]
struct Said {
    command: String,
    /// `None`: it was not there, or took too long.
    exit_code: Option<i32>,
    out: String,
    err: String,
}

impl Bundle {
    /// Takes out what is secret, wherever it is said.
    fn clean(&mut self) {
        let commands = self.commands.iter().map(|said| said.command.as_str());
        let cleaner = Cleaner::of(self.files.iter().map(|kept| kept.text.as_str()).chain(commands));
        for kept in &mut self.files {
            kept.text = cleaner.clean(&kept.text);
        }
        for said in &mut self.commands {
            for text in [&mut said.command, &mut said.out, &mut said.err] {
                *text = cleaner.clean(text);
            }
        }
    }
}

/// Writes the file. Only who makes it may read it.
pub fn run(config: Option<&Path>, set: &[String], arguments: &BundleArguments) -> Outcome {
    let made = jiff::Timestamp::now();
    let file = arguments
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("verge-bundle-{}.json", made.strftime("%Y%m%dT%H%M%SZ"))));
    let program = std::env::current_exe()?;
    let mut commands = Vec::new();
    for words in OWN {
        let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
        if let Some(config) = config {
            all.extend([OsString::from("--config"), config.into()]);
        }
        all.extend(set.iter().flat_map(|set| [OsString::from("--set"), set.into()]));
        commands.push(said("verge", &program, &all));
    }
    for (program, words) in HOST {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        commands.push(said(program, Path::new(program), &words));
    }
    let mut bundle = Bundle { made: made.to_string(), files: files(config), commands };
    bundle.clean();
    let text = serde_json::to_string_pretty(&bundle).map_err(|error| Trouble(error.to_string()))?;
    let unwritable = |error| Trouble(format!("cannot write {}: {error}; name another file", file.display()));
    let mut written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .map_err(unwritable)?;
    written.write_all(text.as_bytes()).map_err(unwritable)?;
    line(&file.display().to_string())?;
    complain(
        "Passwords, secrets and keys are taken out; addresses, topics and names of users and hosts are not. Read it before you send it.",
    );
    Ok(yes(true))
}

/// What a command says. What it takes longer for is cut off.
fn said(name: &str, program: &Path, words: &[OsString]) -> Said {
    let shown = words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let mut said =
        Said { command: format!("{name} {shown}"), exit_code: None, out: String::new(), err: String::new() };
    let mut child = Command::new(program);
    child.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match child.spawn() {
        Ok(child) => child,
        Err(error) => {
            said.err = error.to_string();
            return said;
        }
    };
    let (out, err) = (reading(child.stdout.take()), reading(child.stderr.take()));
    let until = Instant::now() + PATIENCE;
    said.exit_code = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.code(),
            Ok(None) if Instant::now() < until => std::thread::sleep(NAP),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    (said.out, said.err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    said
}

/// Reads to the end on a thread of its own, so that a command which says much is not held up.
fn reading(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        let kept = bytes.len().saturating_sub(KEPT_BYTES);
        String::from_utf8_lossy(&bytes[kept..]).into_owned()
    })
}

/// The files of the configuration.
fn files(config: Option<&Path>) -> Vec<Kept> {
    let Some(main) = main_file(config) else { return Vec::new() };
    let fragments = main.parent().unwrap_or(Path::new("")).join("conf.d");
    let entries = std::fs::read_dir(fragments).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    paths.sort();
    paths.insert(0, main);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| error.to_string());
        Kept { path, text }
    };
    paths.into_iter().map(read).collect()
}

/// Takes secrets out of texts as they stand, so that a configuration that is not valid is bundled too, and what is said of it.
struct Cleaner {
    /// What is secret in the files, wherever it is said again; the longest first.
    secrets: Vec<String>,
}

/// What is shorter would also be found in other words.
const SECRET_BYTES_MIN: usize = 4;
const TAKEN_OUT: &str = "(taken out)";
/// What keys with secrets are called, and comments on them speak of.
const SECRET_WORDS: [&str; 4] = ["pass", "secret", "token", "key"];

impl Cleaner {
    /// Learns what is secret in these texts.
    fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Cleaner {
        let lines = texts.flat_map(|text| secrets_in(text).into_iter().flat_map(|place| text[place].lines()));
        let mut secrets: Vec<String> = lines
            .map(|secret| secret.trim_matches(['"', '\'', ' ']).to_owned())
            .filter(|secret| secret.len() >= SECRET_BYTES_MIN)
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Cleaner { secrets }
    }

    fn clean(&self, text: &str) -> String {
        let mut cleaned = text.to_owned();
        for place in secrets_in(text).into_iter().rev() {
            cleaned.replace_range(place, &format!("\"{TAKEN_OUT}\""));
        }
        self.secrets.iter().fold(cleaned, |text, secret| text.replace(secret, TAKEN_OUT))
    }
}

/// Where a text has something secret: the values of keys that are called so, and what is said of them in comments.
fn secrets_in(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut rest = 0;
    while let Some(sign) = text[rest..].find(['=', '#']).map(|at| rest + at) {
        rest = sign + 1;
        if text.as_bytes()[sign] == b'#' {
            let comment = line_at(text, rest);
            // In the middle of a word, it is part of a filter.
            let begins = text[..sign].chars().next_back().is_none_or(char::is_whitespace);
            if begins && speaks_of_secrets(&text[comment.clone()]) {
                rest = comment.end;
                places.push(comment);
            }
            continue;
        }
        let name = text[..sign].trim_end_matches([' ', '\t', '"']);
        let name =
            name.rsplit(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').next().unwrap_or_default();
        let value = value_at(text, rest);
        rest = value.end;
        if is_secret(name, &text[value.clone()]) {
            places.push(value);
        }
    }
    places
}

/// The rest of a line.
fn line_at(text: &str, from: usize) -> Range<usize> {
    from..text[from..].find('\n').map_or(text.len(), |at| from + at)
}

/// The value behind a sign; one in three quotes goes on over lines.
fn value_at(text: &str, from: usize) -> Range<usize> {
    let begin = from + text[from..].len() - text[from..].trim_start_matches([' ', '\t']).len();
    let value = &text[begin..];
    let line = line_at(text, begin).len();
    let quotes = ["\"\"\"", "'''", "\"", "'"];
    let length = match quotes.into_iter().find(|quote| value.starts_with(quote)) {
        Some(quote) => {
            let open = &value[quote.len()..];
            let most = if quote.len() > 1 { value.len() } else { line };
            open.find(quote).map_or(most, |at| (at + 2 * quote.len()).min(most))
        }
        None => value[..line].find([',', '}', ' ', '#']).unwrap_or(line),
    };
    begin..begin + length
}

fn speaks_of_secrets(words: &str) -> bool {
    let words = words.to_lowercase();
    SECRET_WORDS.iter().any(|word| words.contains(word))
}

/// Whether a value is nobody's business, by what its key is called; also with a slip in that. A path says where something is, and that may
/// be what is wrong.
fn is_secret(name: &str, value: &str) -> bool {
    let is_key = name.to_lowercase().contains("key");
    let is_path =
        name.ends_with("_file") || is_key && ["/", ".key", ".pem"].iter().any(|part| value.contains(part));
    !value.is_empty() && !is_path && name != "keys" && speaks_of_secrets(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> String {
        Cleaner::of([text].into_iter()).clean(text)
    }

    #[test]
    fn secrets_are_taken_out_and_paths_are_not() {
        let text = "[tls]\nkey = \"security/broker.key\"\n[[operator]]\nkind = \"aes\"\nkey = \"0f0f\"\npair_secret_file = \"a/b\"\npassword = \"$argon2id$v\"\n  api_key= 'x'\nkeys = [\"plant/a\"]";
        let clean = cleaned(text);
        for kept in
            ["key = \"security/broker.key\"", "pair_secret_file = \"a/b\"", "kind = \"aes\"", "plant/a"]
        {
            assert!(clean.contains(kept), "{clean}");
        }
        for gone in ["0f0f", "argon2id", "'x'"] {
            assert!(!clean.contains(gone), "{clean}");
        }
    }

    #[test]
    fn nor_is_a_secret_told_by_slips_inline_tables_comments_or_messages() {
        let file = "keyy = \"C0FFEE01\"\noperator = [{ kind = \"aes\", key = \"C0FFEE02\" }, { name = 'n' }]\n\
                    # the password of plc is hunter2\nperiod = \"1s\" # token: t0p\npassword = bare\nsecret=\n\
                    key = \"\"\"\nC0FFEE03\nC0FFEE04\"\"\"\npassword = 'C0FFEE05/+x'\ntoken = \"C0FFEE06\nname = \"end\"";
        let cleaner = Cleaner::of([file, "--set client.password=typed"].into_iter());
        let said = "{\"filter\":\"a/#\",\"keyed\":1}\n19 | key = \"C0FFEE02\"\nverge: `hunter3` of C0FFEE01 and typed";
        let clean = cleaner.clean(&format!("{file}\n{said}"));
        for gone in ["C0FFEE", "hunter2", "t0p", "bare", "typed"] {
            assert!(!clean.contains(gone), "{gone}: {clean}");
        }
        for kept in [
            "kind = \"aes\"",
            "name = 'n'",
            "period = \"1s\"",
            "19 | key",
            "secret=",
            "\"keyed\":1",
            "name = \"end\"",
        ] {
            assert!(clean.contains(kept), "{kept}: {clean}");
        }
    }
}
