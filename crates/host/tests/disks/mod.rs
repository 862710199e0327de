//! Folders, small disks, and processes that are killed while they write.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, and not every test uses everything")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// A folder that goes with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, SeqCst);
        let folder = std::env::temp_dir().join(format!("verge-host-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }

    /// A folder in it that is not there, nor what it stands in.
    pub fn deep(&self) -> PathBuf {
        self.0.join("deep/folder")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where a process of a test works.
const FOLDER: &str = "VERGE_TEST_FOLDER";

/// A process of its own that runs one of the test's ignored tests, and what it says.
pub fn child(task: &str, folder: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", task, "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// Where this process is to work.
pub fn folder_of_child() -> PathBuf {
    std::env::var_os(FOLDER).expect("only as a process of another test").into()
}

/// Runs a task until it has said `word` and a number so often, and kills it a moment after that, somewhere in what it does next. Returns the
/// number that it said last.
pub fn killed(task: &str, folder: &Path, word: &str, enough: u64, moment: Duration) -> u64 {
    let (mut child, lines) = child(task, folder);
    let (mut said, mut seen) = (0, 0);
    for line in lines.lines() {
        if let Some(number) = line.unwrap().strip_prefix(word) {
            (said, seen) = (number.trim().parse().unwrap(), seen + 1);
        }
        if seen == enough {
            std::thread::sleep(moment);
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= enough, "it said {word} {seen} times");
    said
}

/// A small disk of its own. Nothing where the test may not mount.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    pub fn mount(at: PathBuf, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(&at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }

    pub fn resize(&self, size: &str) {
        let resized =
            Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0).status();
        assert!(resized.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What is poisoned stays open for as long as this process lives.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
