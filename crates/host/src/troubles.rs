//! What goes wrong with connections before a node knows them, or below it: counted by cause, and told once per cause and
//! second.

use crate::clock::now;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a connection was refused or given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Connections came faster than a door takes them; they wait in the system's queue.
    DoorPace,
    /// A door cannot be opened or closed.
    Doors,
    /// The address has as many connections as it may.
    AddressFull,
    /// As many clients are connected as may be.
    PlacesFull,
    /// More connections came by the partner's door than the partner has; the oldest is closed.
    PartnerFull,
    /// No descriptor is left; connections wait in the system's queue.
    Descriptors,
    /// More handshakes are under way than the limit allows; the one that has taken longest is given up.
    LobbyFull,
    /// A handshake took longer than it may.
    HandshakeLate,
    /// The peer closed during the handshake.
    HandshakeClosed,
    /// What came is no TLS, or breaks its rules.
    TlsBroken,
    /// The two sides have no version or cipher in common.
    TlsVersion,
    /// The peer does not accept our certificate.
    CertificateRefused,
    /// The peer showed no certificate, and must.
    CertificateMissing,
    /// The peer's certificate is not valid, or not yet, or not any more.
    CertificateTime,
    /// The peer's certificate was issued by somebody whom we do not know.
    CertificateUnknown,
    /// The peer's certificate is for another name.
    CertificateName,
    /// The peer's certificate is bad in another way.
    CertificateBad,
    /// What came is no request for a WebSocket, or not for one that is here.
    WebSocketRequest,
    /// A peer broke the rules of WebSocket.
    WebSocketBroken,
    /// A proxy makes no connection.
    Proxy,
}

/// How many causes there are.
const CAUSES: usize = Cause::ALL.len();

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 20] = [
        Cause::DoorPace,
        Cause::Doors,
        Cause::AddressFull,
        Cause::PlacesFull,
        Cause::PartnerFull,
        Cause::Descriptors,
        Cause::LobbyFull,
        Cause::HandshakeLate,
        Cause::HandshakeClosed,
        Cause::TlsBroken,
        Cause::TlsVersion,
        Cause::CertificateRefused,
        Cause::CertificateMissing,
        Cause::CertificateTime,
        Cause::CertificateUnknown,
        Cause::CertificateName,
        Cause::CertificateBad,
        Cause::WebSocketRequest,
        Cause::WebSocketBroken,
        Cause::Proxy,
    ];

    /// Its name among metrics.
    pub fn name(self) -> &'static str {
        match self {
            Cause::DoorPace => "door_pace",
            Cause::Doors => "doors",
            Cause::AddressFull => "address_full",
            Cause::PlacesFull => "places_full",
            Cause::PartnerFull => "partner_full",
            Cause::Descriptors => "descriptors",
            Cause::LobbyFull => "lobby_full",
            Cause::HandshakeLate => "handshake_late",
            Cause::HandshakeClosed => "handshake_closed",
            Cause::TlsBroken => "tls_broken",
            Cause::TlsVersion => "tls_version",
            Cause::CertificateRefused => "certificate_refused",
            Cause::CertificateMissing => "certificate_missing",
            Cause::CertificateTime => "certificate_time",
            Cause::CertificateUnknown => "certificate_unknown",
            Cause::CertificateName => "certificate_name",
            Cause::CertificateBad => "certificate_bad",
            Cause::WebSocketRequest => "websocket_request",
            Cause::WebSocketBroken => "websocket_broken",
            Cause::Proxy => "proxy",
        }
    }
}

/// Counts of all causes, and whoever is told of them.
pub struct Troubles {
    rows: [Row; CAUSES],
    say: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Row {
    count: AtomicU64,
    /// How many of them have not been told.
    untold: AtomicU64,
    /// The second in which one was told last.
    told: AtomicU64,
}

impl Troubles {
    /// Tells `say`, which must not wait: it is called by the data thread too.
    pub fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Troubles {
        Troubles { rows: std::array::from_fn(|_| Row::default()), say: Box::new(say) }
    }

    /// Counts one, and tells it if nothing of this cause has been told in this second.
    pub(crate) fn note(&self, cause: Cause, text: impl FnOnce() -> String) {
        self.note_at(now().0 / 1_000_000_000, cause, text);
    }

    fn note_at(&self, second: u64, cause: Cause, text: impl FnOnce() -> String) {
        let row = &self.rows[cause as usize];
        row.count.fetch_add(1, Ordering::Relaxed);
        if row.told.swap(second, Ordering::Relaxed) == second {
            row.untold.fetch_add(1, Ordering::Relaxed);
            return;
        }
        match row.untold.swap(0, Ordering::Relaxed) {
            0 => (self.say)(&text()),
            untold => (self.say)(&format!("{} (and {untold} more like it before)", text())),
        }
    }

    /// How often each cause has come.
    pub fn counts(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.iter().map(|cause| (*cause, self.rows[*cause as usize].count.load(Ordering::Relaxed)))
    }

    /// How often this cause has come.
    pub fn count(&self, cause: Cause) -> u64 {
        self.rows[cause as usize].count.load(Ordering::Relaxed)
    }
}

impl Default for Troubles {
    /// Only counts.
    fn default() -> Troubles {
        Troubles::new(|_| {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn each_cause_is_told_once_per_second_and_counted_always() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let troubles = Troubles::new(move |line| heard.lock().unwrap().push(line.to_owned()));
        let note = |second, cause| troubles.note_at(second, cause, || format!("{cause:?} at {second}"));
        note(7, Cause::TlsBroken);
        note(7, Cause::TlsBroken);
        note(7, Cause::TlsBroken);
        note(7, Cause::DoorPace);
        note(8, Cause::TlsBroken);
        let told = ["TlsBroken at 7", "DoorPace at 7", "TlsBroken at 8 (and 2 more like it before)"];
        assert_eq!(*lines.lock().unwrap(), told);
        assert_eq!((troubles.count(Cause::TlsBroken), troubles.count(Cause::DoorPace)), (4, 1));
    }

    #[test]
    fn every_cause_has_its_place_and_its_name() {
        let names: std::collections::BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), CAUSES);
        assert!(Cause::ALL.iter().enumerate().all(|(at, cause)| *cause as usize == at));
    }
}
