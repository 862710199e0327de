use super::*;
use broker::{ClassCounts, Failing};
use std::collections::{BTreeMap, BTreeSet};
use wire::LevelStatus;

/// A metric that was read back.
#[derive(Default, Debug)]
struct Family {
    kind: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads the text format, as strictly as its description. Panics where the text is not in it.
fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line is not ended");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut helped = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && !families.contains_key(name), "{line}");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped, "TYPE follows the HELP of the same metric");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            current = name.to_owned();
            families.insert(current.clone(), Family { kind: kind.to_owned(), samples: Vec::new() });
        } else {
            let (name, labels, value) = parse_sample(line);
            let family = families.get_mut(&current).unwrap();
            let suffix = name.strip_prefix(&current).unwrap_or_else(|| panic!("{name} is among {current}"));
            let allowed: &[&str] =
                if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line}");
            family.samples.push((suffix.to_owned(), labels, value));
        }
    }
    families
}

fn parse_sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let name = &line[..end];
    assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'), "{line}");
    let mut labels = BTreeMap::new();
    let mut rest = &line[end..];
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            let mut value = String::new();
            let mut letters = after.char_indices();
            let close = loop {
                match letters.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => match letters.next().unwrap().1 {
                        'n' => value.push('\n'),
                        letter @ ('"' | '\\') => value.push(letter),
                        other => panic!("escaped {other} in {line}"),
                    },
                    (_, letter) => value.push(letter),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &after[close + 1..];
            match rest.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("{line}")))
}

/// A broker about which there is something to say for every metric.
fn snapshot() -> Snapshot {
    let mut latency = [0; LATENCY_BUCKETS.len() + 1];
    (latency[0], latency[4], latency[14]) = (3, 2, 1);
    let counts = ClassCounts {
        latency,
        latency_nanos: 1_500_000_000,
        missed: 4,
        lost: 5,
        longest_run: 2,
        ..ClassCounts::default()
    };
    let mut snapshot = Snapshot {
        name: "a".to_owned(),
        classes: vec![
            ("plant/\"7\"\\x\ny/+".to_owned(), counts),
            ("other".to_owned(), ClassCounts::default()),
        ],
        figures: METRICS
            .iter()
            .filter(|metric| metric.name.starts_with("verge_mqtt_"))
            .map(|metric| (metric.name, 7))
            .collect(),
        levels: vec![LevelStatus { level: 1, operators: 2, refused: 3, ..Default::default() }],
        failing: vec![Failing { operator: "mine".to_owned(), faults: [3, 2, 1] }],
        troubles: vec![("tls_broken", 3), ("door_pace", 0)],
        states: [7, 8, 9, 10],
        share_ppm: 800_000,
        ..Default::default()
    };
    snapshot.node.counters.arrived = u64::MAX;
    snapshot.node.standing = Standing::Backup;
    snapshot.occupancy.jobs = 11;
    snapshot
}

fn rendered() -> String {
    let snapshot = snapshot();
    let process = Some(ProcessUse { cpu_seconds: 1.25, resident_bytes: 1 << 20, ..Default::default() });
    render(&Reading { snapshot: &snapshot, process, answered_in: Duration::from_micros(30) })
}

#[test]
fn what_is_rendered_reads_back_as_the_table_says() {
    let families = parse(&rendered());
    let names: BTreeSet<&str> = families.keys().map(String::as_str).collect();
    let table: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names, table);
    for metric in METRICS {
        let family = &families[metric.name];
        assert_eq!(family.kind, metric.kind.as_str());
        assert!(!family.samples.is_empty(), "{} says nothing", metric.name);
        let mut seen = BTreeSet::new();
        for (suffix, labels, _) in &family.samples {
            let mut wanted: BTreeSet<&str> = metric.labels.iter().copied().collect();
            if suffix == "_bucket" {
                wanted.insert("le");
            }
            assert_eq!(labels.keys().map(String::as_str).collect::<BTreeSet<_>>(), wanted, "{}", metric.name);
            assert!(seen.insert((suffix, labels)), "{} has {labels:?} twice", metric.name);
        }
    }
}

#[test]
fn names_follow_the_rules_for_them() {
    for metric in METRICS {
        assert!(metric.name.starts_with("verge_"), "{}", metric.name);
        assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
        let bad = ["_ms", "_us", "_ns", "_millis", "_percent", "_kb", "_mb"];
        assert!(!bad.iter().any(|unit| metric.name.contains(unit)), "{} is not in base units", metric.name);
        assert!(metric.help.ends_with('.') && !metric.help.contains('\n'), "{}", metric.name);
        assert!(metric.labels.iter().all(|label| *label != "le"), "{}", metric.name);
    }
}

#[test]
fn histograms_are_cumulative_and_agree_with_their_count() {
    let families = parse(&rendered());
    let family = &families["verge_dispatch_latency_seconds"];
    let of_first = |suffix: &str| -> Vec<(String, f64)> {
        let first = family.samples.iter().filter(|(s, labels, _)| s == suffix && labels["class"] != "other");
        first.map(|(_, labels, value)| (labels.get("le").cloned().unwrap_or_default(), *value)).collect()
    };
    let buckets = of_first("_bucket");
    assert_eq!(buckets.len(), LATENCY_BUCKETS.len() + 1);
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1));
    assert_eq!(buckets[0], ("0.00005".to_owned(), 3.0));
    assert_eq!(buckets[4], ("0.001".to_owned(), 5.0));
    assert_eq!(buckets[14], ("+Inf".to_owned(), 6.0));
    assert_eq!(of_first("_count")[0].1, 6.0);
    assert_eq!(of_first("_sum")[0].1, 1.5);
}

#[test]
fn values_are_those_of_the_snapshot() {
    let families = parse(&rendered());
    let value = |name: &str, label: &str, text: &str| -> f64 {
        let samples = &families[name].samples;
        samples.iter().find(|(_, labels, _)| labels.get(label).is_some_and(|l| l == text)).unwrap().2
    };
    assert_eq!(value("verge_role", "role", "backup"), 1.0);
    assert_eq!(value("verge_role", "role", "primary"), 0.0);
    assert_eq!(value("verge_streams", "state", "broken"), 9.0);
    assert_eq!(value("verge_lost_total", "class", "plant/\"7\"\\x\ny/+"), 5.0);
    assert_eq!(value("verge_table_entries", "table", "jobs"), 11.0);
    assert_eq!(value("verge_level_refused_total", "level", "1"), 3.0);
    assert_eq!(families["verge_admission_limit_ratio"].samples[0].2, 0.8);
    assert_eq!(families["verge_process_cpu_seconds_total"].samples[0].2, 1.25);
}

#[test]
fn a_metric_about_which_nothing_is_known_is_left_out() {
    let snapshot = Snapshot::default();
    let text = render(&Reading { snapshot: &snapshot, process: None, answered_in: Duration::ZERO });
    let families = parse(&text);
    assert!(!families.contains_key("verge_process_threads") && !families.contains_key("verge_level_overdue"));
    assert!(families.contains_key("verge_epoch"));
}

#[test]
fn the_page_is_made_from_the_table() {
    let written = include_str!("../../../../docs/metrics.md");
    assert_eq!(written, page(), "write it anew with `cargo run --bin verge -- metrics > docs/metrics.md`");
}

/// Names of metrics in a text, with what the text format adds to those of histograms taken off.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let names = words.filter(|word| word.starts_with("verge_"));
    let histogram =
        |name: &str| METRICS.iter().any(|metric| metric.name == name && metric.kind == Kind::Histogram);
    names
        .map(|name| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            base.filter(|base| histogram(base)).unwrap_or(name).to_owned()
        })
        .collect()
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_exist() {
    for (file, text) in [
        ("verge.json", include_str!("../../../../packaging/grafana/verge.json")),
        ("alerts.yml", include_str!("../../../../packaging/prometheus/alerts.yml")),
    ] {
        let names = names_in(text);
        assert!(names.len() >= 5, "{file} asks for {names:?} only");
        for name in names {
            let known = METRICS.iter().any(|metric| metric.name == name)
                || NODE_METRICS.iter().any(|metric| metric.name == name)
                || SITE_METRICS.iter().any(|metric| metric.name == name);
            assert!(known, "{file} asks for `{name}`, which is no metric");
        }
    }
}

#[test]
fn the_dashboard_is_one() {
    let text = include_str!("../../../../packaging/grafana/verge.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{panel}");
        if panel["type"] != "row" {
            let targets = panel["targets"].as_array().unwrap();
            assert!(
                targets.iter().all(|target| target["expr"].is_string()) && !targets.is_empty(),
                "{panel}"
            );
        }
    }
}
