//! Four nodes in one process, over TCP: what they agree on, and what becomes of strangers, liars and nodes that go.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use kv::{Config, Format, Key, LinkTimes, Setup, Vote};
use kv_host::{Journal, LaneSettings, Node, NodeAddress, NodeSettings, secrets};
use kv_shared::{Answer, Content, Lines, Plain, Request};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Long enough for a host that does other things as well.
const PERIOD: Span = Span::millis(100);
/// Whatever is waited for comes within this, or the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Journal for Heard {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn warn(&self, text: &str) {
        self.note(text);
    }
}

impl Heard {
    fn has(&self, part: &str) -> bool {
        self.0.lock().unwrap().iter().any(|text| text.contains(part))
    }
}

fn config() -> Config {
    Config {
        nodes: NAMES.map(str::to_owned).to_vec(),
        keys: vec![Key::named("mode"), Key::named("force").vote(Vote::Median(Format::F64))],
        period: PERIOD,
        offset: Span::millis(10),
        link: LinkTimes { delay_max: Span::millis(5), ..LinkTimes::default() },
        ..Config::default()
    }
}

/// One node and what it says.
struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
    heard: Arc<Heard>,
    lies: Arc<AtomicBool>,
    settings: NodeSettings,
}

impl Running {
    fn start(settings: NodeSettings) -> Running {
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(Heard::default()));
        let lies = Arc::new(AtomicBool::new(false));
        let settings = NodeSettings { lies: Some(lies.clone()), ..settings };
        let (told, journal, stopped) = (settings.clone(), heard.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let opened = Node::open(told, journal, stopped).map_err(|error| error.to_string())?;
            let node = opened.begin().map_err(|error| error.to_string())?;
            node.run().map_err(|error| error.to_string())?;
            Ok(())
        });
        Running { stop, thread, heard, lies, settings }
    }

    fn end(self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }

    fn ask(&self, request: &Request) -> Answer {
        let mut lines = Lines::new(UnixStream::connect(&self.settings.socket).unwrap());
        lines.send(request, &[]).unwrap();
        lines.receive().unwrap()
    }

    fn status(&self) -> serde_json::Value {
        match self.ask(&Request::Status {}) {
            Answer::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    fn last(&self, what: &str) -> Vec<String> {
        let status = self.status();
        let names = status["lanes"][0]["last"][what].as_array().cloned().unwrap_or_default();
        names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    fn jobs(&self) -> u64 {
        self.status()["lanes"][0]["jobs"]["counted"].as_u64().unwrap_or(0)
    }

    /// Whether the value is in the next job; it may be too late for that.
    fn propose(&self, key: &str, content: Content, publishing: Time) -> bool {
        let answer =
            self.ask(&Request::Write { lane: 0, key: key.to_owned(), content, publishing: publishing.0 });
        answer == Answer::Written {}
    }

    fn read(&self, key: &str, freshness: Time) -> Option<Answer> {
        match self.ask(&Request::Read { lane: 0, key: key.to_owned(), freshness: freshness.0 }) {
            Answer::Error(_) => None,
            answer => Some(answer),
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// Settings for four nodes on free ports.
fn cluster(config: &Config) -> Vec<NodeSettings> {
    let held: Vec<TcpListener> = NAMES.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<SocketAddr> = held.iter().map(|one| one.local_addr().unwrap()).collect();
    let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
    let names = NAMES.map(str::to_owned);
    let node = |me: usize| NodeSettings {
        me: kv::Node::at(me),
        nodes: (0..4).map(|at| NodeAddress { name: names[at].clone(), address: addresses[at] }).collect(),
        links: secrets::public(&names, me),
        lanes: vec![lane(config)],
        socket: PathBuf::from(format!("/tmp/verge-kv-test-{}-{number}-{me}.sock", std::process::id())),
        start_wait: Span::secs(20),
        founds: false,
        lies: None,
    };
    (0..4).map(node).collect()
}

fn lane(config: &Config) -> LaneSettings {
    LaneSettings { setup: Setup::new(config.clone()).unwrap(), processor: None, priority: None, vectors: 0 }
}

fn start_all(config: &Config) -> Vec<Running> {
    let nodes: Vec<Running> = cluster(config).into_iter().map(Running::start).collect();
    for node in &nodes {
        until("all begin", || node.settings.socket.exists() && node.jobs() > 0);
    }
    nodes
}

/// Writes at these nodes and waits until all `readers` have the same; what they have. On a busy host the writes may end up in two jobs,
/// of which none has enough of them, so it tries again.
fn agree(
    writers: &[&Running],
    readers: &[&Running],
    content: &dyn Fn(usize) -> (&'static str, Content),
) -> Answer {
    let mut seen = Vec::new();
    until("it is published", || {
        let released = Setup::new(config()).unwrap().release_after(host::now());
        while host::now() < released + Span::millis(2) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let publishing = released + PERIOD * 3;
        let proposed = writers.iter().enumerate().all(|(place, node)| {
            let (key, content) = content(place);
            node.propose(key, content, publishing)
        });
        while proposed && host::now() < publishing + PERIOD {
            std::thread::sleep(Duration::from_millis(5));
        }
        seen = readers.iter().filter_map(|node| node.read(content(0).0, publishing)).collect();
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
        proposed && seen.len() == readers.len()
    });
    seen.remove(0)
}

fn text(value: &Answer) -> &str {
    match value {
        Answer::Value { plain: Plain { text: Some(text), .. }, .. } => text,
        other => panic!("{other:?}"),
    }
}

fn number(value: &Answer) -> f64 {
    match value {
        Answer::Value { plain: Plain { number: Some(number), .. }, .. } => number.as_f64().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn measured(value: f64) -> Content {
    Content::Number(serde_json::Number::from_f64(value).unwrap())
}

#[test]
fn four_nodes_agree_and_go_on_without_one_that_goes_and_comes_back() {
    let mut nodes = start_all(&config());
    let all: Vec<&Running> = nodes.iter().collect();
    let same = agree(&all, &all, &|_| ("mode", Content::Value("auto".to_owned())));
    assert_eq!(text(&same), "auto");
    let middle = agree(&all, &all, &|place| ("force", measured([1.0, 2.0, 3.0, 900.0][place])));
    assert!((number(&middle) - 2.5).abs() < 1e-12, "{middle:?}");
    let gone = nodes.pop().unwrap();
    let settings = gone.settings.clone();
    gone.end().unwrap();
    let rest: Vec<&Running> = nodes.iter().collect();
    until("the others notice", || rest.iter().all(|node| node.last("silent") == ["d"]));
    let same = agree(&rest, &rest, &|_| ("mode", Content::Value("manual".to_owned())));
    assert_eq!(text(&same), "manual");
    let back = Running::start(settings);
    until("it is back", || rest.iter().all(|node| node.last("silent").is_empty()));
    until("it finds the others running", || back.heard.has("joins the others"));
    until("it has what is published now", || {
        agree(&rest, &rest, &|_| ("mode", Content::Value("auto".to_owned())));
        back.read("mode", Time::ZERO).is_some()
    });
    for node in nodes.into_iter().chain([back]) {
        node.end().unwrap();
    }
}

#[test]
fn a_node_that_lies_is_masked_and_named() {
    let nodes = start_all(&config());
    let (correct, liar): (Vec<&Running>, &Running) = (nodes[..3].iter().collect(), &nodes[3]);
    let all: Vec<&Running> = nodes.iter().collect();
    liar.lies.store(true, Ordering::Relaxed);
    for turn in 0..5 {
        let low = f64::from(turn);
        let value = agree(&all, &correct, &|place| ("force", measured(low + [0.0, 0.1, 0.2, 0.1][place])));
        assert!((low..=low + 0.2).contains(&number(&value)), "{value:?}");
    }
    until("it is named", || correct.iter().all(|node| node.heard.has("node `d` lies")));
    assert!(correct.iter().all(|node| !node.heard.has("more nodes than may be faulty")));
    for node in nodes {
        node.end().unwrap();
    }
}

#[test]
fn another_configuration_is_refused_with_the_first_difference() {
    let mut settings = cluster(&config());
    settings[3].lanes = vec![lane(&Config { period: PERIOD * 2, ..config() })];
    settings.iter_mut().for_each(|one| one.start_wait = Span::secs(3));
    let nodes: Vec<Running> = settings.into_iter().map(Running::start).collect();
    until("both ends say so", || {
        let (here, there) = (&nodes[0].heard, &nodes[3].heard);
        here.has("the configurations differ: period is 200ms there and 100ms here")
            && there.has("the configurations differ: period")
    });
    until("the other three begin without it", || {
        nodes[..3].iter().all(|node| node.heard.has("begins without `d`"))
    });
    for node in nodes {
        node.end().unwrap();
    }
}

#[test]
fn a_second_node_of_one_identity_is_refused() {
    let nodes = start_all(&config());
    let mut twin = nodes[1].settings.clone();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    twin.nodes[1].address = held.local_addr().unwrap();
    drop(held);
    twin.socket.set_extension("twin");
    twin.start_wait = Span::secs(2);
    let twin = Running::start(twin);
    until("the others name it", || nodes[0].heard.has("another node already is `b` here"));
    let before = nodes[0].jobs();
    until("they go on", || nodes[0].jobs() > before + 3);
    assert_eq!(nodes[0].last("silent"), Vec::<String>::new());
    for node in nodes.into_iter().chain([twin]) {
        node.end().unwrap();
    }
}

#[test]
fn strangers_are_shown_the_door_and_nobody_notices() {
    let nodes = start_all(&config());
    let address = nodes[0].settings.nodes[0].address;
    let mut rubbish = fastrand::Rng::with_seed(7);
    for turn in 0..40 {
        let mut stranger = TcpStream::connect(address).unwrap();
        let bytes: Vec<u8> = match turn % 4 {
            0 => b"GET / HTTP/1.1\r\nHost: plant\r\nAccept: text/html\r\n\r\n".to_vec(),
            1 => (0..200).map(|_| rubbish.u8(..)).collect(),
            // The beginning of a greeting by one who says that it is node b, and no more.
            2 => [b"VgKV".as_slice(), &[1, 0, 0, 0, 0, 0, 1, 0], &[0; 32], &[0; 36]].concat(),
            _ => Vec::new(),
        };
        drop(stranger.write_all(&bytes));
        if turn % 4 == 0 {
            stranger.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0, "it is closed without a word");
        }
    }
    let all: Vec<&Running> = nodes.iter().collect();
    let same = agree(&all, &all, &|_| ("mode", Content::Value("auto".to_owned())));
    assert_eq!(text(&same), "auto");
    until("it is said", || nodes[0].heard.has("does not speak the protocol of the store"));
    for node in nodes {
        node.end().unwrap();
    }
}

#[test]
fn strangers_that_hold_every_place_keep_nobody_out() {
    let mut nodes = start_all(&config());
    let address = nodes[0].settings.nodes[0].address;
    // More than there are places, and they come again.
    let stop = Arc::new(AtomicBool::new(false));
    let crowd: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut held = std::collections::VecDeque::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(mut stream) = TcpStream::connect(address) {
                        drop(stream.write_all(b"Vg"));
                        held.push_back(stream);
                    }
                    if held.len() > 60 {
                        held.pop_front();
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    // Node b starts anew, and node a, where all the strangers are, hears it again.
    let again = nodes.remove(1);
    let settings = again.settings.clone();
    again.end().unwrap();
    until("it is missed", || nodes[0].last("silent") == ["b"]);
    let again = Running::start(settings);
    until("it is heard again", || nodes[0].last("silent").is_empty());
    stop.store(true, Ordering::Relaxed);
    crowd.into_iter().for_each(|one| one.join().unwrap());
    for node in nodes.into_iter().chain([again]) {
        node.end().unwrap();
    }
}

#[test]
fn a_node_whose_address_is_taken_says_so() {
    let settings = cluster(&config()).remove(0);
    let _held = TcpListener::bind(settings.nodes[0].address).unwrap();
    let error = Running::start(settings).thread.join().unwrap().unwrap_err();
    assert!(error.contains("is the node running already"), "{error}");
}

/// Answers greetings as a node whose clock is ahead by this, and goes no further.
fn answer_ahead(listener: &TcpListener, key: &kv::LinkKey, ahead: Span, stop: &AtomicBool) {
    use kv::hello::{Challenge, GREETING_BYTES};
    listener.set_nonblocking(true).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        let mut asked = [0; GREETING_BYTES];
        if stream.read_exact(&mut asked).is_ok() {
            let challenge = Challenge { fingerprint: 0, time: host::now() + ahead, nonce: [3; 16] };
            drop(stream.write_all(&challenge.seal(&asked, key)));
        }
    }
}

#[test]
fn a_node_does_not_begin_while_the_clocks_of_too_many_others_are_off() {
    let held: Vec<TcpListener> = NAMES.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let mut settings = cluster(&config()).remove(0);
    for (node, listener) in settings.nodes.iter_mut().zip(&held).skip(1) {
        node.address = listener.local_addr().unwrap();
    }
    settings.start_wait = Span::secs(2);
    let (stop, links) = (AtomicBool::new(false), settings.links.clone());
    std::thread::scope(|scope| {
        for (place, listener) in held.iter().enumerate().skip(1) {
            // One clock may be off: that node counts as faulty. Two are too many.
            let ahead = if place < 3 { Span::secs(1) } else { Span::ZERO };
            let (key, stop) = (&links[place], &stop);
            scope.spawn(move || answer_ahead(listener, key, ahead, stop));
        }
        let error = Running::start(settings).thread.join().unwrap().unwrap_err();
        stop.store(true, Ordering::Relaxed);
        for part in ["`b` (by 9", "`c` (by 9", "a tenth of a round", "PTP or chrony"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("`d`"), "{error}");
    });
}
