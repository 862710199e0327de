//! What a site's journal takes of the disk, and whether that is as much as it may.

use config::{Config, JournalConfig, TopicFamily};
use contract::Span;
use journal::{Forecast, Settings, bytes_for};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The answer for what a configuration keeps, for the journal of each broker.
#[derive(Serialize)]
pub struct Keeping {
    /// Whether all of it is kept for as long as it is to be, or until it has as many bytes as it may have by itself.
    pub kept: bool,
    /// So many bytes would do for that.
    pub enough_bytes: u64,
    /// Bytes that it takes at most: with payloads as long, and messages as frequent, as contracts say.
    pub needs_bytes: u64,
    /// Bytes that it may take.
    pub bytes_max: u64,
    /// By family of topics.
    pub topics: Vec<KeptFamily>,
}

/// The topics of one family.
#[derive(Serialize)]
pub struct KeptFamily {
    /// Its filter.
    pub filter: String,
    /// For how long its messages are to be kept.
    pub keep_s: f64,
    /// For how long there is room, if everything comes as contracts say.
    pub holds_s: f64,
    /// Messages in a second, of all streams; `None`: nobody knows, as of what is published by hand.
    pub messages_per_second: Option<f64>,
    /// Bytes of a message, at most.
    pub payload_bytes: u32,
    /// What it takes.
    pub needs_bytes: u64,
}

/// Bytes of a publisher's name that are reckoned with.
const PUBLISHER_BYTES: usize = 32;
/// Bytes of what stands between the parts of a stream's identity.
const BETWEEN: usize = 10;
/// Segments that are there beside those which are full of what is alive: the one that is written to, the oldest one, of which the first messages are out of
/// date, and one to copy into.
const MORE_SEGMENTS: u64 = 3;

/// Plans the journal. `None`: there is none.
pub fn keeping(config: &Config) -> Option<Keeping> {
    let like = config.site.as_ref()?.journal.as_ref()?;
    let settings = like.settings();
    let kept: Vec<&TopicFamily> = config.topics.iter().filter(|family| family.keep > Span::ZERO).collect();
    let topics = kept.len() as u64;
    let wants: Vec<u64> = kept.iter().map(|family| needs(family, topics, config, &settings)).collect();
    let within = |(family, wants): (&&TopicFamily, &u64)| family.keep_bytes.unwrap_or(u64::MAX).min(*wants);
    let needs: Vec<u64> = kept.iter().zip(&wants).map(within).collect();
    let segment = u64::from(settings.segment_bytes);
    let alive = needs.iter().fold(0, |all: u64, one| all.saturating_add(*one));
    // What has a rank of its own has a segment of its own that is written to.
    let ranks: BTreeSet<u8> = kept.iter().map(|family| family.keep_rank).collect();
    let more = MORE_SEGMENTS + (ranks.len() as u64).saturating_sub(1);
    let needs_bytes = in_segments(alive, more, segment);
    let room = like.bytes_max.saturating_sub(more * segment);
    // What is ranked before has its room first.
    let mut left = room;
    let mut shares = BTreeMap::new();
    for rank in ranks {
        let of_rank = kept.iter().zip(&needs).filter(|(family, _)| family.keep_rank == rank);
        let alive = of_rank.fold(0, |all: u64, (_, one)| all.saturating_add(*one));
        shares.insert(rank, if alive > left { left as f64 / alive as f64 } else { 1.0 });
        left = left.saturating_sub(alive);
    }
    let family = |((family, wants), needs): ((&&TopicFamily, &u64), &u64)| {
        let keep = family.keep.as_millis_f64() / 1e3;
        let limited = if needs < wants { *needs as f64 / *wants as f64 } else { 1.0 };
        let share = limited * shares.get(&family.keep_rank).copied().unwrap_or(1.0);
        KeptFamily {
            filter: family.rule.filter.to_string(),
            keep_s: keep,
            holds_s: keep * share,
            messages_per_second: rate(family),
            payload_bytes: payload(family, config),
            needs_bytes: *needs,
        }
    };
    let topics = kept.iter().zip(&wants).zip(&needs).map(family).collect();
    Some(Keeping {
        kept: alive <= room,
        enough_bytes: enough(like, alive, more),
        needs_bytes,
        bytes_max: like.bytes_max,
        topics,
    })
}

/// What so many bytes take that are alive, with the segments beside them.
fn in_segments(alive: u64, more: u64, segment: u64) -> u64 {
    alive.div_ceil(segment).saturating_add(more).saturating_mul(segment)
}

/// What the journal would have to have. Segments of a larger one are larger.
fn enough(like: &JournalConfig, alive: u64, more: u64) -> u64 {
    let mut bytes = like.bytes_max;
    for _ in 0..TRIES {
        let segment = u64::from(JournalConfig { bytes_max: bytes, ..like.clone() }.settings().segment_bytes);
        let needs = in_segments(alive, more, segment);
        if needs <= bytes {
            return bytes;
        }
        bytes = needs;
    }
    bytes
}

/// So often it is reckoned anew with larger segments, which soon are as large as they may be.
const TRIES: usize = 32;

fn rate(family: &TopicFamily) -> Option<f64> {
    let period = family.rule.contract.period;
    (!period.is_forever()).then(|| 1e3 * f64::from(family.streams) / period.as_millis_f64())
}

fn payload(family: &TopicFamily, config: &Config) -> u32 {
    match family.rule.contract.size {
        0 => config.limits.size_assumed as u32,
        size => size,
    }
}

/// What the messages of a family take.
fn needs(family: &TopicFamily, topics: u64, config: &Config, settings: &Settings) -> u64 {
    let Some(rate) = rate(family) else { return 0 };
    let items = rate * family.keep.as_millis_f64() / 1e3;
    let names = family.rule.filter.as_str().len();
    // So many that segments as a whole do not matter: the share of one message is what counts.
    let many = 1_u64 << 40;
    let forecast = Forecast {
        items: many,
        payload_bytes: payload(family, config),
        identity_bytes: (BETWEEN + PUBLISHER_BYTES + names).min(usize::from(u16::MAX)) as u16,
        topics,
        name_bytes: names.min(usize::from(u16::MAX)) as u16,
    };
    (items * bytes_for(&forecast, settings) as f64 / many as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(more: &str) -> Keeping {
        answer_with("1GiB", more)
    }

    fn answer_with(bytes: &str, more: &str) -> Keeping {
        let text = format!(
            "[brokers.a]\nclients = \"127.0.0.1:7571\"\nstart_as = \"primary\"\n[site]\nname = \"north\"\njournal = \"/j\"\n\
             journal_bytes = \"{bytes}\"\n[routers.r1]\naddress = \"r:7571\"\n{more}"
        );
        keeping(&config::testing::load("keeping", &text)).unwrap()
    }

    #[test]
    fn what_is_kept_takes_what_messages_and_what_belongs_to_them_take() {
        let topic = |keep: &str| {
            format!(
                "[[topic]]\nfilter = \"plant/+\"\nperiod = \"10ms\"\nstreams = 10\nsize = \"936B\"\nkeep = \"{keep}\"\n"
            )
        };
        let fits = answer(&topic("10min"));
        // 600 000 messages of about 1 KiB.
        let each = fits.topics[0].needs_bytes / 600_000;
        assert!(fits.kept && (1_000..1_100).contains(&each), "{each}");
        assert!((fits.topics[0].holds_s - 600.0).abs() < 1e-6);
        let short = answer(&topic("1h"));
        let enough = short.enough_bytes;
        let text = format!("{enough}B");
        assert!(answer_with(&text, &topic("1h")).kept, "{text}");
        let holds = short.topics[0].holds_s;
        // 1 GiB less three segments.
        assert!(!short.kept && short.needs_bytes > 3 << 30 && (700.0..1_000.0).contains(&holds), "{holds}");
        assert!((short.topics[0].messages_per_second.unwrap() - 1_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_limit_of_its_own_and_a_rank_say_who_has_room() {
        let topic = |name: &str, more: &str| {
            format!(
                "[[topic]]\nfilter = \"{name}\"\nperiod = \"10ms\"\nstreams = 10\nsize = \"936B\"\nkeep = \"10min\"\n{more}\n"
            )
        };
        let limited = answer(&topic("plant/+", "keep_bytes = \"100MiB\""));
        let [family] = limited.topics.as_slice() else { panic!("one family") };
        // A sixth of what ten minutes take.
        assert!(limited.kept && family.needs_bytes == 100 << 20, "{}", family.needs_bytes);
        assert!((90.0..110.0).contains(&family.holds_s), "{}", family.holds_s);
        // Both together are more than there is: the first keeps all of it.
        let both = answer(&(topic("alarm/+", "keep_rank = 0") + &topic("plant/+", "")));
        assert!(!both.kept && (both.topics[0].holds_s - 600.0).abs() < 1e-6);
        assert!((100.0..500.0).contains(&both.topics[1].holds_s), "{}", both.topics[1].holds_s);
        let alike = answer(&(topic("alarm/+", "") + &topic("plant/+", "")));
        assert!((both.topics[1].holds_s..600.0).contains(&alike.topics[0].holds_s));
        assert!((alike.topics[0].holds_s - alike.topics[1].holds_s).abs() < 1e-6);
    }

    #[test]
    fn what_is_not_kept_takes_nothing_and_what_is_rare_is_not_known() {
        let answer = answer(
            "[[topic]]\nfilter = \"a\"\nperiod = \"1s\"\n[[topic]]\nfilter = \"b\"\nperiod = \"inf\"\ndeadline = \"1s\"\nkeep = \"1h\"\n",
        );
        assert!(answer.kept && answer.topics.len() == 1 && answer.topics[0].messages_per_second.is_none());
    }
}
