//! What a broker shows of itself, over HTTP and to its service manager: real processes, raw sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use support::http::{codes, connect, get, read_all, sample};
use support::{Pair, Process, Site, WATCHDOG, free_ports, wait_for, wait_until};
use verge::{Contract, Span};

/// A pair whose brokers show themselves at these ports.
fn site(http: [u16; 2], more: &str) -> Site {
    let shown = format!(
        "[brokers.a]\nhttp = \"127.0.0.1:{}\"\n[brokers.b]\nhttp = \"127.0.0.1:{}\"\n",
        http[0], http[1]
    );
    let site = Site::new(more);
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    site.folder.write("conf.d/http.toml", shown);
    site
}

#[test]
fn a_pair_shows_what_it_carries() {
    let http = free_ports::<2>();
    let more = "[metrics]\nclasses_max = 1\n[[topic]]\nfilter = \"plant/+\"\nperiod = \"100ms\"\ndeadline = \"10s\"\n\
                [[topic]]\nfilter = \"yard/+\"\nperiod = \"100ms\"\ndeadline = \"10s\"\n";
    let mut pair = Pair::start_on(site(http, more));
    let client = pair.site.client();
    client.subscribe_with("#", |_| {}).unwrap();
    let plant = client.publisher_by_configuration("plant/x").unwrap();
    let yard = client.publisher_by_configuration("yard/x").unwrap();
    let configured = Contract::every(Span::millis(100)).deadline(Span::secs(10));
    assert_eq!(plant.contract(), Some(configured), "as the broker has it");
    for _ in 0..5 {
        plant.publish(b"12345678").unwrap();
        yard.publish(b"12345678").unwrap();
    }
    let page = wait_for("the dispatch of all messages", || {
        let (code, page) = get(http[0], "/metrics");
        assert_eq!(code, 200);
        (sample(&page, "verge_messages_dispatched_total ") == Some(10.0)).then_some(page)
    });
    assert_eq!(sample(&page, "verge_role{role=\"primary\"} "), Some(1.0));
    assert_eq!(sample(&page, "verge_protected "), Some(1.0));
    assert_eq!(sample(&page, "verge_dispatch_latency_seconds_count{class=\"plant/+\"} "), Some(5.0));
    assert_eq!(sample(&page, "verge_dispatch_latency_seconds_count{class=\"other\"} "), Some(5.0));
    assert!(!page.contains("yard"), "one class is allowed:\n{page}");
    assert_eq!(sample(&page, "verge_table_entries{table=\"streams\"} "), Some(2.0));
    assert!(sample(&page, "verge_process_resident_memory_bytes ").unwrap() > 1e6);
    let (_, other) = get(http[1], "/metrics");
    assert_eq!(sample(&other, "verge_role{role=\"backup\"} "), Some(1.0));

    assert_eq!(get(http[0], "/healthz"), (200, "alive\n".to_owned()));
    for port in http {
        let (code, body) = get(port, "/readyz?strict");
        assert_eq!((code, codes(&body)), (200, vec![]), "{body}");
    }
    let (code, body) = get(http[0], "/api/v1/status");
    assert_eq!(code, 200);
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status["brokers"].as_array().unwrap().len(), 2, "{body}");
    let shown: Value = serde_json::from_str(&pair.site.run(&["status", "--format", "json"]).out).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&status), keys(&shown), "both are the same document");

    let (code, body) = get(http[0], "/nonsense");
    assert!(code == 404 && body.contains("/readyz"), "{code} {body}");

    // The survivor serves, and says what is wrong.
    pair.kill(0);
    let body = wait_for("the other's reign", || {
        let (code, body) = get(http[1], "/readyz");
        (code == 200 && codes(&body) == ["unprotected"]).then_some(body)
    });
    assert!(body.contains("start the other broker"), "{body}");
    assert_eq!(get(http[1], "/readyz?strict").0, 503);
}

#[test]
fn a_broker_without_a_primary_is_not_ready() {
    let http = free_ports::<2>();
    let site = site(http, "[detection]\nseek_backup = \"1h\"\n");
    let process = site.start(1);
    let (code, body) = first_answer(&process, http[1], "/readyz");
    assert_eq!((code, codes(&body)), (503, vec!["no_primary".to_owned()]), "{body}");
    assert_eq!(get(http[1], "/healthz").0, 200, "it is alive all the same");
}

/// Waits until a broker listens.
fn first_answer(process: &Process, port: u16, path: &str) -> (u16, String) {
    wait_until("the broker's start", || process.log().contains("metrics at http://"));
    get(port, path)
}

#[test]
fn requests_are_limited_in_size_and_kind_and_strangers_do_not_stop_the_others() {
    let http = free_ports::<2>();
    let site = site(http, "");
    let process = site.start(0);
    assert_eq!(first_answer(&process, http[0], "/healthz").0, 200);
    // Nobody is held up by connections that say nothing, as long as they are fewer than the limit.
    let silent: Vec<TcpStream> = (0..web::CONNECTIONS_MAX - 1).map(|_| connect(http[0])).collect();
    assert_eq!(get(http[0], "/healthz").0, 200);
    drop(silent);
    // And where they are more, those that came first are closed for whoever comes with a request.
    let mut silent: Vec<TcpStream> = (0..2 * web::CONNECTIONS_MAX).map(|_| connect(http[0])).collect();
    assert_eq!(get(http[0], "/healthz").0, 200);
    let is_open = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    assert!(silent.iter_mut().any(is_open), "nobody had to wait for all of them to be cut off");
    drop(silent);

    let mut large = connect(http[0]);
    let header = format!("GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(4 * web::HEAD_BYTES_MAX));
    // It may be refused before all of it is written.
    let _ = large.write_all(header.as_bytes());
    let answer = read_all(large);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");

    for garbage in [
        "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03",
        "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        "GET /\0 HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = connect(http[0]);
        stream.write_all(garbage.as_bytes()).unwrap();
        let answer = read_all(stream);
        assert!(!answer.contains(" 200 "), "{garbage:?}: {answer}");
    }
    assert_eq!(get(http[0], "/healthz").0, 200);
}

#[test]
fn connections_that_are_given_up_before_they_are_clients_are_counted_by_cause() {
    let [a, b, door] = free_ports::<3>();
    let site = site([a, b], "");
    site.folder.write("conf.d/door.toml", format!("[brokers.a]\nmqtt_ws = \"127.0.0.1:{door}\"\n"));
    let process = site.start(0);
    let counted = |page: &str| sample(page, "verge_listener_troubles_total{cause=\"websocket_request\"} ");
    assert_eq!(counted(&first_answer(&process, a, "/metrics").1), Some(0.0));
    for _ in 0..3 {
        let mut stream = connect(door);
        stream.write_all(b"this is no request\r\n\r\n").unwrap();
        read_all(stream);
    }
    wait_until("three troubles", || counted(&get(a, "/metrics").1) == Some(3.0));
}

#[test]
fn a_port_that_is_taken_is_named_with_its_key() {
    let http = free_ports::<2>();
    let site = site(http, "");
    let _taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, http[0])).unwrap();
    let mut process = site.start(0);
    assert_eq!(process.wait_for_end(), Some(2));
    assert!(process.log().contains("brokers.a.http"), "{}", process.log());
}

/// What a manager has heard, up to something that begins like this.
fn hear(manager: &UnixDatagram, wanted: &str) -> Vec<String> {
    let mut heard = Vec::new();
    let mut bytes = [0; 1024];
    while !heard.last().is_some_and(|text: &String| text.starts_with(wanted)) {
        let length =
            manager.recv(&mut bytes).unwrap_or_else(|error| panic!("{wanted}: {error} after {heard:?}"));
        heard.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
    }
    heard
}

#[test]
fn a_service_manager_hears_of_the_start_of_life_of_a_reload_and_of_the_end() {
    let http = free_ports::<2>();
    let site = site(http, "");
    let path = site.folder.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(WATCHDOG)).unwrap();
    let watchdog = Duration::from_millis(400);
    let environment = [
        ("NOTIFY_SOCKET", path.to_str().unwrap().to_owned()),
        ("WATCHDOG_USEC", watchdog.as_micros().to_string()),
    ];
    let mut process = site.start_with(0, &environment);
    hear(&manager, "READY=1");
    hear(&manager, "WATCHDOG=1");
    hear(&manager, "STATUS=primary in epoch 1, UNPROTECTED");

    // Stopped, it cannot say that it is alive; going on, it does.
    process.signal(Signal::STOP);
    wait_until("that all its threads stop", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    });
    manager.set_nonblocking(true).unwrap();
    while manager.recv(&mut [0; 1024]).is_ok() {}
    std::thread::sleep(2 * watchdog);
    assert!(manager.recv(&mut [0; 1024]).is_err(), "a stopped process said something");
    manager.set_nonblocking(false).unwrap();
    process.signal(Signal::CONT);
    hear(&manager, "WATCHDOG=1");

    site.folder.write("conf.d/more.toml", "[log]\nformat = \"json\"\n[detection]\npoll = \"7ms\"\n");
    process.signal(Signal::HUP);
    let heard = hear(&manager, "RELOADING=1\nMONOTONIC_USEC=");
    assert!(!heard.iter().any(|text| text == "READY=1"), "{heard:?}");
    hear(&manager, "READY=1");
    for line in [
        "configuration: detection.poll: \"10ms\" -> \"7ms\" (needs a restart)",
        "configuration: log.format: \"text\" -> \"json\" (applies now)",
    ] {
        wait_until(line, || process.log().contains(line));
    }

    process.signal(Signal::TERM);
    hear(&manager, "STOPPING=1");
    assert_eq!(process.wait_for_end(), Some(0));
    let log = process.log();
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap_or_else(|_| panic!("{log}"));
    assert_eq!((last["kind"].as_str(), last["text"].as_str()), (Some("note"), Some("ended")));
}

#[test]
fn the_log_in_json_has_every_value_and_does_not_repeat_itself() {
    let http = free_ports::<2>();
    let site = site(http, "[log]\nformat = \"json\"\n[limits]\ngreeting = \"100ms\"\n");
    let process = site.start(0);
    first_answer(&process, http[0], "/healthz");
    // Connections that break the rules, all in the same way.
    let port = site.ports[0];
    for _ in 0..50 {
        let mut stranger = connect(port);
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: verge.example\r\n\r\n").unwrap();
        read_all(stranger);
    }
    let left_out = wait_for("the line about what was left out", || {
        let log = process.log();
        let objects =
            log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
        let expelled: Vec<Value> = objects.filter(|object| object["kind"] == "expelled").collect();
        let told = expelled.len() as u64;
        let left_out: u64 = expelled.iter().filter_map(|object| object["left_out"].as_u64()).sum();
        assert!(expelled.iter().all(|object| object["severity"] == "warn" && object["reason"].is_string()));
        (told + left_out == 50).then_some(left_out)
    });
    assert!(left_out > 0, "the same cause was told 50 times");
    let log = process.log();
    let promoted = log.lines().find(|line| line.contains("\"kind\":\"promoted\"")).unwrap();
    let promoted: Value = serde_json::from_str(promoted).unwrap();
    assert_eq!((promoted["broker"].as_str(), promoted["epoch"].as_u64()), (Some("a"), Some(1)));
}

#[test]
fn a_missed_deadline_is_told_of_and_counted() {
    let http = free_ports::<2>();
    let site = site(http, "[log]\nformat = \"json\"\n");
    let process = site.start(0);
    first_answer(&process, http[0], "/healthz");
    let client = site.client();
    client.subscribe_with("late", |_| {}).unwrap();
    let contract = Contract { deadline: Span::millis(20), ..Contract::every(Span::millis(100)) };
    let publisher = client.publisher("late", contract).unwrap();
    // The broker sleeps through the deadline.
    process.signal(Signal::STOP);
    publisher.publish(b"x").unwrap();
    std::thread::sleep(Duration::from_millis(400));
    process.signal(Signal::CONT);
    let line = wait_for("the alarm", || {
        process.log().lines().find(|line| line.contains("\"kind\":\"deadline_missed\"")).map(str::to_owned)
    });
    let alarm: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((alarm["topic"].as_str(), alarm["missed"].as_u64()), (Some("late"), Some(1)));
    assert!(alarm["by_seconds"].as_f64().unwrap() > 0.2, "{line}");
    let (_, page) = get(http[0], "/metrics");
    assert_eq!(sample(&page, "verge_deadline_missed_total{class=\"other\"} "), Some(1.0));
    assert_eq!(sample(&page, "verge_streams{state=\"broken\"} "), Some(1.0));
}

#[test]
fn the_unit_files_are_accepted_by_systemd() {
    let units = [
        ("verge@", include_str!("../../../packaging/verge@.service")),
        ("verge-kv@", include_str!("../../../packaging/verge-kv@.service")),
    ];
    for (name, unit) in units {
        assert!(unit.contains("Type=notify") && unit.contains("WatchdogSec="));
        let site = Site::new("");
        let here = unit.replace("/usr/bin/verge", env!("CARGO_BIN_EXE_verge"));
        let path = site.folder.write(&format!("{name}.service"), here);
        match std::process::Command::new("systemd-analyze").arg("verify").arg(&path).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && !said.contains(name), "{said}");
            }
            Err(_) => eprintln!("SKIPPED: there is no systemd-analyze here"),
        }
    }
}

#[test]
fn a_service_manager_that_is_not_there_is_no_reason_not_to_run() {
    let http = free_ports::<2>();
    let site = site(http, "");
    let nowhere = site.folder.path("nowhere").to_str().unwrap().to_owned();
    let process = site.start_with(0, &[("NOTIFY_SOCKET", nowhere)]);
    assert_eq!(first_answer(&process, http[0], "/healthz").0, 200);
    assert!(process.log().contains("NOTIFY_SOCKET cannot be told"), "{}", process.log());
}

#[test]
fn a_broker_keeps_processors_awake_where_that_is_wanted_and_does_no_harm() {
    let site = Site::new("");
    let spinners = |id: u32| {
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("awake-")).count()
    };
    for wanted in [false, true] {
        let mut broker = site.start_with(0, &[("VERGE_REALTIME__AWAKE", wanted.to_string())]);
        wait_until("the start", || broker.log().contains("clients at"));
        let log = broker.log();
        let by_kernel = log.contains("processors are kept awake: the kernel polls");
        let by_threads = log.contains("processors are kept awake by threads");
        // Under a quota of processor time, spinning would use it up.
        let refused = log.contains("lift its CPU quota");
        assert_eq!(
            [by_kernel, by_threads, refused].iter().filter(|one| **one).count(),
            usize::from(wanted),
            "{log}"
        );
        assert_eq!(spinners(broker.id()) > 0, by_threads, "{log}");
        assert_eq!(broker.terminate(), Some(0));
        std::fs::remove_file(site.folder.path("a.log")).unwrap();
    }
}

#[test]
fn a_status_of_two_pairs_says_so_and_is_no_success() {
    let folder = support::Folder::new();
    let ports: [u16; 8] = free_ports();
    let mut brokers = Vec::new();
    for (pair, ports) in ports.chunks(4).enumerate() {
        let [a, a_pair, b, b_pair] = *ports else { panic!("four each") };
        let config = folder.write(
            &format!("pair-{pair}.toml"),
            format!(
                "{}[brokers.a]\nclients = \"127.0.0.1:{a}\"\npair = \"127.0.0.1:{a_pair}\"\nstart_as = \"primary\"\n\
                 [brokers.b]\nclients = \"127.0.0.1:{b}\"\npair = \"127.0.0.1:{b_pair}\"\n",
                support::ORDINARY
            ),
        );
        for name in ["a", "b"] {
            let mut command =
                support::program(["broker", name, "--insecure", "--config", config.to_str().unwrap()]);
            let log = folder.path(&format!("{pair}-{name}.log"));
            brokers.push(Process::start(command.stdout(std::process::Stdio::null()), log));
        }
    }
    wait_until("that both pairs are protected", || {
        let is_protected = |broker: &Process| broker.log().contains(": protected: ");
        is_protected(&brokers[0]) && is_protected(&brokers[2])
    });
    let asked = |ports: [u16; 2]| {
        let addresses = ports.map(|port| format!("127.0.0.1:{port}"));
        let words = ["status", "-o", "json", "-h", &addresses[0], "-h", &addresses[1]];
        let ran = support::program(words).output().unwrap();
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        (ran.status.code(), report["other_pairs"].as_array().unwrap().len())
    };
    assert_eq!(asked([ports[0], ports[2]]), (Some(0), 0), "one pair");
    for other in [ports[4], ports[6]] {
        assert_eq!(asked([ports[0], other]), (Some(1), 1), "a broker of another pair");
    }
}

#[test]
fn a_status_is_given_where_native_clients_have_all_places() {
    let site = Site::new("[limits]\nconnections = 4\n");
    let broker = site.start(0);
    wait_until("that a broker reigns", || broker.log().contains("this broker is primary"));
    let clients: Vec<_> = (0..4).map(|_| site.client()).collect();
    let ran = site.run(&["status", "--format", "json"]);
    let shown: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    assert_eq!(shown["brokers"][0]["role"], "primary", "{}", ran.out);
    let fifth = verge::Client::builder().patience(Duration::from_secs(1)).connect(&site.addresses());
    assert!(fifth.is_err_and(|error| error.to_string().contains("limit of connections")));
    drop(clients);
}
