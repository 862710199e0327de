//! Peers on sockets of this host: programs meet over HTTP, whichever peer they ask, and also when peers end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use contract::{Location, Span};
use host::tls::TlsSettings;
use overlay::Extent;
use peer_host::{Journal, PeerReport, Settings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rendezvous::{Kind, Space};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::Limits;
use tokio::sync::oneshot;

/// Nothing here takes longer on any host.
const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl Journal for Said {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn warn(&self, text: &str) {
        self.note(text);
    }
}

struct Running {
    name: String,
    address: String,
    programs: SocketAddr,
    said: Arc<Said>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn door() -> (TcpListener, SocketAddr) {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = door.local_addr().unwrap();
    (door, address)
}

impl Running {
    /// A peer that asks these contacts.
    fn start(name: &str, at: (f64, f64), contacts: &[String], least: usize) -> Running {
        Running::start_with(name, at, contacts, (least, None))
    }

    fn start_with(
        name: &str,
        at: (f64, f64),
        contacts: &[String],
        (least, tls): (usize, Option<TlsSettings>),
    ) -> Running {
        let ((peers, address), (programs, at_programs)) = (door(), door());
        let corner = |lat, long| Location::new(lat, long).unwrap();
        let extent = Extent::new(corner(0.0, 0.0), corner(100.0 / 2.0, 100.0)).unwrap();
        let overlay = overlay::Settings {
            least,
            alive_every: Span::millis(200),
            discovery: Span::millis(500),
            grace: Span::secs(1),
            ..overlay::Settings::new(extent, contacts.to_vec())
        };
        let space = Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words)], false).unwrap();
        let settings = Settings {
            name: name.to_owned(),
            address: address.to_string(),
            peers,
            programs: Some(programs),
            location: corner(at.0, at.1),
            offers: Vec::new(),
            tls,
            store: None,
            keeps: Limits { items: 1_000, bytes: 1 << 20 },
            work: None,
            space,
            overlay,
        };
        let (stop, stopped) = oneshot::channel();
        let said = Arc::new(Said::default());
        let journal = Arc::clone(&said);
        let thread = std::thread::spawn(move || {
            let helpers = host::Helpers::new().unwrap();
            peer_host::run(settings, &helpers, &*journal, stopped).unwrap();
        });
        let (name, address) = (name.to_owned(), address.to_string());
        Running { name, address, programs: at_programs, said, stop: Some(stop), thread: Some(thread) }
    }

    fn report(&self) -> PeerReport {
        let body = request(self.programs, "GET", "/api/v1/peer", "");
        serde_json::from_str(&body).unwrap()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn ask(at: SocketAddr, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    // By 1.0 the answer has no parts.
    write!(stream, "{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    stream
}

fn request(at: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut answer = String::new();
    ask(at, method, path, body).read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A program that has put something, and hears of it.
struct Program(BufReader<TcpStream>);

impl Program {
    fn put(at: &Running, path: &str, text: &str) -> Program {
        let mut lines = BufReader::new(ask(at.programs, "POST", path, text));
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the head of the answer ended");
        }
        Program(lines)
    }

    fn offers(at: &Running, text: &str) -> Program {
        Program::put(at, "/api/v1/offer", text)
    }

    fn wants(at: &Running, text: &str) -> Program {
        Program::put(at, "/api/v1/want", text)
    }

    /// The next event: what it is, of which topic, and what the other end says.
    fn next(&mut self) -> (String, String, String) {
        let line = self.next_line();
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (text("event"), text("topic"), text("other"))
    }

    fn next_line(&mut self) -> serde_json::Value {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the answer ended");
            if line.trim().is_empty() {
                continue;
            }
            return serde_json::from_str(&line).unwrap();
        }
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Peers that are all in one region.
fn together(count: usize) -> Vec<Running> {
    let mut peers = vec![Running::start("p0", (10.0, 10.0), &[], 3)];
    let contact = [peers[0].address.clone()];
    peers.extend((1..count).map(|number| Running::start(&format!("p{number}"), (10.0, 10.0), &contact, 3)));
    until("all are in one region", || peers.iter().all(|peer| peer.report().members.len() == count));
    peers
}

#[test]
fn programs_meet_whichever_peer_they_ask_and_hear_when_the_other_goes() {
    let peers = together(5);
    let mut consumer = Program::wants(&peers[1], "drone, li*");
    let mut producer = Program::offers(&peers[4], "drone, lidar");
    let (event, topic, other) = producer.next();
    assert_eq!((&*event, &*other), ("start", "drone, li*"));
    assert!(topic.starts_with("rv/"));
    assert_eq!(consumer.next(), ("start".to_owned(), topic.clone(), "drone, lidar".to_owned()));
    // What nobody wants is told to nobody.
    let _quiet = Program::offers(&peers[2], "drone, thermal");
    drop(consumer);
    assert_eq!(producer.next(), ("stop".to_owned(), topic.clone(), "drone, li*".to_owned()));
    let mut second = Program::wants(&peers[3], "drone, li*");
    assert_eq!(second.next(), ("start".to_owned(), topic.clone(), "drone, lidar".to_owned()));
    drop(producer);
    assert_eq!(second.next(), ("stop".to_owned(), topic, "drone, lidar".to_owned()));
    let report = peers[0].report();
    assert_eq!(report.regions.len(), 1);
    assert_eq!(peers.iter().filter(|peer| peer.report().role == "master").count(), 1);
}

/// Both ends are told the same contract, across regions too; and why there is none where one needs what the other does not offer.
#[test]
fn what_both_say_of_messages_is_agreed() {
    let peers = together(3);
    let mut wants = Program::wants(&peers[0], "drone, li*; deadline=100ms, loss=0");
    let mut offers = Program::offers(&peers[1], "drone, lidar; period=50ms, deadline=1s, retain=20");
    let (wanted, offered) = (wants.next_line(), offers.next_line());
    let contract =
        serde_json::json!({"period": "50ms", "deadline": "100ms", "loss": 0, "retain": 20, "size": 0});
    assert_eq!((&wanted["contract"], &offered["contract"]), (&contract, &contract));
    assert_eq!(wanted["needs"], serde_json::json!({"deadline": "100ms", "loss": 0}));
    assert_eq!(
        (wanted["other"].as_str(), offered["other"].as_str()),
        (Some("drone, lidar"), Some("drone, li*"))
    );
    // It is there already.
    let _device = Program::offers(&peers[2], "drone, lighthouse; topic=plant/7/light");
    assert_eq!(
        wants.next(),
        ("start".to_owned(), "plant/7/light".to_owned(), "drone, lighthouse".to_owned())
    );
    // It comes too seldom.
    let mut often = Program::wants(&peers[2], "drone, lidar; period=10ms");
    for end in [&mut often, &mut offers] {
        let line = end.next_line();
        assert_eq!(
            (&line["event"], &line["why"]),
            (&"unfit".into(), &"it is wanted at least every 10ms, and comes every 50ms".into())
        );
    }
    drop(often);
    drop(wants);
    let (event, topic, _) = offers.next();
    assert_eq!((&*event, Some(&*topic)), ("stop", offered["topic"].as_str()));
    let refused = request(peers[0].programs, "POST", "/api/v1/want", "drone; retain=3");
    assert!(refused.contains("`retain` is for profiles"), "{refused}");
}

/// A folder of certificates.
struct Certificates(std::path::PathBuf);

impl Certificates {
    fn new() -> Certificates {
        let folder = std::env::temp_dir().join(format!("verge-peers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let certificates = Certificates(folder);
        for (issuer, hosts) in [("ours", &["127.0.0.1", "10.9.8.7"][..]), ("others", &["127.0.0.1"])] {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
            certificates.write(&format!("{issuer}.pem"), &authority.pem());
            for host in hosts {
                let key = KeyPair::generate().unwrap();
                let params = CertificateParams::new(vec![(*host).to_owned()]).unwrap();
                let certificate = params.signed_by(&key, &authority).unwrap().pem();
                certificates.write(&format!("{issuer}-{host}.pem"), &certificate);
                certificates.write(&format!("{issuer}-{host}.key"), &key.serialize_pem());
            }
        }
        certificates
    }

    fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Shows a certificate of this issuer for this host, and believes ours.
    fn settings(&self, issuer: &str, host: &str) -> Option<TlsSettings> {
        let file = |name: String| Some(self.0.join(name));
        Some(TlsSettings {
            certificate: file(format!("{issuer}-{host}.pem")),
            key: file(format!("{issuer}-{host}.key")),
            ca: file("ours.pem".to_owned()),
            ..TlsSettings::default()
        })
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// With certificates of one issuer, each for its own host, peers find together; who has none, one of somebody else or one for another host has no part.
#[test]
fn who_has_no_certificate_for_its_address_has_no_part() {
    let certificates = Certificates::new();
    let start = |name: &str, contacts: &[String], tls: Option<TlsSettings>| {
        Running::start_with(name, (10.0, 10.0), contacts, (3, tls))
    };
    let first = start("s0", &[], certificates.settings("ours", "127.0.0.1"));
    let contacts = [first.address.clone()];
    let second = start("s1", &contacts, certificates.settings("ours", "127.0.0.1"));
    until("both are in one region", || {
        second.report().members.len() == 2 && first.report().members.len() == 2
    });
    let mut consumer = Program::wants(&first, "drone, *");
    let mut producer = Program::offers(&second, "drone, lidar");
    assert_eq!((producer.next().0, consumer.next().0), ("start".to_owned(), "start".to_owned()));
    let says = |peer: &Running, what: &str| {
        until(what, || peer.said.0.lock().unwrap().iter().any(|said| said.contains(what)));
    };
    // Others speak to it, since it is not for where it is.
    let elsewhere = start("elsewhere", &contacts, certificates.settings("ours", "10.9.8.7"));
    says(&first, "its certificate is not for 127.0.0.1");
    let strangers = [
        elsewhere,
        start("plain", &contacts, None),
        start("other", &contacts, certificates.settings("others", "127.0.0.1")),
    ];
    says(&strangers[2], "is not believed");
    until("each has begun a tree of its own", || {
        strangers.iter().all(|stranger| stranger.report().members.len() == 1)
    });
    assert_eq!((first.report().members.len(), second.report().members.len()), (2, 2));
}

/// Whichever peer ends, also the master, those who are left find together, and what is put at them meets.
#[test]
fn what_is_put_meets_although_peers_end_one_after_the_other() {
    let mut peers = together(5);
    let mut consumer = Program::wants(&peers[4], "drone, *");
    for round in 0..3 {
        let mut gone = peers.remove(0);
        gone.stop();
        until("it is out of all tables", || {
            let lacks = |peer: &Running| peer.report().members.iter().all(|member| member.name != gone.name);
            peers.iter().all(lacks) && peers.iter().any(|peer| peer.report().role == "master")
        });
        let text = format!("drone, lidar{round}");
        let mut producer = Program::offers(&peers[0], &text);
        let (event, topic, other) = producer.next();
        assert_eq!((&*event, &*other), ("start", "drone, *"));
        assert_eq!(consumer.next(), ("start".to_owned(), topic.clone(), text.clone()));
        drop(producer);
        assert_eq!(consumer.next(), ("stop".to_owned(), topic, text));
    }
}

/// The later of two peers of one name takes part; the older says so, lets its programs go, and takes no others.
#[test]
fn the_older_of_two_of_one_name_lets_its_programs_go() {
    let peers = together(3);
    let mut consumer = Program::wants(&peers[0], "drone, *");
    let mut old = Program::offers(&peers[1], "drone, lidar");
    let (_, topic, _) = old.next();
    assert_eq!(consumer.next().0, "start");
    let contact = [peers[0].address.clone()];
    let twin = Running::start("p1", (10.0, 10.0), &contact, 3);
    until("the older says so", || {
        peers[1].said.0.lock().unwrap().iter().any(|said| said.contains("has begun later"))
    });
    // Its answer ends.
    let mut rest = String::new();
    old.0.read_to_string(&mut rest).unwrap();
    let refused = request(peers[1].programs, "POST", "/api/v1/offer", "drone, thermal");
    assert!(refused.contains("ask another one"), "{refused}");
    let mut new = Program::offers(&twin, "drone, lidar");
    assert_eq!(new.next().0, "start");
    // What the older one had put is over, or the same as what the later has.
    drop(new);
    let mut heard = consumer.next();
    while heard.0 == "start" {
        heard = consumer.next();
    }
    assert_eq!((&*heard.0, &heard.1), ("stop", &topic));
}

#[test]
fn a_peer_that_is_full_says_so() {
    let peer = Running::start("p0", (10.0, 10.0), &[], 3);
    let programs: Vec<Program> =
        (0..1_024).map(|number| Program::offers(&peer, &format!("drone, x{number}"))).collect();
    assert!(request(peer.programs, "POST", "/api/v1/want", "drone").contains("ask another one"));
    assert_eq!(peer.report().posts, 1_024);
    drop(programs);
    until("there is room again", || peer.report().posts == 0);
}

/// Regions are split where many peers are far apart; who wants something says where it looks.
#[test]
fn who_looks_in_another_region_finds_what_is_there() {
    let places = [(10.0, 10.0), (10.0, 90.0), (40.0, 10.0), (40.0, 90.0)];
    let mut peers: Vec<Running> = Vec::new();
    for (number, at) in places.iter().cycle().take(8).enumerate() {
        let contact: Vec<String> =
            peers.first().map(|peer: &Running| peer.address.clone()).into_iter().collect();
        peers.push(Running::start(&format!("q{number}"), *at, &contact, 2));
    }
    until("there are four regions", || {
        peers.iter().all(|peer| {
            let report = peer.report();
            report.regions.len() == 4 && report.members.len() == 2
        })
    });
    let mut consumer = Program::wants(&peers[0], "drone, lidar, lat=30..50, long=80..100");
    let mut nowhere = Program::offers(&peers[1], "drone, lidar");
    let mut there = Program::offers(&peers[3], "drone, lidar");
    assert_eq!(there.next().0, "start");
    let (event, topic, other) = consumer.next();
    assert_eq!((&*event, &*other), ("start", "drone, lidar"));
    drop(there);
    assert_eq!(consumer.next(), ("stop".to_owned(), topic, "drone, lidar".to_owned()));
    // The one that is elsewhere has heard nothing.
    nowhere.0.get_mut().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut line = String::new();
    while let Ok(1..) = nowhere.0.read_line(&mut line) {}
    assert_eq!(line.trim(), "");
}

#[test]
fn what_is_no_profile_is_refused_and_who_is_no_peer_is_turned_away() {
    let peer = Running::start("p0", (10.0, 10.0), &[], 3);
    let refused = request(peer.programs, "POST", "/api/v1/offer", "drone, lat=");
    assert!(!refused.is_empty() && !refused.contains("event"), "{refused}");
    assert!(request(peer.programs, "GET", "/", "").contains("/api/v1/want"));
    let long = "x".repeat(engine::TEXT_BYTES_MAX + 1);
    assert!(request(peer.programs, "POST", "/api/v1/want", &long).contains("more shortly"));
    let mut stranger = TcpStream::connect(&peer.address).unwrap();
    stranger.write_all(b"\x05\x00\x00\x00hello").unwrap();
    let mut nothing = [0; 1];
    assert_eq!(stranger.read(&mut nothing).unwrap_or(0), 0);
    until("it is said", || peer.said.0.lock().unwrap().iter().any(|said| said.contains("is no peer")));
    assert_eq!(peer.report().posts, 0);
}
