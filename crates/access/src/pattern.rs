//! Comparing filters with filters.
//!
//! Who asks to subscribe names a filter, and rules name patterns: filters with `%u` and `%c`. A pattern allows a filter if it
//! **covers** it: each topic that the filter means is meant by the pattern. It denies it if they **overlap**: some topic is
//! meant by both. A plain topic is a filter that means itself, so both questions then are whether the pattern matches.
//!
//! What makes this more than comparing levels: `#` also means the level above it; a wildcard in the first level means no topic
//! that begins with `$`; and as a topic has at least one level, `+/#` means the same as `#`.

use crate::caller::{Caller, Part};
use contract::{TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX};

/// Whether each topic that `asked` means is meant by `pattern` too.
pub(crate) fn covers(pattern: &str, asked: &str, caller: Caller<'_>) -> bool {
    let (mut wanted, mut given) = (pattern.split('/'), asked.split('/'));
    let mut first = true;
    loop {
        let part = wanted.next().map(|level| caller.allowing(level, first));
        let level = given.next();
        let own = first && level.is_some_and(|level| level.starts_with('$'));
        match (part, level) {
            (None, level) => return level.is_none(),
            (Some(Part::Never), _) => return false,
            (Some(Part::Rest | Part::Everything), _) => return !own,
            (Some(Part::Any), Some("#")) => return first && wanted.next() == Some("#"),
            (Some(Part::Any), Some(_)) if !own => {}
            (Some(Part::One(wanted)), Some(level)) if wanted == level => {}
            _ => return false,
        }
        first = false;
    }
}

/// Whether there is a topic that both `pattern` and `asked` mean.
pub(crate) fn overlaps(pattern: &str, asked: &str, caller: Caller<'_>) -> bool {
    let (mut wanted, mut given) = (pattern.split('/'), asked.split('/'));
    let mut first = true;
    loop {
        let part = wanted.next().map(|level| caller.denying(level));
        let level = given.next();
        let own = first && level.is_some_and(|level| level.starts_with('$'));
        match (part, level) {
            (None, None) | (Some(Part::Everything), _) => return true,
            (Some(Part::Rest), _) => return !own,
            (Some(Part::One(wanted)), Some("#")) => return !(first && wanted.starts_with('$')),
            (_, Some("#")) => return true,
            (Some(Part::Any), Some(_)) if !own => {}
            (Some(Part::One(wanted)), Some("+")) if !(first && wanted.starts_with('$')) => {}
            (Some(Part::One(wanted)), Some(level)) if wanted == level => {}
            _ => return false,
        }
        first = false;
    }
}

/// How many bytes of a pattern come before its first wildcard or placeholder, and the `/` before that. What a pattern covers
/// begins with them, and so does each plain topic that it overlaps with: most rules are passed over by comparing these bytes.
pub(crate) fn literal_len(pattern: &str) -> usize {
    let mut start = 0_usize;
    for level in pattern.split('/') {
        if matches!(level, "+" | "#" | "%u" | "%c") {
            return start.saturating_sub(1);
        }
        start += level.len() + 1;
    }
    pattern.len()
}

/// What is asked for, without the group of a shared subscription. `None` for what is no filter.
pub(crate) fn asked_filter(filter: &str) -> Option<&str> {
    let filter = match filter.strip_prefix("$share/") {
        None if filter == "$share" => return None,
        None => filter,
        Some(rest) => {
            let (group, filter) = rest.split_once('/')?;
            if !crate::caller::is_plain(group) {
                return None;
            }
            filter
        }
    };
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let wild = level.contains(['+', '#']);
        if wild && (level.len() > 1 || level == "#" && levels.peek().is_some()) {
            return None;
        }
    }
    is_sound(filter).then_some(filter)
}

/// What is asked for, if it is a plain topic.
pub(crate) fn asked_name(name: &str) -> Option<&str> {
    (is_sound(name) && !is_wild(name)).then_some(name)
}

/// Whether a text has a wildcard.
pub(crate) fn is_wild(text: &str) -> bool {
    text.bytes().any(|byte| byte == b'+' || byte == b'#')
}

fn is_sound(text: &str) -> bool {
    // One pass without branches; only what is not plain ASCII is looked at by character.
    let (mut slashes, mut odd) = (0, false);
    for byte in text.bytes() {
        slashes += usize::from(byte == b'/');
        odd |= !(0x20..0x7f).contains(&byte);
    }
    let fits = !text.is_empty() && text.len() <= TOPIC_BYTES_MAX && slashes < TOPIC_LEVELS_MAX;
    fits && !(odd && text.chars().any(char::is_control))
}

#[cfg(test)]
mod tests;
