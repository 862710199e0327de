//! Sites that reach their routers, and what names them, through proxies alone, and over TLS: real processes, with certificates made here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

#[path = "../../coordination/tests/service/server.rs"]
mod service;
mod support;
#[path = "support/proxy.rs"]
mod through;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use service::Server;
use std::path::{Path, PathBuf};
use support::{Family, Folder, Load, PATIENT, Pair, Receiver, Site, free_ports, wait_until};
use through::{PASSWORD, Proxy, USER};

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Certificates of one plant.
struct Certificates {
    issuer: Issuer,
    folder: Folder,
}

impl Certificates {
    fn new() -> Certificates {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Folder::new();
        folder.write("ca.pem", issuer.pem());
        Certificates { issuer, folder }
    }

    /// The lines of a configuration that name a certificate for these names, made now.
    fn lines(&self, name: &str, hosts: &[&str]) -> String {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        let certificate = self.folder.write(&format!("{name}.pem"), certificate);
        let key = self.folder.write(&format!("{name}.key"), key.serialize_pem());
        let ca = self.folder.path("ca.pem");
        let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
        format!("[tls]\ncertificate = {}\nkey = {}\nca = {}\n", quoted(certificate), quoted(key), quoted(ca))
    }
}

/// A router over TLS that wants certificates, and where its two brokers listen for them.
fn secure_router(certificates: &Certificates) -> (Pair, [u16; 2]) {
    let ports = free_ports::<2>();
    let site = Site::new(PATIENT);
    let lines = certificates.lines("router", &["router.plant", "127.0.0.1"]);
    let ca = lines.lines().last().unwrap().replace("ca = ", "client_ca = ");
    let text = format!(
        "[brokers.a]\nclients_tls = \"127.0.0.1:{}\"\n[brokers.b]\nclients_tls = \"127.0.0.1:{}\"\n{lines}{ca}\nclient_certificates = \"required\"\n",
        ports[0], ports[1]
    );
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    site.folder.write("conf.d/tls.toml", text);
    (Pair::start_on(site), ports)
}

/// The lines that name a proxy, and who this is there.
fn proxied(kind: &str, port: u16, password: &Path) -> String {
    format!(
        "[uplink]\nproxy = \"{kind}://127.0.0.1:{port}\"\nproxy_user = \"{USER}\"\nproxy_password_file = {:?}\n",
        password.display().to_string()
    )
}

/// What both brokers of a pair have said.
fn said(pair: &Pair) -> String {
    let log = |name: &str| std::fs::read_to_string(pair.site.folder.path(name)).unwrap_or_default();
    log("a.log") + &log("b.log")
}

#[test]
fn sites_reach_a_router_over_tls_through_proxies_that_come_and_go() {
    let certificates = Certificates::new();
    let (mut router, ports) = secure_router(&certificates);
    let names = [("router.plant:7571", ports[0]), ("router.plant:7572", ports[1])];
    let (http, socks) = (Proxy::start(&names), Proxy::start(&names));
    let password = certificates.folder.write("password", PASSWORD);
    let joined = |name: &str, kind: &str, port: u16| {
        format!(
            "{PATIENT}[site]\nname = \"{name}\"\n[routers.r1]\naddress = \"router.plant:7571\"\npartner = \"router.plant:7572\"\n{}{}",
            proxied(kind, port, &password),
            certificates.lines(name, &["127.0.0.1"])
        )
    };
    let north = Pair::start(&joined("north", "http", http.port));
    let south = Pair::start(&joined("south", "socks5", socks.port));
    let receiver = Receiver::start(&south.site, "#");
    let family = Family { topics: 5, ..Family::patient()[0] };
    let probe = Family { name: "probe", topics: 1, ..family };
    let mut opening = Load::start(&north.site, &[probe]);
    receiver.wait_for_more(&opening.topics, 1);
    opening.stop();
    // The failover of a router behind proxies loses nothing.
    let mut load = Load::start(&north.site, &[family]);
    receiver.wait_for_more(&load.topics, 10);
    let primary = router.wait_for_protection();
    router.kill(primary);
    receiver.wait_for_more(&load.topics, 10);
    receiver.must_have(&load.stop());
    let both = names.map(|(name, _)| name);
    assert_eq!((http.asked(), socks.asked()), (both.map(str::to_owned).to_vec(), http.asked()));
    // A proxy that has gone is told, and tried again.
    let mut load = Load::start(&north.site, &[Family { name: "after", ..family }]);
    receiver.wait_for_more(&load.topics, 5);
    let port = http.port;
    drop(http);
    wait_until("what is said of it", || said(&north).contains("through the proxy"));
    let http = Proxy::start_at(port, &names);
    receiver.wait_for_more(&load.topics, 5);
    assert!(!http.asked().is_empty());
    load.stop();
}

#[test]
fn a_proxy_that_turns_the_site_away_is_told_with_what_to_do() {
    let [nowhere] = free_ports::<1>();
    let proxy = Proxy::start(&[("r1.plant:7571", nowhere)]);
    let folder = Folder::new();
    for (kind, password, says) in [
        ("http", "guessed", "turns the user away: correct uplink.proxy_user, or the password"),
        ("socks5", "guessed", "turns the user away: correct uplink.proxy_user, or the password"),
        ("http", PASSWORD, "does not connect to r1.plant:7571: 502 Bad Gateway"),
        ("socks5", PASSWORD, "does not connect to r1.plant:7571: the host cannot be reached"),
    ] {
        let file = folder.write("password", password);
        let site = "[site]\nname = \"north\"\n[routers.r1]\naddress = \"r1.plant:7571\"\n";
        let site = Site::new(&format!("{PATIENT}{site}{}", proxied(kind, proxy.port, &file)));
        let broker = site.start(0);
        wait_until("why the router is not reached", || broker.log().contains(says));
        let log = broker.log();
        assert!(log.contains(&format!("note: the proxy at 127.0.0.1:{}: it {says}", proxy.port)), "{log}");
    }
}

#[test]
fn what_names_routers_is_reached_through_the_proxy_too() {
    let Some(server) = Server::start() else { return };
    let coordinated =
        |servers: &str| format!("{PATIENT}[coordination]\nservers = [\"{servers}\"]\nsession = \"3s\"\n");
    let at_router = coordinated(&format!("127.0.0.1:{}", server.port));
    let router = Pair::start(&format!(
        "{at_router}[router]\nname = \"r1\"\naddress = \"r1.plant:7571\"\npartner = \"r1.plant:7572\"\n"
    ));
    let [first, _, second, _] = router.site.ports;
    let names = [("r1.plant:7571", first), ("r1.plant:7572", second), ("zk.plant:2181", server.port)];
    let proxy = Proxy::start(&names);
    let folder = Folder::new();
    let password = folder.write("password", PASSWORD);
    let joined = |name: &str, kind: &str| {
        let site = format!("[site]\nname = \"{name}\"\n{}", proxied(kind, proxy.port, &password));
        Pair::start(&(coordinated("zk.plant:2181") + &site))
    };
    let (north, south) = (joined("north", "http"), joined("south", "socks5h"));
    let receiver = Receiver::start(&south.site, "#");
    let family = Family { topics: 3, ..Family::patient()[0] };
    let mut load = Load::start(&north.site, &[family]);
    receiver.wait_for_more(&load.topics, 10);
    assert_eq!(proxy.asked(), names.map(|(name, _)| name));
    north.site.run(&["site", "tree"]).must(0, &["r1", "north", "south", "kept/0"]);
    // While the proxy is away nothing comes, and everything goes on when it is back.
    let port = proxy.port;
    drop(proxy);
    wait_until("what is said of it", || {
        said(&north).contains("no coordination service at zk.plant:2181 (the proxy at")
    });
    let _proxy = Proxy::start_at(port, &names);
    receiver.wait_for_more(&load.topics, 10);
    load.stop();
    // What is carried goes on before the service knows the sites again.
    wait_until("both sites in the tree", || {
        let shown = north.site.run(&["site", "tree"]).out;
        shown.contains("north") && shown.contains("south")
    });
}
