//! Apache ZooKeeper, run by Java from its jars.

use crate::crash::{Folder, PATIENCE};
use console::Trouble;
use std::fs::File;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// A server, which ends when this is dropped, or when this process dies.
pub struct Service {
    shell: Child,
    /// While this is open the server is kept.
    input: Option<ChildStdin>,
}

impl Service {
    /// Starts one that listens at this address, and waits until it does.
    pub fn start(folder: &Folder, jars: &Path, address: &str, port: u16) -> Result<Service, Trouble> {
        look_for(jars)?;
        let (data, settings) = (folder.file("service"), folder.file("zoo.cfg"));
        std::fs::create_dir_all(&data)?;
        let text = format!(
            "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress={address}\nadmin.enableServer=false\nmaxClientCnxns=0\n",
            data.display()
        );
        std::fs::write(&settings, text)?;
        let log = File::create(folder.file("service.log"))?;
        // Java does not end with whoever started it.
        let script =
            "trap '' INT; \"$@\" </dev/null & child=$!; cat >/dev/null; kill -KILL $child 2>/dev/null";
        let mut shell = Command::new("sh")
            .args([
                "-c",
                script,
                "sh",
                "java",
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-Dzookeeper.forceSync=no",
                "-cp",
            ])
            .arg(format!("{}/*", jars.display()))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(settings)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let service = Service { input: shell.stdin.take(), shell };
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect((address, port)).is_err() {
            if Instant::now() > until {
                return Err(Trouble("ZooKeeper does not listen".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(service)
    }
}

/// Whether it can be run at all.
fn look_for(jars: &Path) -> Result<(), Trouble> {
    let is_jar = |name: &str| name.starts_with("zookeeper") && name.ends_with(".jar");
    let files = std::fs::read_dir(jars).map_err(|error| Trouble(format!("{}: {error}", jars.display())))?;
    if !files.flatten().any(|file| file.file_name().to_str().is_some_and(is_jar)) {
        return Err(Trouble(format!("{}: there are no jars of ZooKeeper", jars.display())));
    }
    let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match java {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Trouble(
            "ZooKeeper needs a program `java`; without --zookeeper sites have a list of the routers"
                .to_owned(),
        )),
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.shell.wait();
    }
}
