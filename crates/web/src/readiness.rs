//! What keeps a broker from serving, or from serving safely, with a remedy for each.

use broker::{Fact, JsonObject, Snapshot};
use wire::StoreState;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Debug)]
pub struct Reason {
    /// A name that stays the same.
    pub code: &'static str,
    /// Whether the broker does not serve because of it. Otherwise it serves, but not as safely as it should.
    pub blocking: bool,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub remedy: &'static str,
}

impl Reason {
    /// Whether what is promised is less safe because of it. That something is full endangers nothing that is there.
    pub fn endangers(&self) -> bool {
        !self.code.ends_with("_full")
    }
}

/// A table that is filled to this share is as good as full.
const FULL: f64 = 0.95;

/// Everything that is not as it should be. `None`: the data thread does not answer.
pub fn judge(snapshot: Option<&Snapshot>) -> Vec<Reason> {
    let Some(snapshot) = snapshot else {
        return vec![Reason {
            code: "stuck",
            blocking: true,
            text: "the data thread does not answer".to_owned(),
            remedy: "look for processes of a higher priority on its processor (`verge doctor`); restart the broker",
        }];
    };
    let mut reasons = Vec::new();
    find_what_stops(snapshot, &mut reasons);
    find_what_endangers(snapshot, &mut reasons);
    find_what_is_full(snapshot, &mut reasons);
    reasons
}

/// Why the broker does not serve.
fn find_what_stops(snapshot: &Snapshot, reasons: &mut Vec<Reason>) {
    let (full, limits) = (snapshot.occupancy, snapshot.limits);
    let mut add = |is_so: bool, code, text: String, remedy| {
        if is_so {
            reasons.push(Reason { code, blocking: true, text, remedy });
        }
    };
    add(
        snapshot.leaving,
        "leaving",
        "the broker has been asked to end".to_owned(),
        "start it again when it has ended",
    );
    add(
        !snapshot.knows_primary,
        "no_primary",
        "the broker is not primary and knows none".to_owned(),
        "start the other broker, or wait for detection.seek_primary or detection.seek_backup; see `verge status`",
    );
    add(
        is_full(full.jobs, limits.jobs),
        "overloaded",
        format!("{} of {} jobs wait", full.jobs, limits.jobs),
        "find the publishers that exceed their contracts (`verge status`), or raise limits.jobs",
    );
}

/// Why it does not serve as safely as it should.
fn find_what_endangers(snapshot: &Snapshot, reasons: &mut Vec<Reason>) {
    let mut add = |is_so: bool, code, text: String, remedy| {
        if is_so {
            reasons.push(Reason { code, blocking: false, text, remedy });
        }
    };
    add(
        snapshot.has_peer && snapshot.knows_primary && !snapshot.node.protected,
        "unprotected",
        "a crash now loses messages: there is no backup that knows everything".to_owned(),
        "start the other broker; where it runs, its log says why it does not stand by",
    );
    let store = snapshot.node.store;
    add(
        store == StoreState::GivenUp,
        "store_given_up",
        format!(
            "a write to the store has failed, and sessions and retained messages will not outlive a restart of both brokers: {}",
            snapshot.store_reason
        ),
        "mend the disk or free some space: the store comes back by itself, without a restart",
    );
    add(
        store == StoreState::ComingBack,
        "store_coming_back",
        format!("the store is being written anew, after it was given up: {}", snapshot.store_reason),
        "wait; if it does not come back, look at the disk",
    );
    let broken = snapshot.node.counters.results_broken;
    add(
        broken > 0,
        "results_refused",
        format!(
            "topics of results that operators make are refused, {broken} of them: none of their results is published"
        ),
        "see the log for the reasons, or `verge graph`; give operators more time, or topics a contract that can be kept",
    );
}

/// What is full, so that nothing further is taken.
fn find_what_is_full(snapshot: &Snapshot, reasons: &mut Vec<Reason>) {
    let (full, limits) = (snapshot.occupancy, snapshot.limits);
    let mut add = |is_so: bool, code, text: String, remedy| {
        if is_so {
            reasons.push(Reason { code, blocking: false, text, remedy });
        }
    };
    let planned = f64::from(snapshot.node.utilisation_ppm);
    add(
        snapshot.share_ppm > 0 && planned >= FULL * f64::from(snapshot.share_ppm),
        "admission_full",
        format!(
            "the contracts take {:.1} % of a processor, and admission.share allows {:.1} %",
            planned / 1e4,
            f64::from(snapshot.share_ppm) / 1e4
        ),
        "new contracts will be refused: take some off this pair, or raise admission.share",
    );
    let bound = limits.messages();
    add(
        // They leave one part in sixteen to best effort.
        is_full(full.contract_bytes, bound.bytes / 16 * 15),
        "store_full",
        format!(
            "contracts have reserved {} of the {} bytes for messages, and messages without a loss bound have {} ({bound})",
            full.contract_bytes,
            bound.bytes,
            full.store_bytes.saturating_sub(full.contract_bytes)
        ),
        "what was admitted has its memory, new contracts will be refused: state smaller sizes, retain less, or raise limits.store or \
         limits.memory",
    );
    add(
        is_full(full.links, limits.links),
        "connections_full",
        format!("{} of {} connections are taken", full.links, limits.links),
        "raise limits.connections",
    );
    add(
        is_full(full.streams, limits.streams),
        "streams_full",
        format!("{} of {} streams are in use", full.streams, limits.streams),
        "a publisher of a further topic will be refused: raise limits.streams",
    );
    let figure =
        |name| snapshot.figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value as usize);
    for (used, most, code, things, remedy) in MQTT_LIMITS {
        if let (Some(used), Some(most)) = (figure(used), figure(most)) {
            add(most > 0 && is_full(used, most), code, format!("{used} of {most} {things}"), remedy);
        }
    }
}

/// What MQTT may have so much of: how much there is, the most, a code, what it is, and what to do.
const MQTT_LIMITS: [(&str, &str, &str, &str, &str); 5] = [
    (
        "verge_mqtt_sessions",
        "verge_mqtt_sessions_max",
        "mqtt_sessions_full",
        "MQTT sessions are in use",
        "further clients will be refused: raise mqtt.sessions, or let sessions end sooner (mqtt.session_expiry)",
    ),
    (
        "verge_mqtt_subscriptions",
        "verge_mqtt_subscriptions_max",
        "mqtt_subscriptions_full",
        "MQTT subscriptions are in use",
        "further ones will be refused: raise mqtt.subscriptions",
    ),
    (
        "verge_mqtt_filters_bytes",
        "verge_mqtt_filters_bytes_max",
        "mqtt_subscriptions_full",
        "bytes for filters of MQTT subscriptions are taken",
        "further ones will be refused: raise limits.memory, or use shorter filters or ones with fewer levels",
    ),
    (
        "verge_mqtt_retained_messages",
        "verge_mqtt_retained_messages_max",
        "mqtt_retained_full",
        "messages are retained",
        "messages of further topics will not be retained: raise mqtt.retained_messages, or clear what is old",
    ),
    (
        "verge_mqtt_retained_bytes",
        "verge_mqtt_retained_bytes_max",
        "mqtt_retained_full",
        "bytes of retained messages are taken",
        "messages of further topics will not be retained: raise mqtt.retained, or clear what is old",
    ),
];

fn is_full(used: usize, limit: usize) -> bool {
    used as f64 >= FULL * limit as f64
}

/// The reasons as one JSON document.
pub fn to_json(reasons: &[Reason]) -> String {
    let mut out = String::new();
    let ready = !reasons.iter().any(|reason| reason.blocking);
    out.push_str(if ready { "{\"ready\":true,\"reasons\":[" } else { "{\"ready\":false,\"reasons\":[" });
    for (index, reason) in reasons.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let mut object = JsonObject::begin(&mut out);
        object.field("code", Fact::Text(reason.code));
        object.field("blocking", Fact::Flag(reason.blocking));
        object.field("text", Fact::Text(&reason.text));
        object.field("remedy", Fact::Text(reason.remedy));
        object.end();
    }
    out.push_str("]}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Snapshot {
        let mut snapshot =
            Snapshot { has_peer: true, knows_primary: true, share_ppm: 800_000, ..Default::default() };
        snapshot.node.protected = true;
        snapshot
    }

    fn codes(snapshot: &Snapshot) -> Vec<&'static str> {
        judge(Some(snapshot)).iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn a_protected_pair_is_ready_without_reasons() {
        assert_eq!(judge(Some(&healthy())), []);
        assert_eq!(to_json(&[]), "{\"ready\":true,\"reasons\":[]}\n");
    }

    #[test]
    fn each_trouble_has_its_reason() {
        let with = |change: &dyn Fn(&mut Snapshot)| {
            let mut snapshot = healthy();
            change(&mut snapshot);
            codes(&snapshot)
        };
        assert_eq!(with(&|s| s.knows_primary = false), ["no_primary"]);
        assert_eq!(with(&|s| s.leaving = true), ["leaving"]);
        assert_eq!(with(&|s| s.node.store = StoreState::GivenUp), ["store_given_up"]);
        assert_eq!(with(&|s| s.node.store = StoreState::ComingBack), ["store_coming_back"]);
        assert_eq!(with(&|s| s.occupancy.jobs = s.limits.jobs), ["overloaded"]);
        assert_eq!(with(&|s| s.occupancy.streams = s.limits.streams), ["streams_full"]);
        let reserve = |s: &mut Snapshot| {
            let bytes = s.limits.messages().bytes;
            (s.occupancy.contract_bytes, s.occupancy.store_bytes) = (bytes - bytes / 16, bytes);
        };
        assert_eq!(with(&reserve), ["store_full"]);
        assert_eq!(
            with(&|s| s.occupancy.store_bytes = s.limits.messages().bytes),
            [""; 0],
            "best effort may have it"
        );
        assert_eq!(with(&|s| s.node.protected = false), ["unprotected"]);
        assert_eq!(with(&|s| s.node.utilisation_ppm = 800_000), ["admission_full"]);
        assert_eq!(with(&|s| s.occupancy.links = s.limits.links), ["connections_full"]);
        for (used, most, code, ..) in MQTT_LIMITS {
            let full = |share| with(&|s| s.figures = vec![(used, share), (most, 1_000)]);
            assert_eq!((full(1_000), full(100)), (vec![code], vec![]));
        }
        assert_eq!(judge(None)[0].code, "stuck");
    }

    #[test]
    fn a_primary_whose_backup_died_goes_on_serving() {
        let mut snapshot = healthy();
        snapshot.node.protected = false;
        let reasons = judge(Some(&snapshot));
        assert!(reasons.iter().all(|reason| !reason.blocking));
        let json: serde_json::Value = serde_json::from_str(&to_json(&reasons)).unwrap();
        assert_eq!(json["ready"], true);
        assert!(json["reasons"][0]["remedy"].as_str().unwrap().contains("start the other broker"));
    }

    #[test]
    fn a_broker_whose_store_was_given_up_goes_on_serving_and_says_why() {
        let mut snapshot = healthy();
        snapshot.node.store = StoreState::GivenUp;
        snapshot.store_reason.push_str("No space left on device");
        let json: serde_json::Value = serde_json::from_str(&to_json(&judge(Some(&snapshot)))).unwrap();
        assert_eq!(json["ready"], true);
        assert!(json["reasons"][0]["text"].as_str().unwrap().contains("No space left on device"));
    }

    #[test]
    fn a_broker_without_a_partner_is_not_reproached_for_it() {
        let mut snapshot = healthy();
        (snapshot.has_peer, snapshot.node.protected) = (false, false);
        assert_eq!(codes(&snapshot), [""; 0]);
    }
}
