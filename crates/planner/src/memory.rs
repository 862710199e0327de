//! How much memory a broker takes, and what is said of it when it starts.

use broker::Limits;
use config::Config;
use host::Allowance;

/// Where less is for the whole broker, nothing lies on huge pages: they are not given back.
pub const AMPLE: usize = 1 << 30;

/// The limits of a broker, with the memory that this host lets it have, and sentences where a limit is above that.
pub struct Shares {
    /// Of a broker.
    pub broker: Limits,
    /// Of its clients of MQTT.
    pub mqtt: mqtt::Limits,
    /// The sentences.
    pub notes: Vec<String>,
}

/// Divides the memory that a host allows; without a bound where it says nothing.
pub fn shares(config: &Config, allowed: Option<&Allowance>) -> Shares {
    shares_of(config.limits, config.mqtt, allowed)
}

fn shares_of(mut broker: Limits, mut mqtt: mqtt::Limits, allowed: Option<&Allowance>) -> Shares {
    let mut notes = Vec::new();
    if let Some(allowed) = allowed {
        let most = usize::try_from(allowed.usual()).unwrap_or(usize::MAX);
        if broker.memory_bytes == usize::MAX {
            broker.memory_bytes = most;
        } else if broker.memory_bytes > most {
            notes.push(format!(
                "limits.memory = {} is more than the {most} bytes that a broker should take of {} here ({}): lower it, or give it more memory",
                broker.memory_bytes, allowed.bytes, allowed.from
            ));
        }
    }
    if broker.memory_bytes == usize::MAX {
        return Shares { broker, mqtt, notes };
    }
    let (whole, sessions) = (broker.memory_bytes, broker.sessions().bytes);
    let mut above = |key: &str, value: usize, share: usize| {
        if value > share {
            notes.push(format!(
                "{key} = {value} is above its share of limits.memory, {share} of {whole} bytes, which holds"
            ));
        }
    };
    above("limits.store", broker.store_bytes, whole / 2);
    above("mqtt.queue", mqtt.queue_bytes, sessions);
    above("mqtt.retained", mqtt.retained_bytes, sessions);
    above("limits.subscriber_backlog", broker.subscriber_backlog_bytes, broker.subscribers().bytes);
    mqtt.queue_bytes = mqtt.queue_bytes.min(sessions);
    mqtt.retained_bytes = mqtt.retained_bytes.min(sessions);
    mqtt.filters_bytes = broker.filters().bytes;
    Shares { broker, mqtt, notes }
}

/// The bound and its parts, in a sentence.
pub fn describe(limits: &Limits) -> String {
    format!(
        "it takes at most {} of memory: {} for messages, {} for what waits for subscribers, {} each for what waits in sessions and what is \
         retained",
        size(limits.memory_bytes),
        size(limits.messages().bytes),
        size(limits.subscribers().bytes),
        size(limits.sessions().bytes)
    )
}

fn size(bytes: usize) -> String {
    match bytes {
        usize::MAX => "any amount".to_owned(),
        _ if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(mebibytes: u64) -> Allowance {
        Allowance { bytes: mebibytes << 20, from: "/proc/meminfo".to_owned(), available: None }
    }

    #[test]
    fn what_a_broker_takes_is_half_of_what_there_is_and_its_parts_are_less() {
        let shares = shares_of(Limits::default(), mqtt::Limits::default(), Some(&allowed(96)));
        let Limits { memory_bytes, .. } = shares.broker;
        assert_eq!(memory_bytes, 48 << 20);
        let parts = [shares.broker.messages(), shares.broker.subscribers(), shares.broker.sessions()]
            .map(|it| it.bytes >> 20);
        assert_eq!(parts, [24, 12, 3]);
        assert_eq!([shares.mqtt.queue_bytes, shares.mqtt.retained_bytes], [3 << 20; 2]);
        for said in ["limits.store = 2147483648", "mqtt.queue = 268435456", "mqtt.retained = 67108864"] {
            assert!(shares.notes.iter().any(|note| note.contains(said)), "{said}: {:?}", shares.notes);
        }
    }

    #[test]
    fn a_bound_above_what_there_is_holds_and_is_said() {
        let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
        let shares = shares_of(limits, mqtt::Limits::default(), Some(&allowed(96)));
        assert_eq!(shares.broker.memory_bytes, 64 << 20);
        assert!(
            shares.notes[0].contains("limits.memory = 67108864 is more than the 50331648 bytes"),
            "{}",
            shares.notes[0]
        );
        let unknown = shares_of(Limits::default(), mqtt::Limits::default(), None);
        assert_eq!((unknown.broker.memory_bytes, unknown.notes.len()), (usize::MAX, 0));
    }
}
