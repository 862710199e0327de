//! The demos' processes, this program again in other roles, and the folder with what they say.

use console::Trouble;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that is killed, by its number, when it is no longer needed.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Process {
    /// Starts this program with other arguments; what it says goes to a file.
    pub fn start(arguments: &[String], log: &Path) -> Result<Process, Trouble> {
        let program = std::env::current_exe()?;
        let stderr = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Ok(Process { child, input, output, log: log.to_path_buf() })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line.
    pub fn wait_for(&mut self, expected: &str) -> Result<(), Trouble> {
        let mut line = String::new();
        if let Some(output) = &mut self.output {
            output.read_line(&mut line)?;
        }
        if line.trim() == expected { Ok(()) } else { Err(self.failed("did not begin")) }
    }

    /// Closes its input, which asks it to end, and reads what it has to report.
    pub fn finish<T: DeserializeOwned>(mut self) -> Result<T, Trouble> {
        self.input = None;
        let mut text = String::new();
        if let Some(output) = &mut self.output {
            output.read_to_string(&mut text)?;
        }
        serde_json::from_str(&text).map_err(|_| self.failed("did not report"))
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<(), Trouble> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends a signal. A process that has ended does not need it.
    pub fn signal(&self, signal: Signal) {
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, signal);
        }
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(&mut self, within: Duration) -> Result<bool, Trouble> {
        self.signal(Signal::TERM);
        let until = Instant::now() + within;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }

    /// Processor time used so far, user and system.
    pub fn processor_time(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    fn failed(&self, what: &str) -> Trouble {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        let said = last.into_iter().rev().collect::<Vec<_>>().join("\n  ");
        Trouble(format!("a process of the demo {what}; it said:\n  {said}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for logs and the configuration, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Folder, Trouble> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The trouble, and what these logs last say.
    pub fn explain(&self, trouble: &Trouble, logs: &[&str]) -> Trouble {
        const LINES: usize = 12;
        let mut text = trouble.0.clone();
        for name in logs {
            let log = std::fs::read_to_string(self.file(name)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            if lines.is_empty() {
                continue;
            }
            let last = &lines[lines.len().saturating_sub(LINES)..];
            let _ = write!(text, "\n\n{name}:\n{}", last.join("\n"));
        }
        Trouble(text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
