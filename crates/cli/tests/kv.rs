//! The key-value store as its users see it: real nodes as processes, one of them killed, stopped and started again.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::http::{codes, get, sample};
use support::{Folder, Process, Ran, free_ports, wait_until};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Four nodes on this host.
struct Cluster {
    // Before the folder with their logs.
    nodes: Vec<Process>,
    config: PathBuf,
    folder: Folder,
    /// Where they show themselves.
    http: [u16; 4],
}

impl Cluster {
    fn start() -> Cluster {
        Cluster::start_in(Folder::new(), "")
    }

    /// The same with more votes, for which there are two more keys.
    fn start_in(folder: Folder, votes: &str) -> Cluster {
        let (ports, http) = (free_ports::<4>(), free_ports::<4>());
        let mut text = "[kv]\ndelay_max = \"5ms\"\n".to_owned();
        for ((name, port), http) in NAMES.iter().zip(ports).zip(http) {
            let socket = folder.path(&format!("{name}.sock"));
            text += &format!(
                "[kv.nodes.{name}]\naddress = \"127.0.0.1:{port}\"\nsocket = \"{}\"\nhttp = \"127.0.0.1:{http}\"\n",
                socket.display()
            );
        }
        text += "[[lane]]\nkeys = [\"mode\", \"force\", \"some\", \"second\", \"endless\"]\nperiod = \"100ms\"\npriority = \"auto\"\nvectors = 2\n\
                 [[vote]]\nfilter = \"force\"\nvote = \"median f64\"\n\
                 [[vote]]\nfilter = \"some\"\nwriters = [\"a\", \"b\", \"c\"]\n";
        text += votes;
        let config = folder.write("verge.toml", text);
        let mut cluster = Cluster { nodes: Vec::new(), config, folder, http };
        cluster.nodes = NAMES.iter().map(|name| cluster.node(name)).collect();
        wait_until("all nodes run", || cluster.status().iter().filter(|status| counts(status)).count() == 4);
        cluster
    }

    fn node(&self, name: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verge"));
        command.args(["kv", "node", name, "-c"]).arg(&self.config);
        Process::start(&mut command, self.folder.path(&format!("{name}.log")))
    }

    fn kv(&self, arguments: &[&str]) -> Ran {
        let config = self.config.display().to_string();
        let words = ["kv"].into_iter().chain(arguments.iter().copied()).chain(["-c", &config]);
        self.folder.run(words)
    }

    /// A put and what is got of it. A job that runs late on a busy host says so, and is left to the next.
    fn put_and_get(&self, key: &str, value: &str) {
        wait_until(&format!("`{key}` is `{value}`"), || {
            self.kv(&["put", key, value]).code == Some(0) && self.kv(&["get", key]).out.trim() == value
        });
    }

    /// Whether all nodes answer, know all, and hear each other.
    fn is_whole(&self) -> bool {
        let all = self.status();
        let whole = |status: &Value| {
            let last = &status["lanes"][0]["last"];
            last["sure"] == true && last["silent"].as_array().is_some_and(Vec::is_empty)
        };
        all.len() == NAMES.len() && all.iter().all(whole)
    }

    /// What all nodes that answer say.
    fn status(&self) -> Vec<Value> {
        let said = self.kv(&["status", "-o", "json"]);
        serde_json::from_str(&said.out).unwrap_or_default()
    }
}

fn counts(status: &Value) -> bool {
    status["lanes"][0]["jobs"]["counted"].as_u64().is_some_and(|jobs| jobs > 0)
}

#[test]
fn what_is_put_is_got_at_all_nodes_although_one_is_killed() {
    let mut cluster = Cluster::start();
    cluster.put_and_get("mode", "auto");
    wait_until("all answer", || cluster.is_whole());
    // Node d may not write it, and has it like the others.
    cluster.put_and_get("some", "of three");
    let refused = cluster.kv(&["put", "some", "of none", "-n", "d"]);
    assert!(refused.code == Some(2) && refused.err.contains("`writers`"), "{}", refused.err);
    cluster.nodes[3].kill();
    wait_until("it is silent", || cluster.kv(&["status"]).code == Some(1));
    cluster.put_and_get("force", "-2.5");
    // Three have proposed it, and all of them know who.
    let ran = cluster.kv(&["get", "force", "--vector", "-o", "json"]);
    let rows: Vec<Value> = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in &rows {
        assert_eq!(row["said"], serde_json::json!({ "a": "-2.5", "b": "-2.5", "c": "-2.5" }), "{row}");
    }
    let back = cluster.node("d");
    wait_until("it is back", || cluster.is_whole());
    assert_eq!(cluster.kv(&["status"]).code, Some(1), "it was away a moment ago");
    cluster.put_and_get("mode", "manual");
    drop(back);
}

#[test]
fn a_node_shows_how_it_is_to_whoever_watches_it() {
    let mut cluster = Cluster::start();
    wait_until("all are ready", || cluster.http.iter().all(|port| get(*port, "/readyz").0 == 200));
    let at = cluster.http[0];
    assert_eq!(get(at, "/healthz"), (200, "alive\n".to_owned()));
    let (code, page) = get(at, "/metrics");
    assert_eq!((code, sample(&page, "verge_kv_knows_all{lane=\"0\"} ")), (200, Some(1.0)), "{page}");
    assert_eq!(sample(&page, "verge_kv_peer_hears{lane=\"0\",peer=\"d\"} "), Some(1.0), "{page}");
    let (_, said) = get(at, "/api/v1/status");
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["node"], "a");
    cluster.nodes[3].kill();
    wait_until("it is not heard", || codes(&get(at, "/readyz").1).contains(&"silent".to_owned()));
    assert_eq!((get(at, "/readyz").0, get(at, "/readyz?strict").0), (200, 503), "one may be faulty");
    // Nor do two agree on anything where one of four may lie.
    cluster.nodes[2].kill();
    wait_until("it does not know", || get(at, "/readyz").0 == 503);
    let reasons = get(at, "/readyz").1;
    assert!(reasons.contains("\"unknown\"") && reasons.contains("\"remedy\""), "{reasons}");
}

#[test]
fn a_value_is_watched_as_it_becomes_visible_though_a_node_dies() {
    let mut cluster = Cluster::start();
    let printed = cluster.folder.path("watched");
    let mut command = Command::new(env!("CARGO_BIN_EXE_verge"));
    command.args(["kv", "watch", "mode", "-C", "1", "-o", "json", "-c"]).arg(&cluster.config);
    command.stdout(std::fs::File::create(&printed).unwrap());
    let mut watching = Process::start(&mut command, cluster.folder.path("watch.log"));
    let is_watched = |status: &Value| {
        let clients = status["lanes"][0]["clients"].as_array();
        clients.is_some_and(|clients| clients.iter().any(|client| client["name"] == "watch"))
    };
    wait_until("all are watched", || {
        cluster.status().iter().filter(|status| is_watched(status)).count() == 4
    });
    cluster.nodes[0].kill();
    wait_until("something is watched", || {
        let _ = cluster.kv(&["put", "mode", "auto"]);
        watching.child().try_wait().unwrap().is_some()
    });
    let row: Value = serde_json::from_slice(&std::fs::read(&printed).unwrap()).unwrap();
    assert_eq!((&row["key"], &row["value"]), (&Value::from("mode"), &Value::from("auto")));
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let cluster = Cluster::start();
    for (words, code, part) in [
        (&["get", "speed"][..], 1, "key `speed` is not configured"),
        (&["put", "force", "fast"], 2, "not a finite number"),
        (&["put", "mode", "auto", "--in", "0ms"], 2, "publishing time"),
        (&["put", "mode", "auto", "--in", "1min"], 2, "horizon"),
        (&["put", "mode", "a value that is longer than it may be"], 2, "value_bytes_max"),
        (&["get", "mode", "-n", "z"], 2, "there is no node `z`"),
        (&["get", "mode", "--lane", "7"], 1, "this node has no such lane"),
        (&["get", "speed", "--vector"], 1, "key `speed` is not configured"),
        (&["watch", "speed/#"], 2, "no key of lane 0 matches"),
        (&["node", "z"], 2, "there is no node `z`"),
        (&["node", "a"], 2, "is the node running already"),
    ] {
        let ran = cluster.kv(words);
        assert_eq!(ran.code, Some(code), "{words:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{words:?}: {}", ran.err);
    }
}

/// A vote whose `verge_run` has this body.
fn vote(body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
          (memory (export "memory") 1)
          (func (export "verge_abi_version") (result i32) (i32.const 1))
          (func (export "verge_input") (param $slot i32) (param i32) (param i64) (result i32)
            (i32.mul (i32.add (local.get $slot) (i32.const 1)) (i32.const 64)))
          (func (export "verge_run") (param $present i64) (result i64) {body}))"#
    );
    wat::parse_str(text).expect("it is one")
}

#[test]
fn a_vote_may_be_a_module_and_one_that_never_ends_holds_up_nothing_else() {
    let folder = Folder::new();
    // What node b proposed, and a vote that never comes to an end.
    folder.write("second.wasm", vote("(i64.const 549755813896)"));
    folder.write("endless.wasm", vote("(loop $again (br $again)) (i64.const 0)"));
    let cluster = Cluster::start_in(
        folder,
        "[[vote]]\nfilter = \"second\"\nmodule = \"second.wasm\"\n[[vote]]\nfilter = \"endless\"\nmodule = \"endless.wasm\"\nbudget = \"100us\"\n",
    );
    cluster.put_and_get("second", "8letters");
    wait_until("all answer", || cluster.is_whole());
    assert_eq!(cluster.kv(&["put", "endless", "x"]).code, Some(1), "it comes to no value");
    wait_until("it is told", || {
        log_of(&cluster, "a")
            .contains("votes came to no value, here and on all correct nodes: module endless.wasm")
    });
    let failed = cluster.status()[0]["lanes"][0]["votes_failed"].as_u64();
    assert!(failed.is_some_and(|failed| failed > 0), "{failed:?}");
    assert_eq!(cluster.kv(&["status"]).code, Some(1));
    cluster.put_and_get("mode", "auto");
}

fn log_of(cluster: &Cluster, node: &str) -> String {
    std::fs::read_to_string(cluster.folder.path(&format!("{node}.log"))).unwrap_or_default()
}

/// Four nodes in this network.
fn nodes(network: &str) -> String {
    let node =
        |(host, name): (usize, &&str)| format!("[kv.nodes.{name}]\naddress = \"{network}.{host}:7601\"\n");
    (1..).zip(&NAMES).map(node).collect()
}

#[test]
fn two_nodes_at_one_place_are_refused() {
    let folder = Folder::new();
    let check = |more: &str| {
        let text = format!("{}{more}[[lane]]\nkeys = [\"a\"]\n", nodes("127.0.0"));
        let file = folder.write("verge.toml", text).display().to_string();
        folder.run(["config", "check", &file])
    };
    assert_eq!(check("").code, Some(0), "{}", check("").err);
    let socket = |name: &str| {
        format!("[kv.nodes.{name}]\naddress = \"127.0.0.9:{name}\"\nsocket = \"/tmp/one.sock\"\n")
    };
    for (more, part) in [
        (
            "[kv.nodes.e]\naddress = \"127.0.0.1:7601\"\n".to_owned(),
            "kv.nodes.e.address and kv.nodes.a.address are both",
        ),
        (
            socket("e").replace(":e", ":1") + &socket("f").replace(":f", ":2"),
            "kv.nodes.f.socket and kv.nodes.e.socket are both /tmp/one.sock",
        ),
    ] {
        let ran = check(&more);
        assert_eq!(ran.code, Some(2), "{}", ran.out);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

#[test]
fn a_check_says_whether_tasks_and_store_fit() {
    let folder = Folder::new();
    let nodes = nodes("127.0.0");
    let lane = "[[lane]]\nkeys = [\"k/{0..99}\"]\nperiod = \"100ms\"\noffset = \"20ms\"\n";
    let task = |cost: &str| format!("[[task]]\nname = \"control\"\nperiod = \"100ms\"\ncost = \"{cost}\"\n");
    let check = |text: String| {
        let file = folder.write("verge.toml", text).display().to_string();
        folder.run(["kv", "check", &file, "-o", "json"])
    };
    let fits = check(format!("{nodes}{lane}{}", task("5ms")));
    assert_eq!(fits.code, Some(0), "{}", fits.out);
    let report: Value = serde_json::from_str(&fits.out).unwrap();
    assert!(report[0]["longest_batch"].as_u64().unwrap() >= 200, "{report}");
    let beyond = check(format!("{nodes}{lane}{}", task("70ms")));
    assert_eq!(beyond.code, Some(1), "{}", beyond.out);
}

#[test]
fn keys_of_links_are_made_once_and_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let nodes = nodes("192.0.2");
    let config =
        folder.write("verge.toml", format!("{nodes}[[lane]]\nkeys = [\"a\"]\n")).display().to_string();
    let keys = folder.path("keys").display().to_string();
    let made = folder.run(["kv", "secrets", &keys, "-c", &config]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let file = folder.path("keys").join("a.kv-keys");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 3);
    let again = folder.run(["kv", "secrets", &keys, "-c", &config]);
    assert_eq!(again.code, Some(2), "keys that are in use are not overwritten");
    let exposed = folder.run(["kv", "node", "a", "-c", &config]);
    assert_eq!(exposed.code, Some(2));
    assert!(exposed.err.contains("verge kv secrets"), "{}", exposed.err);
    // Keys that everybody can read are nobody's.
    let named = nodes.replace("192.0.2.", "127.0.0.");
    let named = named.replacen("7601\"\n", &format!("7601\"\nsecrets = \"{}\"\n", file.display()), 1);
    let open = folder.write("open.toml", format!("{named}[[lane]]\nkeys = [\"a\"]\n")).display().to_string();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = folder.run(["kv", "node", "a", "-c", &open]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("everybody on this host can read these keys"), "{}", refused.err);
}

#[test]
fn a_pendulum_stands_although_one_of_four_replicas_lies_and_its_node_is_killed() {
    let folder = Folder::new();
    let (picture, temporary) = (folder.path("drawn/pendulum.svg"), folder.path("temporary"));
    std::fs::create_dir(&temporary).unwrap();
    let out = picture.display().to_string();
    let words = ["kv", "demo", "--seconds", "6", "--period", "100ms", "--json", "--out", &out];
    let ran = folder.run_with(words, &[("TMPDIR", &temporary.display().to_string())]);
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    // How far the pole leans depends on how busy this host is; what is read does not.
    assert_eq!(report["agreement"]["disagreed"], 0, "{report}");
    assert!(report["agreement"]["compared"].as_u64().unwrap() > 100, "{report}");
    assert_eq!(ran.code, Some(i32::from(report["kept"] != true)), "{}", ran.err);
    assert_eq!(report["parts"].as_array().unwrap().len(), 5);
    for key in ["angle_with", "angle_without", "reads_percent", "writes_percent"] {
        assert!(
            report["parts"].as_array().unwrap().iter().all(|part| part[key].is_number()),
            "{key}: {report}"
        );
    }
    assert!(std::fs::read_to_string(&picture).unwrap().contains("d lies"));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "the demo leaves no folder behind");
}

/// A demo whose replicas run, and the folder in which it makes its own.
fn start_demo(folder: &Folder) -> (Process, PathBuf) {
    let temporary = folder.path("temporary");
    std::fs::create_dir(&temporary).expect("the folder is empty");
    let mut command = support::program(["kv", "demo"]);
    command.env("TMPDIR", &temporary);
    let demo = Process::start(&mut command, folder.path("demo.log"));
    wait_until("all replicas run", || demo.log().contains("with store"));
    (demo, temporary)
}

#[test]
fn a_demo_that_is_asked_to_end_leaves_nothing_behind() {
    let folder = Folder::new();
    let (mut demo, temporary) = start_demo(&folder);
    assert!(demo.terminate().is_some_and(|code| code == 2), "{}", demo.log());
    assert!(demo.log().contains("asked to end"), "{}", demo.log());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_behind() {
    let folder = Folder::new();
    let (mut demo, temporary) = start_demo(&folder);
    assert!(processes_naming(&temporary) >= 4, "each node is told where its configuration is");
    demo.kill();
    wait_until("all have ended", || processes_naming(&temporary) == 0);
}

/// How many processes have this path in an argument.
fn processes_naming(path: &Path) -> usize {
    let path = path.display().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let words = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    words.filter(|words| String::from_utf8_lossy(words).contains(&path)).count()
}
