//! Which topics a filter means: from topic to topic through an ordered map, past those that the filter cannot mean.
//!
//! Topics are in the order of their bytes, and all that begin with `turbine/` are beside each other. A filter is answered by
//! going through the range of its literal beginning; one without wildcards is looked up. Where a topic in the range differs from
//! the filter, the walk jumps to the next one that may be meant: `turbine/+/speed` looks at about two topics of each turbine,
//! however many each has. A tree would not look at fewer, and would need a node for each level.

use crate::looks;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Comes after everything that begins with `/`, and before all else that does not come before `/`.
const AFTER_SLASH: char = '0';
/// Comes after everything that begins with `$`.
const AFTER_DOLLAR: char = '%';

/// Calls `each` for what `filter` means, in order, and looks at so many topics at most. Begins at `place`, or at the beginning
/// where it is empty. Says whether there is more; `place` is then where to go on, whatever comes and goes in between.
pub fn walk<K: Borrow<str> + Ord, T>(
    topics: &BTreeMap<K, T>,
    filter: &str,
    place: &mut String,
    looks_max: usize,
    each: &mut impl FnMut(&str, &T),
) -> bool {
    let Some(wildcard) = filter.find(['+', '#']) else {
        looks::count(1);
        if let Some(thing) = topics.get(filter) {
            each(filter, thing);
        }
        return false;
    };
    if place.is_empty() {
        // Without the `/` before the wildcard: `#` also means the level above it.
        let literal = filter.get(..wildcard).unwrap_or_default();
        place.push_str(literal.strip_suffix('/').unwrap_or(literal));
    }
    let (mut step, mut looks) = (Step::Jump, 0);
    while step == Step::Jump {
        step = Step::End;
        for (topic, thing) in topics.range::<str, _>((Bound::Included(place.as_str()), Bound::Unbounded)) {
            let topic = topic.borrow();
            if looks == looks_max.max(1) {
                place.clear();
                place.push_str(topic);
                return true;
            }
            looks += 1;
            looks::count(1);
            step = compare(filter, topic, place);
            match step {
                Step::Meant => each(topic, thing),
                Step::Next => {}
                Step::Jump | Step::End => break,
            }
        }
    }
    false
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    /// The filter means it.
    Meant,
    /// It does not, and nothing is known about the next one.
    Next,
    /// It does not, nor anything before a place that comes later.
    Jump,
    /// It does not, nor anything after it.
    End,
}

/// Whether a filter means a topic, and if not, where to look next: that is written to `place`.
fn compare(filter: &str, topic: &str, place: &mut String) -> Step {
    let mut jump = |kept: &str, level: &str, end: Option<char>| {
        place.clear();
        place.push_str(kept);
        place.push_str(level);
        place.extend(end);
        debug_assert!(place.as_str() > topic, "a jump from {topic} to {place}");
        Step::Jump
    };
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return jump("", "", Some(AFTER_DOLLAR));
    }
    // What has been compared, with the `/` after it, and what has not.
    let (mut passed, mut rest) = (0, Some(topic));
    for wanted in filter.split('/') {
        if wanted == "#" {
            return Step::Meant;
        }
        let Some(ahead) = rest else { return Step::Next };
        let level = ahead.split('/').next().unwrap_or_default();
        if wanted != "+" && wanted != level {
            let kept = topic.get(..passed).unwrap_or_default();
            return if ahead < wanted {
                jump(kept, wanted, None)
            } else if ahead.strip_prefix(wanted).is_some_and(|more| more < "/") {
                // As `oven-2` comes after `oven` and before `oven/heat`.
                jump(kept, wanted, Some('/'))
            } else if let Some(parent) = kept.strip_suffix('/') {
                jump(parent, "", Some(AFTER_SLASH))
            } else {
                Step::End
            };
        }
        passed += level.len() + 1;
        rest = topic.get(passed..);
    }
    match rest {
        None => Step::Meant,
        // Deeper than the filter, as is everything below this level.
        Some(_) => jump(topic.get(..passed - 1).unwrap_or_default(), "", Some(AFTER_SLASH)),
    }
}
