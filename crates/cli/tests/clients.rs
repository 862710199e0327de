//! What clients are told: every sentence of `docs/clients.md`, made by its cause.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::sentences::{rows, said, says};
use support::{Pair, Process, Site, free_ports, program, wait_for, wait_until};
use verge::{Client, Contract, Span};

const TROUBLE: i32 = 2;

#[test]
fn no_sentence_stands_in_the_page_that_no_test_makes() {
    let sources = [include_str!("clients.rs"), include_str!("slow_link.rs")];
    let rows = rows();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let literal = format!("\"{row}\"");
        assert!(sources.iter().any(|source| source.contains(&literal)), "no test makes: {row}");
    }
}

/// Somebody at a port who is no broker of ours: accepts, and does this with each connection.
struct Stranger {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stranger {
    fn start(act: impl Fn(&mut TcpStream) -> bool + Send + 'static) -> Stranger {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        door.set_nonblocking(true).unwrap();
        let address = door.local_addr().unwrap().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut kept = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match door.accept() {
                    Ok((mut stream, _)) => {
                        if act(&mut stream) {
                            kept.push(stream);
                        }
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Stranger { address, stop, thread: Some(thread) }
    }

    /// An SSH server, say.
    fn talkative() -> Stranger {
        Stranger::start(|stream| stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").is_ok())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A greeting of a broker whose release is the next one.
fn greeting_of_another_release() -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::Frame::Hello(wire::Hello {
        standing: wire::Standing::Primary,
        prefers_to_reign: true,
        reign: contract::Reign::default(),
        node: contract::NodeId(1),
        incarnation: 1,
        name: "a",
        user: "",
        password: wire::Secret(""),
        knows: wire::Knows::NOTHING,
    })
    .encode(&mut bytes);
    let version = wire::limits::FRAME_HEAD_BYTES + 4;
    bytes[version..version + 2].copy_from_slice(&(wire::PROTOCOL_VERSION + 1).to_le_bytes());
    bytes
}

/// `verge sub` of everything, and what it prints.
struct Subscriber {
    process: Process,
    out: PathBuf,
}

impl Subscriber {
    /// Starts it at these addresses; what it says is in its log.
    fn start(site: &Site, addresses: &[&str]) -> Subscriber {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut command = program(["sub", "-t", "#"]);
        addresses.iter().for_each(|address| {
            command.args(["-h", address]);
        });
        let out = site.folder.path(&format!("sub-{number}.out"));
        command.stdout(File::create(&out).unwrap());
        let process = Process::start(&mut command, site.folder.path(&format!("sub-{number}.log")));
        Subscriber { process, out }
    }

    fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until it has got something, so that it is there in every respect.
    fn wait_until_it_receives(&self, site: &Site) {
        let client = site.client();
        let publisher = client.publisher("ready", Contract::every(Span::millis(10)).best_effort()).unwrap();
        wait_until("the first message", || {
            let _ = publisher.publish(b"ready");
            std::fs::metadata(&self.out).unwrap().len() > 0
        });
    }
}

#[test]
fn a_wrong_address_of_one_broker_is_named_by_clients_and_by_status() {
    let pair = Pair::start("");
    let [talks, mute, curt, other] = [
        Stranger::talkative(),
        Stranger::start(|_| true),
        Stranger::start(|_| false),
        Stranger::start(|stream| stream.write_all(&greeting_of_another_release()).is_ok()),
    ];
    let brokers = [0, 2].map(|port| format!("127.0.0.1:{}", pair.site.ports[port]));
    let strangers = [&talks, &mute, &curt, &other].map(|stranger| stranger.address.as_str());
    let mut addresses: Vec<&str> = brokers.iter().map(String::as_str).collect();
    addresses.extend(strangers);
    let client = Subscriber::start(&pair.site, &addresses);
    wait_until("a sentence about each", || client.log().matches("going on with the others").count() >= 4);
    let log = client.log();
    said(&log, "… is no Verge broker: something else listens there; going on with the others");
    said(
        &log,
        "… takes connections and says nothing: something else than a broker listens there, or one that stands still; going on with the others",
    );
    said(
        &log,
        "… closes connections without a word: something else than a broker's port for clients listens there, or a broker that has no place left; going on with the others",
    );
    said(
        &log,
        "… speaks protocol version …, this program speaks …: run the same release on both; going on with the others",
    );
    for stranger in strangers {
        assert!(log.contains(stranger), "{log}");
    }
    drop(client);
    let mut arguments = vec!["status"];
    addresses.iter().for_each(|address| arguments.extend(["-h", address]));
    let status = pair.site.run(&arguments);
    assert!(
        status.out.contains(&format!("{} is no Verge broker", talks.address)),
        "{}{}",
        status.out,
        status.err
    );
    assert!(!status.out.contains("start one with") && status.out.contains("protected"), "{}", status.out);
}

#[test]
fn a_broker_of_another_pair_is_named() {
    let (pair, other) = (Pair::start(""), Pair::start(""));
    let brokers = [0, 2].map(|port| format!("127.0.0.1:{}", pair.site.ports[port]));
    let stranger = format!("127.0.0.1:{}", other.site.ports[2]);
    let client = Subscriber::start(&pair.site, &[&brokers[0], &brokers[1], &stranger]);
    wait_until("a sentence", || client.log().contains("of another pair"));
    said(&client.log(), "… is a broker of another pair; going on with the others");
    assert!(client.log().contains(&format!("{stranger} is a broker of another pair")), "{}", client.log());
}

#[test]
fn where_no_address_is_that_of_a_broker_nobody_is_told_to_start_one() {
    let site = Site::new("");
    let stranger = Stranger::talkative();
    let status = site.run(&["status", "-h", &stranger.address]);
    assert_eq!(status.code, Some(TROUBLE));
    said(
        &status.err,
        "no broker answers: … is no Verge broker: something else listens there; correct the addresses",
    );
    assert!(!status.err.contains("start one"), "{}", status.err);
}

#[test]
fn where_nobody_listens_one_is_to_be_started() {
    let site = Site::new("");
    let [port] = free_ports::<1>();
    let address = format!("127.0.0.1:{port}");
    let status = site.run(&["status", "-h", &address]);
    assert_eq!(status.code, Some(TROUBLE));
    said(&status.err, "no broker answers: … nobody listens there; start one with …");
    let publisher = site.run(&["pub", "-h", &address, "-t", "x", "-m", "y"]);
    assert_eq!(publisher.code, Some(TROUBLE));
    said(&publisher.err, "no primary broker was found within …: … nobody listens there; start one with …");
}

#[test]
fn a_name_that_does_not_resolve_stops_nobody() {
    let pair = Pair::start("");
    let brokers = [0, 2].map(|port| format!("127.0.0.1:{}", pair.site.ports[port]));
    let client = Subscriber::start(&pair.site, &["no-such-host.invalid:7571", &brokers[0], &brokers[1]]);
    let sentence = "… does not resolve (…): it is asked for again; going on with the others";
    wait_until("a sentence about the name", || says(&client.log(), sentence));
    said(&client.log(), "… does not resolve (…): it is asked for again; going on with the others");
    let publisher =
        pair.site.run(&["pub", "-h", "no-such-host.invalid:7571", "-h", &brokers[0], "-t", "x", "-m", "y"]);
    assert_eq!(publisher.code, Some(0), "{}", publisher.err);
    wait_until("the message", || std::fs::read(&client.out).unwrap() == b"y\n");
}

#[test]
fn an_absence_is_told_with_its_reasons_and_its_end() {
    let mut pair = Pair::start("");
    let brokers = [0, 2].map(|port| format!("127.0.0.1:{}", pair.site.ports[port]));
    let client = Subscriber::start(&pair.site, &[&brokers[0], &brokers[1]]);
    client.wait_until_it_receives(&pair.site);
    pair.kill(0);
    pair.kill(1);
    wait_until("a sentence about the absence", || client.log().contains("trying on"));
    said(&client.log(), "no primary broker for … s: … nobody listens there; trying on");
    pair.restart(0);
    pair.restart(1);
    wait_until("a sentence about its end", || client.log().contains("there was no primary for"));
    wait_until("and another", || client.log().contains("a primary is there again"));
    said(&client.log(), "a primary is there again");
    said(&client.log(), "there was no primary for …, longer than network.failover = …");
}

#[test]
fn the_end_of_a_trouble_is_told() {
    let mut pair = Pair::start("");
    let brokers = [0, 2].map(|port| format!("127.0.0.1:{}", pair.site.ports[port]));
    let client = Subscriber::start(&pair.site, &[&brokers[0], &brokers[1]]);
    client.wait_until_it_receives(&pair.site);
    pair.kill(1);
    wait_until("a sentence about the one", || {
        client.log().contains("nobody listens there; going on with the others")
    });
    pair.restart(1);
    wait_until("its end", || client.log().contains("is no trouble any more"));
    said(&client.log(), "… is no trouble any more");
}

#[test]
fn two_addresses_of_one_broker_are_one() {
    let pair = Pair::start("");
    let both = format!("localhost:{0},127.0.0.1:{0}", pair.site.ports[0]);
    let client = Client::connect(&both).unwrap();
    let changes = Arc::new(Mutex::new(0));
    let count = Arc::clone(&changes);
    client.on_reign(move |_| *count.lock().unwrap() += 1).unwrap();
    let subscription = client.subscribe("t").unwrap();
    let publisher = client.publisher("t", Contract::every(Span::millis(10)).best_effort()).unwrap();
    // The second connection takes the place of the first, once.
    wait_until("that both are known to be one", || client.reaches().unwrap().len() == 1);
    let before = *changes.lock().unwrap();
    for round in 0..50_u8 {
        publisher.publish(&[round]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut came = 0;
    while subscription.next_within(Duration::from_millis(500)).is_some() {
        came += 1;
    }
    let after = *changes.lock().unwrap();
    assert!(came == 50 && after <= before + 1, "{came} of 50 came, and {} changes", after - before);
}

/// Runs the program where this file is `/etc/hosts`, if the tester may do that.
fn with_hosts(hosts: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    command.args(["-m", "sh", "-c", script]).arg(hosts).arg(env!("CARGO_BIN_EXE_verge")).args(arguments);
    command.stdin(std::process::Stdio::null());
    command
}

fn may_mount() -> bool {
    let ran = Command::new("unshare").args(["-m", "true"]).output();
    let may = ran.is_ok_and(|ran| ran.status.success());
    if !may {
        eprintln!("SKIPPED: without root no name can be given another meaning");
    }
    may
}

#[test]
fn one_name_with_two_addresses_serves_for_a_pair() {
    if !may_mount() {
        return;
    }
    let [clients, pair_port] = free_ports::<2>();
    let text = format!(
        "{}[brokers.a]\nclients = \"127.0.0.2:{clients}\"\npair = \"127.0.0.2:{pair_port}\"\nstart_as = \"primary\"\n\
         [brokers.b]\nclients = \"127.0.0.3:{clients}\"\npair = \"127.0.0.3:{pair_port}\"\n",
        support::ORDINARY
    );
    let mut site = Site::new("");
    site.config = site.folder.write("named.toml", text);
    let mut brokers = [Some(site.start(0)), Some(site.start(1))];
    let both = format!("127.0.0.2:{clients},127.0.0.3:{clients}");
    let watcher = Client::connect(&both).unwrap();
    let reigns = || {
        (0..2).find(|index| {
            let report = watcher.status(*index, false).ok().flatten();
            report.is_some_and(|report| report.standing == verge::Standing::Primary && report.protected)
        })
    };
    let primary = wait_for("protection", reigns);
    let hosts = site.folder.write("hosts", "127.0.0.1 localhost\n127.0.0.2 plant\n127.0.0.3 plant\n");
    let mut command = with_hosts(&hosts, &["sub", "-t", "t", "-h", &format!("plant:{clients}")]);
    let out = site.folder.path("named.out");
    let subscriber =
        Process::start(command.stdout(File::create(&out).unwrap()), site.folder.path("named.log"));
    let publisher = watcher.publisher("t", Contract::every(Span::millis(10)).retain(50)).unwrap();
    let got = |text: &str| std::fs::read_to_string(&out).unwrap().contains(text);
    wait_until("the first message", || {
        let _ = publisher.publish(b"before");
        got("before")
    });
    brokers[primary].take().unwrap().kill();
    wait_until("a message from the other broker", || {
        let _ = publisher.publish(b"after");
        got("after")
    });
    drop(subscriber);
}

#[test]
fn a_broker_starts_without_the_partners_name_and_finds_it_later() {
    if !may_mount() {
        return;
    }
    let site = Site::new("");
    let text = std::fs::read_to_string(&site.config).unwrap();
    let named = text.replace(
        &format!("pair = \"127.0.0.1:{}\"", site.ports[3]),
        &format!("pair = \"broker-b.plant:{}\"", site.ports[3]),
    );
    assert_ne!(text, named);
    let config = site.folder.write("a.toml", named);
    let hosts = site.folder.write("hosts", "127.0.0.1 localhost\n");
    let mut command = with_hosts(&hosts, &["--config", config.to_str().unwrap(), "broker", "a"]);
    // The other way round it does not find its partner either: nobody tells `b` where `a` is.
    let b_text =
        text.replace(&format!("pair = \"127.0.0.1:{}\"", site.ports[1]), "pair = \"broker-a.invalid:1\"");
    let broker_a = Process::start(command.stdout(std::process::Stdio::null()), site.folder.path("a.log"));
    let watcher = Client::builder().patience(Duration::from_secs(1)).start(&site.addresses()).unwrap();
    let report = |index| watcher.status(index, false).ok().flatten();
    wait_until("the reign of the first", || {
        report(0).is_some_and(|report| report.standing == verge::Standing::Primary)
    });
    assert!(broker_a.log().contains("brokers.b.pair: broker-b.plant"), "{}", broker_a.log());
    let b_config = site.folder.write("b.toml", b_text);
    let mut b = program(["broker", "b"]);
    b.arg("--config").arg(b_config).stdout(std::process::Stdio::null());
    let _broker_b = Process::start(&mut b, site.folder.path("b.log"));
    std::fs::write(&hosts, "127.0.0.1 localhost\n127.0.0.1 broker-b.plant\n").unwrap();
    wait_until("protection", || report(0).is_some_and(|report| report.protected));
}

/// Between a client and a broker, a way that carries so many bytes per second to the client.
struct Narrow {
    address: String,
    carried: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Narrow {
    fn start(to: u16, rate: u64) -> Narrow {
        let door = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        door.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
        door.listen(16).unwrap();
        let door: TcpListener = door.into();
        let address = door.local_addr().unwrap().to_string();
        let (carried, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stopped) = (Arc::clone(&carried), Arc::clone(&stop));
        std::thread::spawn(move || {
            while let Ok((near, _)) = door.accept() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let far = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
                // What waits here is not in the broker's hands.
                far.set_recv_buffer_size(4 << 10).unwrap();
                let there = std::net::SocketAddr::from(([127, 0, 0, 1], to));
                if far.connect(&there.into()).is_err() {
                    continue;
                }
                let far: TcpStream = far.into();
                let (count, up) = (Arc::clone(&count), (near.try_clone().unwrap(), far.try_clone().unwrap()));
                std::thread::spawn(move || carry(far, near, Some((rate, &count))));
                std::thread::spawn(move || carry(up.0, up.1, None));
            }
        });
        Narrow { address, carried, stop }
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

/// Carries bytes until one end is gone.
fn carry(mut from: TcpStream, mut to: TcpStream, narrow: Option<(u64, &AtomicU64)>) {
    let mut bytes = [0; 1_024];
    let mut due = Instant::now();
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
        if let Some((rate, carried)) = narrow {
            carried.fetch_add(count as u64, Ordering::Relaxed);
            due = due.max(Instant::now()) + Duration::from_nanos(count as u64 * 1_000_000_000 / rate);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    let _ = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
}

#[test]
fn a_slow_subscriber_is_told_so_and_keeps_its_connection() {
    let pair = Pair::start(support::UNHURRIED);
    let ways = [0, 2].map(|port| Narrow::start(pair.site.ports[port], 32_000));
    let client = Subscriber::start(&pair.site, &[&ways[0].address, &ways[1].address]);
    client.wait_until_it_receives(&pair.site);
    let publisher = pair.site.client();
    let contract = Contract::every(Span::millis(50)).deadline(Span::millis(200)).best_effort();
    let names: Vec<String> = (0..20).map(|index| format!("t/{index}")).collect();
    let publishers = publisher.publishers(names.iter().map(|name| (name.as_str(), Some(contract)))).unwrap();
    let sentence = "this subscriber reads slower than its topics publish: of … messages that had to wait in the last … s, … were dropped, the oldest first; … kB/s are read.";
    wait_until("two sentences to the subscriber", || {
        publishers.iter().for_each(|publisher| {
            let _ = publisher.publish(&[b'x'; 2_048]);
        });
        std::thread::sleep(Duration::from_millis(50));
        client.log().lines().filter(|line| says(line, sentence)).count() >= 2
    });
    said(
        &client.log(),
        "this subscriber reads slower than its topics publish: of … messages that had to wait in the last … s, … were dropped, the oldest first; … kB/s are read.",
    );
    let log = std::fs::read_to_string(pair.site.folder.path("a.log")).unwrap();
    said(
        &log,
        "subscriber … does not read fast enough: of … messages that had to wait in the last … s, … were dropped, the oldest first; … kB/s are read",
    );
    assert!(!client.log().contains("no primary"), "{}", client.log());
    assert!(ways[0].carried.load(Ordering::Relaxed) > 0);
}

/// A bridge receives each topic by a filter of its own.
#[test]
fn a_client_has_as_many_filters_as_it_is_told_and_its_broker_allows() {
    let pair = Pair::start("[limits]\nfilters_per_session = 300\n");
    let client = |most| {
        let builder = Client::builder().subscriptions(most);
        builder.patience(support::WATCHDOG).connect(&pair.site.addresses()).unwrap()
    };
    let subscribe = |client: &Client, number: usize| client.subscribe_with(&format!("t/{number}"), |_| {});
    let few = client(2);
    let refused: Vec<_> = (0..3).filter_map(|number| subscribe(&few, number).err()).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].to_string().contains("limit of subscriptions"), "{refused:?}");
    let many = client(1_000);
    let refused: Vec<_> = (0..301).filter_map(|number| subscribe(&many, number).err()).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].to_string().contains("limits.filters_per_session"), "{refused:?}");
}
