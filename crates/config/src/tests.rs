use super::*;
use crate::testing::Scratch;

#[test]
fn a_section_that_is_written_as_a_key_is_said_to_be_one() {
    let report = Scratch::new("section", "coordination = \"static\"\n").load(&[], &[]).unwrap_err();
    assert!(report.contains("that is a section: its keys stand below [coordination]"), "{report}");
}

#[test]
fn an_empty_file_is_a_pair_on_this_host() {
    let config = Scratch::new("empty", "").load(&[], &[]).unwrap();
    assert_eq!(config.client_addresses(), "127.0.0.1:7571,127.0.0.1:7581");
    assert_eq!(config.delays, Delays::default());
    assert_eq!(config.detection, Detection::default());
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.links, Links::new(Links::default().iter().rev_copied()));
}

#[test]
fn who_gives_one_key_of_the_pair_on_this_host_keeps_the_rest() {
    let text = "[brokers.b]\nmqtt = \"127.0.0.1:2884\"\n[brokers.a]\nclients = \"127.0.0.1:9571\"\n";
    let config = Scratch::new("one-key", text).load(&[], &[]).unwrap();
    assert_eq!(config.client_addresses(), "127.0.0.1:9571,127.0.0.1:7581");
    let [a, b] = config.brokers.as_slice() else { panic!("{:?}", config.brokers) };
    assert!(a.starts_as_primary && a.http.is_some() && b.http.is_some());
    let mqtt = |broker: &BrokerAddress| broker.listeners.mqtt.as_ref().unwrap().to_string();
    assert_eq!((mqtt(a), mqtt(b)), ("127.0.0.1:1883".to_owned(), "127.0.0.1:2884".to_owned()));
    assert!(config.is_given("brokers.b.mqtt") && !config.is_given("brokers.a.mqtt"));
    // A broker that is whole may be alone.
    let text = "[brokers.a]\nclients = \"127.0.0.1:1\"\npair = \"127.0.0.1:2\"\n";
    let config = Scratch::new("alone", text).load(&[], &[]).unwrap();
    assert_eq!(config.brokers.len(), 1);
    assert!(config.brokers[0].http.is_none() && config.brokers[0].listeners.mqtt.is_none());
}

#[test]
fn listeners_at_all_addresses_are_named_by_a_host_that_others_reach() {
    let text = |pair: &str, clients: &str| {
        format!(
            "[brokers.a]\nclients = \"127.0.0.1:1\"\npair = \"127.0.0.1:2\"\n[brokers.b]\nclients = \"{clients}\"\npair = \"{pair}\"\n\
             mqtt = \"[::]:1883\"\nmqtt_ws = \"0.0.0.0:8083\"\n"
        )
    };
    let named = |pair: &str, clients: &str| {
        let config = Scratch::new("all-addresses", &text(pair, clients)).load(&[], &[]).unwrap();
        let references = config.brokers[1].listeners.mqtt_references.clone();
        let clients = config.client_addresses();
        let of_b = clients.split(',').nth(1).unwrap().to_owned();
        [references.plain.unwrap().into_string(), references.web_socket.unwrap().into_string(), of_b]
    };
    let named_by_clients = named("192.0.2.9:7572", "192.0.2.7:7571");
    assert_eq!(named_by_clients, ["192.0.2.7:1883", "192.0.2.7:8083", "192.0.2.7:7571"]);
    let named_by_pair = named("192.0.2.9:7572", "0.0.0.0:7571");
    assert_eq!(named_by_pair, ["192.0.2.9:1883", "192.0.2.9:8083", "192.0.2.9:7571"]);
    // On one host nobody knows its name, and clients have come by one.
    let on_one_host = named("127.0.0.1:7572", "[::]:7571");
    assert_eq!(on_one_host, [":1883", ":8083", "127.0.0.1:7571"]);
}

#[test]
fn a_store_is_kept_only_where_a_folder_is_named() {
    let store = Scratch::new("no-store", "").load(&[], &[]).unwrap().store;
    let given = host::StoreSettings::default();
    assert_eq!(store.folder, None);
    assert_eq!((store.commit_every, store.queue_bytes_max), (given.commit_every, given.queue_bytes_max));
    let text = "[store]\nfolder = \"/var/lib/verge/a\"\ncommit_every = \"20ms\"\nqueue = \"2MiB\"\n";
    let store = Scratch::new("store", text).load(&[], &[]).unwrap().store;
    let folder = Some(PathBuf::from("/var/lib/verge/a"));
    assert_eq!(store, StoreConfig { folder, commit_every: Span::millis(20), queue_bytes_max: 2 << 20 });
    let report = Scratch::new("small-store", "[store]\nqueue = 1000\n").load(&[], &[]).unwrap_err();
    assert!(report.contains("store.queue is 1000 bytes") && report.contains("verge.toml:2"), "{report}");
}

#[test]
fn the_data_thread_rests_for_operators_and_not_for_long() {
    let gather =
        |text: &str| Scratch::new("gather", text).load(&[], &[]).map(|config| config.realtime.gather);
    assert_eq!(gather(""), Ok(Span::micros(200)));
    assert_eq!(gather("[realtime]\ngather = \"0s\"\n"), Ok(Span::ZERO));
    let report = gather("[realtime]\ngather = \"2ms\"\n").unwrap_err();
    assert!(report.contains("realtime.gather is 2ms") && report.contains("verge.toml:2"), "{report}");
}

#[test]
fn the_data_thread_does_not_busy_poll_for_long() {
    let spin = |text: &str| Scratch::new("spin", text).load(&[], &[]).map(|config| config.realtime.busy_poll);
    assert_eq!(spin(""), Ok(None));
    assert_eq!(spin("[realtime]\nspin = \"auto\"\n"), Ok(None));
    assert_eq!(spin("[realtime]\nspin = \"0s\"\n"), Ok(Some(Span::ZERO)));
    assert_eq!(spin("[realtime]\nspin = \"1ms\"\n"), Ok(Some(Span::millis(1))));
    let report = spin("[realtime]\nspin = \"1001us\"\n").unwrap_err();
    assert!(report.contains("realtime.spin is 1.001ms") && report.contains("verge.toml:2"), "{report}");
    assert!(report.contains("give it at most 1ms"), "{report}");
}

trait RevCopied<T> {
    fn rev_copied(self) -> Vec<T>;
}

impl<'a, T: Copy + 'a, I: Iterator<Item = &'a T>> RevCopied<T> for I {
    /// Classes are read in the order of their names.
    fn rev_copied(self) -> Vec<T> {
        let mut all: Vec<T> = self.copied().collect();
        all.reverse();
        all
    }
}

#[test]
fn all_problems_are_shown_at_once_with_place_and_remedy() {
    let text = "\
[network]
failover = \"10ms\"
[detection]
pol = \"5ms\"
misses = 0
[[topic]]
filter = \"a/#/b\"
period = 50
[[topic]]
filter = \"a\"
period = \"50ms\"
perod = \"50ms\"
link = \"radio\"
[nonsense]
x = 1
";
    let report = Scratch::new("problems", text)
        .load(&[("VERGE_LIMITS__STREAMS", "many")], &["limits.jobs"])
        .unwrap_err();
    for expected in [
        "verge.toml:4:1",
        "unknown key `detection.pol`",
        "did you mean `poll`?",
        "verge.toml:5:10",
        "whole number from 1 to 100",
        "verge.toml:7:10",
        "`#` may only be the last level",
        "verge.toml:8:10",
        "write for example \"50ms\"",
        "verge.toml:12:1",
        "did you mean `period`?",
        "unknown key `nonsense`",
        "environment variable VERGE_LIMITS__STREAMS",
        "--set limits.jobs",
        "network.failover (10ms) is shorter",
    ] {
        assert!(report.contains(expected), "lacks {expected:?}:\n{report}");
    }
    assert!(report.ends_with("problems in the configuration"), "{report}");
}

#[test]
fn a_variable_with_too_few_underscores_is_named() {
    let scratch = Scratch::new("underscore", "");
    let report = scratch.load(&[("VERGE_DETECTION_POLL", "8ms")], &[]).unwrap_err();
    assert!(report.contains("name it VERGE_DETECTION__POLL"), "{report}");
    assert!(scratch.load(&[("VERGE_PASSWORD", "secret")], &[]).is_ok());
}

#[test]
fn broken_syntax_is_shown_where_it_is() {
    let report = Scratch::new("syntax", "[network]\nfailover = = 3\n").load(&[], &[]).unwrap_err();
    assert!(report.contains("verge.toml:2:") && report.contains("not TOML"), "{report}");
}

#[test]
fn a_topic_that_an_earlier_filter_governs_is_named() {
    let topic = |filter: &str| format!("[[topic]]\nfilter = \"{filter}\"\nperiod = \"1s\"\n");
    let load = |filters: [&str; 2]| Scratch::new("governed", &filters.map(topic).concat()).load(&[], &[]);
    let report = load(["plant/#", "plant/+/alarm"]).unwrap_err();
    let expected = "an earlier filter, `plant/#`, matches every topic of `plant/+/alarm`";
    assert!(report.contains("verge.toml:5:10") && report.contains(expected), "{report}");
    assert!(load(["a", "a"]).is_err());
    assert!(load(["plant/+/alarm", "plant/#"]).is_ok());
}

#[test]
fn a_half_configured_broker_is_named() {
    let report =
        Scratch::new("half", "[brokers.left]\nclients = \"127.0.0.1:1\"\n").load(&[], &[]).unwrap_err();
    assert!(report.contains("[brokers.left] lacks `pair`"), "{report}");
}

#[test]
fn the_same_port_twice_is_named() {
    let text = "[brokers.a]\nclients = \"127.0.0.1:1\"\npair = \"127.0.0.1:1\"\n";
    let report = Scratch::new("port", text).load(&[], &[]).unwrap_err();
    assert!(report.contains("brokers.a.pair and brokers.a.clients are both 127.0.0.1:1"), "{report}");
}

#[test]
fn flags_win_over_the_environment_which_wins_over_files() {
    let scratch = Scratch::new("layers", "[detection]\npoll = \"9ms\"\nmisses = 3\nconnect = \"1ms\"\n");
    let fragments = scratch.0.join("conf.d");
    std::fs::create_dir_all(&fragments).unwrap();
    std::fs::write(fragments.join("10-site.toml"), "[detection]\nmisses = 4\n").unwrap();
    let config = scratch.load(&[("VERGE_DETECTION__POLL", "8ms")], &["detection.poll=7ms"]).unwrap();
    assert_eq!(config.detection.poll, Span::millis(7));
    assert_eq!(config.detection.misses, 4);
    let shown = |key: &str| config.effective.iter().find(|(path, ..)| path == key).unwrap().2.clone();
    assert_eq!(shown("detection.poll"), "flag --set");
    assert!(shown("detection.misses").ends_with("10-site.toml:2"));
    assert!(shown("detection.connect").ends_with("verge.toml:4"));
    assert_eq!(shown("detection.retry"), "default");
}

#[test]
fn a_gap_is_longer_than_the_period_where_there_is_one() {
    let load = |period: &str, gap: &str| {
        let text = format!("[[topic]]\nfilter = \"a\"\nperiod = \"{period}\"\ngap = \"{gap}\"\n");
        Scratch::new("gap", &text).load(&[], &[]).map(|config| config.topics[0].rule.gap)
    };
    assert_eq!(load("1s", "1001ms"), Ok(Span::millis(1_001)));
    assert_eq!(load("inf", "10s"), Ok(Span::secs(10)));
    assert_eq!(load("inf", "inf"), Ok(Span::FOREVER));
    for (period, gap) in [("1s", "1s"), ("1s", "10ms"), ("inf", "0s")] {
        let report = load(period, gap).unwrap_err();
        assert!(
            report.contains("verge.toml:4") && report.contains("give gap more than the period"),
            "{report}"
        );
    }
}

#[test]
fn a_topic_has_the_defaults_of_its_contract() {
    let config = Scratch::new("topic", "[[topic]]\nfilter = \"a/+\"\nperiod = \"50ms\"\nretain = 2\n")
        .load(&[], &[])
        .unwrap();
    assert_eq!(config.topics[0].rule.contract, Contract::every(Span::millis(50)).retain(2));
    let text = "[[topic]]\nfilter = \"a\"\nperiod = \"1s\"\nloss = \"unbounded\"\n";
    let config = Scratch::new("effort", text).load(&[], &[]).unwrap();
    assert_eq!(config.topics[0].rule.contract, Contract::every(Span::secs(1)).best_effort());
}

/// Defaults that say whose value it is.
const OTHERS: [&str; 3] = ["= the period", "= that of the topic", "= limits.size_assumed"];

#[test]
fn the_commented_default_is_valid_when_its_comments_are_taken_away() {
    let text: String = default_text()
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.contains(" = ") || line.starts_with('['))
        .filter(|line| !OTHERS.iter().any(|other| line.ends_with(other)))
        .map(|line| format!("{line}\n"))
        .collect();
    let config =
        Scratch::new("default", &text).load(&[], &[]).unwrap_or_else(|report| panic!("{report}\n{text}"));
    assert_eq!(config.topics.len(), 1);
}

#[test]
fn a_duration_or_a_size_out_of_range_is_answered_with_the_range() {
    for (text, range) in [
        ("[detection]\npoll = \"0ms\"\n", "from \"1ms\" to \"10s\""),
        ("[detection]\nretry = \"1us\"\n", "from \"1ms\" to \"3600s\""),
        ("[mqtt]\nkeep_alive = \"0s\"\n", "from \"1s\" to \"65535s\""),
        ("[limits]\nstore = 0\n", "from 65536 to"),
        ("[limits]\nmemory = \"1KiB\"\n", "from 16777216 to"),
    ] {
        let problems = Scratch::new("ranges", text).load(&[], &[]).unwrap_err();
        assert!(problems.contains(range), "{problems}");
    }
}

#[test]
fn the_reference_is_true() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let written = std::fs::read_to_string(page).unwrap_or_default();
    assert!(written == reference(), "run `verge config reference > docs/configuration.md`");
}
