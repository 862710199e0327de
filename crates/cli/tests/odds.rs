//! What a host does to brokers and clients besides failing: few descriptors, signals, a log that nobody reads, processes that stand
//! still, listeners at all addresses. Real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use support::{Pair, Process, Site, WATCHDOG, free_ports, program, wait_for, wait_until};
use verge::{Client, Contract, Span};

/// So that brokers with few descriptors need no more of them than others.
const DESCRIPTORS: u32 = 64;
/// Clients and strangers that come to each broker.
const CROWD: usize = 200;
const SERVED: usize = 40;

/// A pair that shows itself over HTTP.
fn shown_site(http: [u16; 2], more: &str) -> Site {
    let site = Site::new(more);
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    let [a, b] = http.map(|port| format!("http = \"127.0.0.1:{port}\"\n"));
    site.folder.write("conf.d/http.toml", format!("[brokers.a]\n{a}[brokers.b]\n{b}"));
    site
}

/// Starts a broker that may have so few descriptors.
fn start_with_few(site: &Site, index: usize) -> Process {
    let name = ["a", "b"][index];
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\""));
    let broker = program(["broker", name]);
    command.arg(broker.get_program()).args(broker.get_args()).arg("--config").arg(&site.config);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Process::start(&mut command, site.folder.path(&format!("{name}.log")))
}

/// The code and the body of an answer. `None` where the connection is closed without one.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Whether a broker's metrics have this line.
fn shows(port: u16, line: &str) -> bool {
    get(port, "/metrics").is_some_and(|(code, page)| code == 200 && page.lines().any(|other| other == line))
}

fn is_protected(http: [u16; 2]) -> bool {
    http.iter().all(|port| shows(*port, "verge_protected 1"))
}

/// Clients that want to be served by both brokers, and strangers that keep their listeners busy: whoever is closed comes again.
struct Crowd {
    _clients: Vec<Client>,
    ended: Arc<AtomicBool>,
    strangers: Option<JoinHandle<()>>,
}

impl Crowd {
    fn gather(site: &Site) -> Crowd {
        let addresses = site.addresses();
        let one = |_| Client::builder().patience(Duration::from_millis(1)).start(&addresses).unwrap();
        let clients: Vec<Client> = (0..SERVED).map(one).collect();
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, ports) = (Arc::clone(&ended), [site.ports[0], site.ports[2]]);
        let strangers = std::thread::spawn(move || {
            let mut places: Vec<Option<TcpStream>> = Vec::new();
            places.resize_with(CROWD - SERVED, || None);
            while !stop.load(Ordering::Relaxed) {
                for (number, place) in places.iter_mut().enumerate() {
                    let port = ports[number % 2];
                    if place.as_ref().is_none_or(has_ended) {
                        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                        *place = TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
                    }
                }
                // As clients do that are refused.
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Crowd { _clients: clients, ended, strangers: Some(strangers) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.strangers.take().map(JoinHandle::join);
    }
}

fn has_ended(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match (&mut &*stream).read(&mut [0; 256]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// How often a line with this text was written in each second.
fn per_second(log: &str, text: &str) -> BTreeMap<String, u32> {
    let mut seconds = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(text)) {
        *seconds.entry(line.get(..19).unwrap_or("").to_owned()).or_default() += 1;
    }
    seconds
}

#[test]
fn where_descriptors_are_few_the_partner_health_and_operators_have_theirs() {
    let http = free_ports::<2>();
    let site = shown_site(http, "");
    let mut brokers = [0, 1].map(|index| start_with_few(&site, index));
    wait_until("protection", || is_protected(http));
    let crowd = Crowd::gather(&site);
    for broker in &brokers {
        wait_until("more clients than have places", || {
            broker.log().contains("clients are connected, which is all that may be")
        });
        assert!(broker.log().contains("the host allows 64 descriptors"), "it says so at the start");
    }
    let answers = |site: &Site| {
        for port in http {
            assert_eq!(get(port, "/healthz"), Some((200, "alive\n".to_owned())));
            assert_eq!(get(port, "/metrics").map(|(code, _)| code), Some(200));
        }
        site.run(&["status"]).must(0, &["protected: a crash of the primary is survived"]);
        let (code, body) = get(http[0], "/api/v1/status").unwrap();
        let both: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, both["brokers"].as_array().unwrap().len()), (200, 2), "{body}");
    };
    answers(&site);
    // Each of them dies and comes back, with the crowd before its door.
    for index in [1, 0] {
        brokers[index].kill();
        wait_until("the other's reign", || shows(http[1 - index], "verge_role{role=\"primary\"} 1"));
        brokers[index] = start_with_few(&site, index);
        wait_until("protection again", || is_protected(http));
        answers(&site);
    }
    drop(crowd);
    for broker in &brokers {
        let log = broker.log();
        assert!(!log.contains("no descriptor is left"), "{log}");
        let said = per_second(&log, "clients are connected, which is all that may be");
        assert!(!said.is_empty() && said.values().all(|times| *times <= 2), "{said:?}");
    }
}

#[test]
fn a_broker_that_would_have_no_descriptor_for_a_client_says_so_and_does_not_start() {
    let site = Site::new("");
    let mut command = Command::new("sh");
    command.arg("-c").arg("ulimit -n 36; exec \"$0\" \"$@\"");
    let broker = program(["broker", "a"]);
    command.arg(broker.get_program()).args(broker.get_args()).arg("--config").arg(&site.config);
    let mut process = Process::start(command.stdin(Stdio::null()), site.folder.path("a.log"));
    assert_eq!(process.wait_for_end(), Some(2));
    let log = process.log();
    assert!(log.contains("the host allows 36 descriptors") && log.contains("Raise LimitNOFILE"), "{log}");
}

/// Sends a signal by its number.
fn send(process: &Process, number: i32) {
    let status =
        Command::new("sh").arg("-c").arg(format!("kill -{number} {}", process.id())).status().unwrap();
    assert!(status.success(), "signal {number}");
}

/// Signals that end a process which does not look, by their numbers on Linux: all but those that are there to end it, and those that
/// say that the program itself has gone wrong.
fn all_others() -> impl Iterator<Item = i32> {
    let named = [
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::PIPE,
        Signal::ALARM,
        Signal::STKFLT,
        Signal::XCPU,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::POWER,
        Signal::TTOU,
        Signal::CONT,
        Signal::URG,
        Signal::WINCH,
        Signal::CHILD,
    ];
    named.into_iter().map(Signal::as_raw).chain([34, 50, 64])
}

#[test]
fn no_signal_ends_a_broker_but_those_that_ask_for_it() {
    let site = Site::new("");
    let mut broker = site.start(0);
    wait_until("its reign", || broker.log().contains("is primary in epoch 1"));
    for number in all_others() {
        send(&broker, number);
    }
    wait_until("its answer to SIGUSR1", || {
        broker.log().contains("status: primary in epoch 1, UNPROTECTED; ")
    });
    wait_until("its answer to SIGHUP", || broker.log().contains("configuration: apart from operators"));
    for ignored in ["SIGUSR2", "SIGALRM", "SIGQUIT", "SIGRTMIN+16"] {
        wait_until(ignored, || {
            broker.log().contains(&format!("{ignored} is ignored: SIGTERM ends a broker"))
        });
    }
    let publisher = site.client().publisher("t", Contract::every(Span::secs(1)).deadline(Span::secs(10)));
    publisher.unwrap().publish(b"it serves").unwrap();
    assert_eq!(broker.terminate(), Some(0), "{}", broker.log());
}

#[test]
fn no_signal_ends_a_node_of_the_store_but_those_that_ask_for_it() {
    let site = Site::new("");
    let mut node = start_node(&site, |command, log| Process::start(command, log.to_owned()));
    wait_until("its start", || node.log().contains("listens on"));
    for number in all_others() {
        send(&node, number);
    }
    wait_until("its word", || node.log().contains("SIGHUP is ignored: SIGTERM ends a node"));
    assert_eq!(node.terminate(), Some(0), "{}", node.log());
}

/// A node of four, which waits for the others.
fn start_node(site: &Site, start: impl FnOnce(&mut Command, &Path) -> Process) -> Process {
    let ports = free_ports::<4>();
    let mut text = String::from("[kv]\nstart_wait = \"1h\"\n");
    for (name, port) in ["a", "b", "c", "d"].iter().zip(ports) {
        let socket = site.folder.path(&format!("{name}.sock"));
        text += &format!(
            "[kv.nodes.{name}]\naddress = \"127.0.0.1:{port}\"\nsocket = \"{}\"\n",
            socket.display()
        );
    }
    text += "[[lane]]\nkeys = [\"mode\"]\nperiod = \"100ms\"\npriority = \"auto\"\n";
    let config = site.folder.write("kv.toml", text);
    let mut command = program(["kv", "node", "a", "-c"]);
    start(command.arg(config).stdout(Stdio::null()), &site.folder.path("node.log"))
}

#[test]
fn what_asks_a_broker_to_read_its_configuration_while_it_starts_is_heard_when_it_can_be() {
    let site = Site::new("");
    // A broker reads its configuration from here when it starts, and nobody has written it yet.
    let pipe = site.folder.path("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = std::fs::read_to_string(&site.config).unwrap();
    let mut command = program(["broker", "a", "--config"]);
    command.arg(&pipe).stdout(Stdio::null());
    let mut broker = Process::start(&mut command, site.folder.path("a.log"));
    // Opening it waits until the broker reads.
    let mut first = File::options().write(true).open(&pipe).unwrap();
    for number in all_others().filter(|number| *number != Signal::CONT.as_raw()) {
        send(&broker, number);
    }
    first.write_all(text.as_bytes()).unwrap();
    drop(first);
    wait_until("its start", || broker.log().contains("is primary in epoch 1"));
    // It reads again, as it was asked to.
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut second = File::options().write(true).open(&pipe).unwrap();
        second.write_all(text.as_bytes()).unwrap();
        told.send(()).unwrap();
    });
    heard.recv_timeout(WATCHDOG).unwrap();
    wait_until("its word", || broker.log().contains("configuration: apart from operators"));
    assert_eq!(broker.terminate(), Some(0), "{}", broker.log());
}

/// A pipe that nobody reads and that takes no more.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

/// Starts a command whose log goes there.
fn start_saying_to(command: &mut Command, stderr: impl Into<Stdio>, log: &Path) -> Process {
    std::fs::write(log, "").unwrap();
    Process::adopt(command.stderr(stderr).spawn().unwrap(), log.to_owned())
}

#[test]
fn a_broker_serves_and_ends_although_nobody_reads_its_log() {
    let site = Site::new("");
    let (_reader, writer) = full_pipe();
    let mut command = program(["broker", "a", "--config"]);
    command.arg(&site.config).stdout(writer.try_clone().unwrap());
    let mut broker = start_saying_to(&mut command, writer, &site.folder.path("a.log"));
    let contract = Contract::every(Span::secs(1)).deadline(Span::secs(10));
    let client = wait_for("the broker", || Client::connect(&site.addresses()).ok());
    let publisher = client.publisher("t", contract).unwrap();
    broker.signal(Signal::HUP);
    // More lines than fit into what waits.
    for _ in 0..50 {
        broker.signal(Signal::USR1);
        std::thread::sleep(Duration::from_millis(2));
    }
    publisher.publish(b"it serves").unwrap();
    assert_eq!(broker.terminate(), Some(0));
}

#[test]
fn a_command_and_a_node_end_although_nobody_reads_what_they_say() {
    let site = Site::new("");
    let (_reader, writer) = full_pipe();
    let mut node =
        start_node(&site, |command, log| start_saying_to(command, writer.try_clone().unwrap(), log));
    let caught =
        |node: &Process| std::fs::read_to_string(format!("/proc/{}/status", node.id())).unwrap_or_default();
    // It watches SIGTERM (the 15th) from its start.
    wait_until("its start", || {
        let status = caught(&node);
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap() >> 14 & 1 == 1
    });
    assert_eq!(node.terminate(), Some(0));
    // It has something to say before it ends.
    let mut command = program(["status", "--host", "127.0.0.1:1"]);
    let mut status = start_saying_to(&mut command, writer, &site.folder.path("status.log"));
    assert_eq!(status.wait_for_end(), Some(2));
}

#[test]
fn a_log_on_a_full_disk_stops_nobody() {
    let site = Site::new("");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut command = program(["broker", "a", "--config"]);
    command.arg(&site.config).stdout(Stdio::null());
    let mut broker = start_saying_to(&mut command, full(), &site.folder.path("a.log"));
    let client = wait_for("the broker", || Client::connect(&site.addresses()).ok());
    drop(client);
    assert_eq!(broker.terminate(), Some(0));
    let mut node = start_node(&site, |command, log| start_saying_to(command, full(), log));
    let socket = site.folder.path("a.sock");
    wait_until("the node", || socket.exists());
    assert_eq!(node.terminate(), Some(0));
    let mut command = program(["status", "--host", "127.0.0.1:1"]);
    assert_eq!(
        start_saying_to(&mut command, full(), &site.folder.path("status.log")).wait_for_end(),
        Some(2)
    );
}

#[test]
fn a_subscriber_that_stood_still_says_so_and_blames_nobody_else() {
    let pair = Pair::start("[limits]\nsilence = \"500ms\"\n");
    let printed = pair.site.folder.path("printed");
    let mut command = program(["sub", "-t", "t", "--id", "sleeper", "--config"]);
    command.arg(&pair.site.config).stdout(File::create(&printed).unwrap());
    let sleeper = Process::start(&mut command, pair.site.folder.path("sub.log"));
    let client = pair.site.client();
    let contract = Contract::every(Span::millis(100)).deadline(Span::secs(10));
    let publisher = client.publisher("t", contract).unwrap();
    wait_until("what it prints", || {
        publisher.publish(b"x").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        std::fs::metadata(&printed).unwrap().len() > 0
    });
    drop((publisher, client));
    // The pair's own watcher is the other one.
    let subscribed =
        || [0, 1].iter().all(|index| pair.report(*index).is_some_and(|report| report.clients == 2));
    wait_until("its subscription alone", subscribed);
    sleeper.signal(Signal::STOP);
    for index in [0, 1] {
        wait_until("that the brokers have closed it", || {
            pair.report(index).is_some_and(|report| report.clients < 2)
        });
    }
    // Long enough to be spoken of.
    std::thread::sleep(Duration::from_millis(1_500));
    sleeper.signal(Signal::CONT);
    wait_until("its word", || sleeper.log().contains("this process stood still for "));
    wait_until("its return", subscribed);
    wait_until("what it says of its connection", || {
        sleeper.log().contains("its connection was made again within")
    });
    let log = sleeper.log();
    assert!(!log.contains("Raise network.failover") && !log.contains("there was no primary for"), "{log}");
}

/// What a broker that stands by answers to a client of MQTT 5 which comes in here: the code, and where to go.
fn sent_elsewhere(address: SocketAddr) -> Option<(u8, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.write_all(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03one").ok()?;
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    assert!(head[0] == 0x20 && head[1] < 128, "{head:?}");
    let mut body = vec![0; usize::from(head[1])];
    stream.read_exact(&mut body).ok()?;
    // Flags, the code, how long properties are, and among them 0x1c with a text.
    let at = body.iter().skip(3).position(|byte| *byte == 0x1c).map(|at| at + 4);
    let reference = at.map(|at| {
        let length = usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
        String::from_utf8_lossy(&body[at + 2..at + 2 + length]).into_owned()
    });
    Some((body[1], reference.unwrap_or_default()))
}

#[test]
fn clients_are_sent_to_an_address_that_they_can_reach_where_brokers_listen_at_all() {
    let [a, b] = free_ports::<2>();
    let site = Site::new("");
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    // One of them at all addresses of IPv6 and IPv4, the other at all of IPv4.
    let more = format!(
        "[brokers.a]\nmqtt = \"0.0.0.0:{a}\"\n[brokers.b]\nmqtt = \"[::]:{b}\"\n\
         [mqtt]\nstandby = \"redirect\"\n"
    );
    site.folder.write("conf.d/mqtt.toml", more);
    let start = |index: usize| {
        let name = ["a", "b"][index];
        let mut command = program(["broker", name, "--insecure", "--config"]);
        command.arg(&site.config).stdout(Stdio::null());
        Process::start(&mut command, site.folder.path(&format!("{name}.log")))
    };
    let mut brokers = [start(0), start(1)];
    wait_until("protection", || brokers[0].log().contains("protected: the backup knows"));
    let told = |address: IpAddr, port| wait_for("an answer", || sent_elsewhere((address, port).into()));
    let home = IpAddr::from(Ipv4Addr::LOCALHOST);
    assert_eq!(told(home, b), (0x9c, format!("127.0.0.1:{a}")));
    if TcpStream::connect((Ipv6Addr::LOCALHOST, b)).is_ok() {
        assert_eq!(told(Ipv6Addr::LOCALHOST.into(), b), (0x9c, format!("[::1]:{a}")));
    } else {
        eprintln!("SKIPPED a client of IPv6: this host has no ::1");
    }
    brokers[0].kill();
    wait_until("the other's reign", || brokers[1].log().contains("is primary in epoch 2"));
    brokers[0] = start(0);
    wait_until("protection again", || brokers[1].log().matches("protected: the backup knows").count() > 0);
    wait_until("who stands by", || {
        sent_elsewhere((home, a).into()) == Some((0x9c, format!("127.0.0.1:{b}")))
    });
}
