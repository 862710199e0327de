//! `verge bundle`: what somebody who helps has to see, in one file.
//!
//! It is made by the commands that a person would be asked to type, each with what it said and its exit code, so that nothing is in it which a
//! person could not have looked at before it is sent. What is secret is taken out of configuration files.

use crate::arguments::BundleArguments;
use crate::config::main_file;
use crate::output::{Outcome, Trouble, complain, line, yes};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Read, Write};
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
/// Keys whose values are nobody's business, where they are no paths.
const SECRETS: [&str; 3] = ["password", "secret", "key"];

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

/// Writes the file.
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
    let bundle = Bundle { made: made.to_string(), files: files(config), commands };
    let text = serde_json::to_string_pretty(&bundle).map_err(|error| Trouble(error.to_string()))?;
    let unwritable = |error| Trouble(format!("cannot write {}: {error}; name another file", file.display()));
    let mut written =
        std::fs::OpenOptions::new().write(true).create_new(true).open(&file).map_err(unwritable)?;
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

/// The files of the configuration, without what is secret.
fn files(config: Option<&Path>) -> Vec<Kept> {
    let Some(main) = main_file(config) else { return Vec::new() };
    let fragments = main.parent().unwrap_or(Path::new("")).join("conf.d");
    let entries = std::fs::read_dir(fragments).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    paths.sort();
    paths.insert(0, main);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path)
            .map_or_else(|error| error.to_string(), |text| without_secrets(&text));
        Kept { path, text }
    };
    paths.into_iter().map(read).collect()
}

/// A configuration whose secrets are taken out, line by line, so that one that is not valid is bundled too.
fn without_secrets(text: &str) -> String {
    let clean = |line: &str| {
        let Some((key, value)) = line.split_once('=') else { return line.to_owned() };
        let name = key.trim().trim_matches('"').rsplit(['.', ' ']).next().unwrap_or_default();
        let is_secret = SECRETS.iter().any(|secret| name == *secret || name.ends_with(&format!("_{secret}")));
        // A path says where it is, and that may be what is wrong.
        let is_path = value.contains('/') || value.contains(".key") || value.contains(".pem");
        if is_secret && !is_path { format!("{key}= \"(taken out)\"") } else { line.to_owned() }
    };
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_paths_are_not() {
        let text = "[tls]\nkey = \"security/broker.key\"\n[[operator]]\nkind = \"aes\"\nkey = \"0f0f\"\npair_secret_file = \"a/b\"\npassword = \"$argon2id$v\"\n  api_key= 'x'";
        let clean = without_secrets(text);
        for kept in ["key = \"security/broker.key\"", "pair_secret_file = \"a/b\"", "kind = \"aes\""] {
            assert!(clean.contains(kept), "{clean}");
        }
        for gone in ["0f0f", "argon2id", "'x'"] {
            assert!(!clean.contains(gone), "{clean}");
        }
    }
}
