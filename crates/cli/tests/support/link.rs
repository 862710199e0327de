//! A real link that carries little: a network namespace, and token buckets on the way to it and back.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A namespace with a link to this side, both gone at the end.
pub struct Link {
    /// What the namespace is called, and the device on this side.
    pub name: String,
    /// The address on this side.
    pub near: String,
    /// The address there.
    pub far: String,
}

impl Link {
    /// One that carries so much in both directions, and keeps what it cannot send for so long. Nothing if this process may not make one.
    pub fn new(rate: &str, keeps: &str) -> Option<Link> {
        // Tests of one process may run at once.
        let number = (std::process::id() + COUNT.fetch_add(8_192, Ordering::Relaxed)) % 16_384;
        let (high, low) = (number / 64, number % 64 * 4);
        let link = Link {
            name: format!("vslow{number}"),
            near: format!("10.231.{high}.{}", low + 1),
            far: format!("10.231.{high}.{}", low + 2),
        };
        let Link { name, near, far } = &link;
        let made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {name} type veth peer name far netns {name}"))
            && ip(&format!("addr add {near}/30 dev {name}"))
            && ip(&format!("link set {name} up"))
            && ip(&format!("-n {name} addr add {far}/30 dev far"))
            && ip(&format!("-n {name} link set far up"))
            && ip(&format!("-n {name} link set lo up"))
            && run("tc", &format!("qdisc add dev {name} root tbf rate {rate} burst 4kb latency {keeps}"))
            && run(
                "tc",
                &format!("-n {name} qdisc add dev far root tbf rate {rate} burst 4kb latency {keeps}"),
            );
        if !made {
            eprintln!("SKIPPED: a link of {rate} needs root, `ip` and `tc`");
        }
        made.then_some(link)
    }

    /// Bytes that have gone to the other side, with what the link itself adds to them.
    pub fn carried(&self) -> u64 {
        let path = format!("/sys/class/net/{}/statistics/tx_bytes", self.name);
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

impl Link {
    /// Runs this on a thread that is there, with all threads that it starts.
    pub fn on_the_far_side<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.name);
        std::thread::spawn(move || {
            let space = std::fs::File::open(path).unwrap();
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            run()
        })
    }

    /// A command that runs there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = ip(&format!("link del {}", self.name));
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn ip(arguments: &str) -> bool {
    run("ip", arguments)
}

fn run(program: &str, arguments: &str) -> bool {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
