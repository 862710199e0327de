//! The keys of links: one for each two nodes, known to these two alone. A key that all had would let one that lies speak for others.

use kv::LinkKey;
use std::collections::BTreeMap;

/// Why the keys of a node cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretsError {
    /// A line is no key.
    #[error(
        "line {0} is no key of a link: it must be `NAME = HEX` with 64 hexadecimal digits; make a new set with `verge kv secrets`"
    )]
    Line(usize),
    /// A peer has none.
    #[error(
        "there is no key for the link to node `{0}`: make a new set for all nodes with `verge kv secrets`"
    )]
    Missing(String),
}

/// For each node, the lines of its file: the key that it shares with each other one. `random` gives bytes that nobody can guess.
pub fn generate(names: &[String], mut random: impl FnMut(&mut [u8; 32])) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = names.iter().map(|name| (name.clone(), String::new())).collect();
    for one in 0..names.len() {
        for other in one + 1..names.len() {
            let mut key = [0; 32];
            random(&mut key);
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            files[one].1 += &format!("{} = {hex}\n", names[other]);
            files[other].1 += &format!("{} = {hex}\n", names[one]);
        }
    }
    files
}

/// The keys of the links of node `me` to all nodes in their order.
pub fn parse(text: &str, names: &[String], me: usize) -> Result<Vec<LinkKey>, SecretsError> {
    let mut keys = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once('=').and_then(|(name, hex)| Some((name.trim(), unhex(hex.trim())?)));
        let (name, key) = pair.ok_or(SecretsError::Line(number + 1))?;
        keys.insert(name, key);
    }
    let of = |(place, name): (usize, &String)| match keys.get(name.as_str()) {
        _ if place == me => Ok(LinkKey([0; 32])),
        Some(key) => Ok(LinkKey(*key)),
        None => Err(SecretsError::Missing(name.clone())),
    };
    names.iter().enumerate().map(of).collect()
}

/// Keys that everybody can make, for nodes that are all on one host.
pub fn public(names: &[String], me: usize) -> Vec<LinkKey> {
    let key = |other: usize| {
        let (low, high) = (&names[me.min(other)], &names[me.max(other)]);
        LinkKey(*blake3::hash(format!("verge kv, no secret\n{low}\n{high}").as_bytes()).as_bytes())
    };
    (0..names.len()).map(key).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    #[test]
    fn two_nodes_have_the_same_key_and_others_another() {
        let mut count = 0;
        let files = generate(&names(), |key| {
            count += 1;
            key.fill(count);
        });
        let keys: Vec<_> = (0..3).map(|me| parse(&files[me].1, &names(), me).unwrap()).collect();
        assert_eq!(keys[0][1].0, keys[1][0].0);
        assert_eq!(keys[0][2].0, keys[2][0].0);
        assert_ne!(keys[0][1].0, keys[0][2].0);
        assert_ne!(keys[1][2].0, keys[0][2].0);
    }

    #[test]
    fn a_bad_line_is_named_and_a_missing_peer_too() {
        assert!(matches!(parse("# keys\nb = zz", &names(), 0), Err(SecretsError::Line(2))));
        let only_b = format!("b = {}", "0a".repeat(32));
        assert!(matches!(parse(&only_b, &names(), 0), Err(SecretsError::Missing(name)) if name == "c"));
    }

    #[test]
    fn public_keys_are_the_same_at_both_ends() {
        assert_eq!(public(&names(), 0)[2].0, public(&names(), 2)[0].0);
        assert_ne!(public(&names(), 0)[1].0, public(&names(), 2)[0].0);
    }
}
