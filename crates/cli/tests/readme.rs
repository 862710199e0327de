//! The README as it stands: its commands are run, in their order, on a host that has nothing but the program; those of other pages are at
//! least such as can be typed.
//!
//! A block that is indented by four spaces is a file if it begins with a table or names one (`# verge.toml`), and commands otherwise. They are
//! run in a network of their own, so that ports and addresses are free.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::Folder;

/// Commands that go on until they are stopped.
const UNENDING: [&str; 4] = ["verge broker", "verge replay", "verge status --watch", "verge sub"];
/// What is not run here: it is run by others, or sets up what the test has already.
const ELSEWHERE: [&str; 2] = ["make ", "cargo "];
/// Commands that may say no (1): what they look at is this host.
const MAY_SAY_NO: [&str; 1] = ["verge doctor"];
/// Programs that need not be there.
const OTHERS: [&str; 1] = ["mosquitto_pub"];
/// The addresses of two hosts, which are this one's here.
const HOSTS: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

enum Block {
    /// What is to be written to `verge.toml`, and whether that begins there.
    File {
        text: String,
        begins: bool,
    },
    Commands(Vec<String>),
}

/// The blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    let (mut before, mut inside) = ("", false);
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(code) if inside || before.is_empty() => {
                if !inside {
                    found.push(Vec::new());
                }
                inside = true;
                found.last_mut().unwrap().push(code);
            }
            _ => inside = false,
        }
        before = line.trim();
    }
    let block = |lines: Vec<&str>| {
        let begins = lines[0] == "# verge.toml";
        match begins || lines[0].starts_with('[') {
            true => Block::File { text: lines.join("\n") + "\n", begins },
            false => Block::Commands(lines.iter().map(|line| without_comment(line)).collect()),
        }
    };
    found.into_iter().map(block).collect()
}

fn without_comment(line: &str) -> String {
    line.split("  #").next().unwrap().trim().to_owned()
}

/// The page as a script that says `no: …` for every command that did not do what it should.
fn script(page: &str) -> String {
    let mut script = "ip link set lo up\n".to_owned();
    for host in HOSTS {
        writeln!(script, "ip address add {host}/32 dev lo").unwrap();
    }
    script += "begun=()\nend() { for one in \"${begun[@]}\"; do kill $one; wait $one; done 2>/dev/null; begun=(); }\n";
    for block in blocks(page) {
        match block {
            Block::File { text, begins } => {
                // Another deployment begins: what ran before ends.
                let (how, before) = if begins { (">", "end\n") } else { (">>", "") };
                writeln!(script, "{before}cat {how} verge.toml <<'END'\n{text}END").unwrap();
            }
            Block::Commands(commands) => commands.iter().for_each(|command| script += &one(command)),
        }
    }
    script + "end\n"
}

fn one(command: &str) -> String {
    let is = |list: &[&str]| list.iter().any(|begin| command.starts_with(begin));
    if is(&ELSEWHERE) {
        return String::new();
    }
    let no = format!("echo \"no: {command}\"");
    if is(&UNENDING) {
        let up = if command.starts_with("verge broker") {
            "until verge status >/dev/null 2>&1 || [ $? = 1 ]"
        } else {
            "until [ -s log ]"
        };
        return format!(
            "{command} > log 2>&1 & begun+=($!)\n\
             for try in $(seq 100); do sleep 0.1; {}; done\n\
             kill -0 ${{begun[-1]}} || {{ {no}; cat log; }}\n",
            up.replace("until ", "") + " && break"
        );
    }
    let there = match OTHERS.iter().find(|program| command.starts_with(**program)) {
        Some(program) => format!("command -v {program} >/dev/null && "),
        None => String::new(),
    };
    let most = u8::from(is(&MAY_SAY_NO));
    format!("{there}{{ {command} > out 2>&1; [ $? -le {most} ] || {{ {no}; cat out; }}; }}\n")
}

#[test]
fn what_the_readme_says_can_be_done_can_be() {
    let able = Command::new("unshare").args(["-rn", "true"]).status().is_ok_and(|status| status.success());
    if !able {
        println!("SKIPPED: this host gives no network namespaces");
        return;
    }
    let folder = Folder::new();
    std::os::unix::fs::symlink(repository().join("examples"), folder.path("examples")).unwrap();
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    folder.write("run.sh", script(&page));
    let program = Path::new(env!("CARGO_BIN_EXE_verge")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let cache = folder.path("cache");
    let ran = Command::new("timeout")
        .args(["300", "unshare", "-rn", "bash", "run.sh"])
        .current_dir(folder.path(""))
        .env("PATH", path)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(!out.contains("no: ") && ran.status.code() == Some(0), "{out}\n{err}");
}

#[test]
fn the_readme_has_blocks_of_all_kinds() {
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let script = script(&page);
    for part in [
        "verge broker a >",
        "verge sim verge.toml",
        "verge security init",
        "cat > verge.toml",
        "cat >> verge.toml",
    ] {
        assert!(script.contains(part), "{part} in\n{script}");
    }
}
