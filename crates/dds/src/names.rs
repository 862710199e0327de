//! Under which topic of Verge a topic of DDS is carried: `dds/<domain>/<bridge>/<reliable or best-effort>/<partition, or ->/<topic>`.
//!
//! The bridge and the reliability are in it since a topic of Verge has one contract, and writers need not promise the same.

use crate::endpoint::{Endpoint, Reliability};

/// The first level of all of them.
pub const ROOT: &str = "dds";

/// The level below which bridges speak; none is called so.
const WORDS: &str = "bridges";

/// Where a bridge tells others what there is in its domain.
pub fn words_topic(domain: u32, bridge: &str) -> String {
    format!("{ROOT}/{domain}/{WORDS}/{bridge}")
}

/// Where all of them do.
pub fn words_filter(domain: u32) -> String {
    words_topic(domain, "+")
}

/// Whether a bridge speaks there.
pub(crate) fn is_words_topic(topic: &str) -> bool {
    let mut levels = topic.split('/');
    levels.next() == Some(ROOT) && levels.nth(1) == Some(WORDS)
}

/// Why this is no name of a bridge.
pub fn bad_bridge_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("it is empty"),
        WORDS => Some("bridges speak below that name"),
        _ if name.contains(['/', '+', '#', '$']) || name.chars().any(char::is_control) => {
            Some("it must be without `/`, `+`, `#` and `$`")
        }
        _ if name.len() > NAME_BYTES_MAX => Some("it has more than 64 bytes"),
        _ => None,
    }
}

/// The longest name of a bridge.
const NAME_BYTES_MAX: usize = 64;

/// The topic of Verge that carries a writer's samples.
pub fn topic(domain: u32, bridge: &str, endpoint: &Endpoint) -> String {
    let reliability = match endpoint.qos.reliability {
        Reliability::Reliable => "reliable",
        Reliability::BestEffort => "best-effort",
    };
    format!("{ROOT}/{domain}/{bridge}/{reliability}/{}", place(endpoint))
}

/// The last levels of it, `<partition, or ->/<topic>`. Levels of the topic stay levels; several partitions are one level, divided by commas.
pub fn place(endpoint: &Endpoint) -> String {
    let mut partitions: Vec<String> = endpoint
        .qos
        .partitions
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| escaped(name, &['/', ',', '*', '?', '[']))
        .collect();
    partitions.sort();
    let partitions = match partitions.join(",") {
        none if none.is_empty() => "-".to_owned(),
        dash if dash == "-" => "%2D".to_owned(),
        names => names,
    };
    format!("{partitions}/{}", escaped(&endpoint.topic, &[]))
}

/// What has a meaning in a topic of Verge, and these, are written as `%` and two digits.
fn escaped(name: &str, also: &[char]) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_control() || ['%', '+', '#'].contains(&letter) || also.contains(&letter) {
            let mut bytes = [0; 4];
            letter.encode_utf8(&mut bytes).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Guid, Qos};

    fn named(topic_name: &str, partitions: &[&str]) -> String {
        let partitions = partitions.iter().map(|name| (*name).to_owned()).collect();
        let qos = Qos { partitions, ..Qos::default() };
        let endpoint = Endpoint {
            guid: Guid::default(),
            writes: true,
            topic: topic_name.to_owned(),
            type_name: String::new(),
            qos,
        };
        topic(7, "here", &endpoint)
    }

    #[test]
    fn every_topic_has_a_name_of_its_own_that_verge_takes() {
        for (topic, partitions, expected) in [
            ("Square", &[][..], "dds/7/here/best-effort/-/Square"),
            ("Square", &[""], "dds/7/here/best-effort/-/Square"),
            ("rt/chatter", &[], "dds/7/here/best-effort/-/rt/chatter"),
            ("Square", &["-"], "dds/7/here/best-effort/%2D/Square"),
            ("Square", &["b/1", "a"], "dds/7/here/best-effort/a,b%2F1/Square"),
            ("a+b#c%d", &["x,y"], "dds/7/here/best-effort/x%2Cy/a%2Bb%23c%25d"),
            ("new\nline", &[], "dds/7/here/best-effort/-/new%0Aline"),
        ] {
            let name = named(topic, partitions);
            assert_eq!(name, expected);
            assert_eq!(contract::check_name(&name), Ok(()));
        }
    }
}
