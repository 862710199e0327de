//! Pages made from the table of keys.

use super::schema::{KEYS, Key, REPEATED};

/// The commented default configuration.
pub fn default_text() -> String {
    let mut text = String::from(
        "# Verge. One file for all roles; every key has a default, so that an empty file is valid.\n\
         # Durations have units: ns, us, ms, s, min, h.\n",
    );
    let mut section = "";
    for key in KEYS {
        let (head, _) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if head != section {
            section = head;
            names(head).iter().for_each(|name| text.push_str(&default_section(head, name)));
        }
    }
    for section in REPEATED {
        text.push_str(&format!("\n# [[{}]]\n", section.name));
        for key in section.keys {
            text.push_str(&format!("# {}\n# {} = {}\n", key.doc, key.path, example(section.name, key)));
        }
    }
    text
}

/// What stands for `*` in the shown configuration: the store needs four nodes for one that lies.
fn names(section: &str) -> &'static [&'static str] {
    match section {
        "kv.nodes.*" => &["a", "b", "c", "d"],
        "link.*" => &["radio"],
        "routers.*" => &["r1"],
        "peers.*" => &["p1"],
        _ => &["a"],
    }
}

fn default_section(head: &str, shown: &str) -> String {
    let mut text = format!("\n# [{}]\n", head.replace('*', shown));
    for key in KEYS {
        let (section, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if section == head {
            let default = match key.path {
                "brokers.*.clients" => "\"127.0.0.1:7571\"",
                "brokers.*.pair" => "\"127.0.0.1:7573\"",
                "brokers.*.http" => "\"127.0.0.1:7570\"",
                "link.*.broker_to_subscriber" => "\"5ms\"",
                "link.*.confirmation" => "\"50ms\"",
                "site.name" => "\"north\"",
                "site.journal" => "\"/var/lib/verge/journal\"",
                "routers.*.address" => "\"192.0.2.1:7571\"",
                "peers.*.address" => "\"127.0.0.1:7610\"",
                "kv.nodes.*.address" => "\"127.0.0.1:760*\"",
                "kv.nodes.*.http" => "\"127.0.0.1:759*\"",
                _ => key.default,
            };
            let place = names(head).iter().position(|name| *name == shown).unwrap_or(0) + 1;
            text.push_str(&format!(
                "# {}\n# {name} = {}\n",
                key.doc,
                default.replace('*', &place.to_string())
            ));
        }
    }
    text
}

/// What is shown for a key without a default that could be written.
fn example(section: &str, key: &Key) -> &'static str {
    match key.path {
        "keep" if section == "topic" => "\"72h\"",
        "gap" => "\"10s\"",
        "filter" | "topic" => "\"turbine/+/vibration\"",
        "keys" => "[\"pendulum/angle\", \"sensor/{0..99}\"]",
        "writers" => "[\"a\", \"b\", \"c\"]",
        "slowest" => "\"200ms\"",
        "round" => "\"5ms\"",
        "horizon" => "\"2s\"",
        "batch_tuples_max" => "200",
        "inputs" => "[\"turbine/+/vibration\"]",
        "output" => "\"turbine/+/rms\"",
        "name" | "kind" => "\"rms\"",
        "period" | "deadline" => "\"50ms\"",
        "keep" => "\"all\"",
        "type" => "\"f32\"",
        "cost" => "\"100us\"",
        "level" => "\"low\"",
        _ => key.default,
    }
}

/// The reference for people, as Markdown.
pub fn reference() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         One file, `verge.toml`, serves all roles: both brokers, and the clients, which take the brokers' addresses from it.\n\
         It is looked for at `--config FILE`, then `./verge.toml`, then `/etc/verge/verge.toml`. Files of `conf.d/*.toml`\n\
         beside it are read after it, in the order of their names. Environment variables (`VERGE_DETECTION__POLL=5ms`) win\n\
         over files, `--set detection.poll=5ms` wins over everything. `verge config show` prints every effective value and\n\
         where it came from; `verge config default` prints a commented file; `verge check` prints what the analysis makes of\n\
         the topics.\n\n\
         Every key has a default: without a file, the pair is `a` (clients 127.0.0.1:7571, pair 127.0.0.1:7573, HTTP\n\
         127.0.0.1:7570, MQTT 127.0.0.1:1883, starts as primary) and `b` (7581, 7583, 7580, 1884, backup), both on this host. Any key of\n\
         these may be given alone.\n\n\
         SIGHUP makes a broker read its configuration again. It lists what differs and what becomes of it: topics, operators,\n\
         sources, APPLIED apply at once, other keys need a restart. The user file is read again too. Contracts of topics that\n\
         are published change while they go on, all of them or none: see [admission](admission.md#changing-contracts).\n\n\
         This page is made from the table of keys by `verge config reference`; a test keeps it true.\n",
    );
    let reloadable = KEYS.iter().filter(|key| key.reloadable);
    let applied: Vec<String> = reloadable.map(|key| format!("`{}`", key.path)).collect();
    text = text.replace("APPLIED", &applied.join(", "));
    let mut section = "";
    for key in KEYS {
        let (head, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if head != section {
            section = head;
            text.push_str(&format!(
                "\n## `[{}]`\n\n| key | takes | default | meaning |\n|---|---|---|---|\n",
                head.replace('*', "NAME")
            ));
        }
        text.push_str(&row(name, key));
    }
    for section in REPEATED {
        let introduction = match section.name {
            "topic" => "Contracts for families of topics. A publisher may also state its contract itself.",
            "source" => "What is known of a topic that feeds operators.",
            "lane" => {
                "A part of the key-value store with a period of its own. Its number is its place among them. See [kv.md](kv.md)."
            }
            "vote" => {
                "How what several nodes write under a key becomes one value. A key that none matches votes by majority."
            }
            "task" => "A periodic task beside the store. `verge kv check` says whether all of them fit.",
            _ => {
                "A step of processing. Every other key is a parameter of the kind: a number, `true` or `false`, a text, a \
                 duration,\na list of numbers or of texts, or a matrix. The kinds are in\n[operators.md](operators.md). `verge graph` shows what follows from all of them."
            }
        };
        text.push_str(&format!(
            "\n## `[[{}]]`\n\n{introduction}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n",
            section.name
        ));
        section.keys.iter().for_each(|key| text.push_str(&row(key.path, key)));
    }
    text
}

fn row(name: &str, key: &Key) -> String {
    // What is no value is said in words.
    let in_words = key.default.starts_with(char::is_alphabetic) && !["true", "false"].contains(&key.default);
    let default = match key.default {
        "" => "required".to_owned(),
        words if in_words => words.to_owned(),
        default => format!("`{default}`"),
    };
    format!("| `{name}` | {} | {default} | {} |\n", key.kind.describe(), key.doc)
}
