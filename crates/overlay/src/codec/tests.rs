use super::*;
use crate::rings::{Effects, News, Rings, Settings};
use contract::{Span, Time};
use proptest::prelude::*;

fn peers() -> impl Strategy<Value = PeerId> {
    // Few of them, so that frames are about the same ones.
    (0..5u8, 0..3u64)
        .prop_map(|(ring, life)| PeerId { ring: RingId::beginning_with(u128::from(ring), 8), life })
}

fn locations() -> impl Strategy<Value = Location> {
    (-90.0..=90.0, -180.0..=180.0).prop_map(|(lat, long)| Location::new(lat, long).unwrap())
}

fn members() -> impl Strategy<Value = Member> {
    (peers(), "[a-z]{0,8}", "[a-z:0-9]{0,12}", locations()).prop_map(|(id, name, address, location)| Member {
        id,
        name,
        address,
        location,
    })
}

fn ranks() -> impl Strategy<Value = Rank> {
    (prop_oneof![0..4u64, any::<u64>()], peers()).prop_map(|(epoch, master)| Rank { epoch, master })
}

fn words() -> impl Strategy<Value = Word> {
    (any::<bool>(), peers(), 0..40u8, any::<u32>()).prop_map(|(is_back, id, phase, hops)| {
        if is_back { Word::Back { id, phase, hops } } else { Word::Out { id, phase, hops } }
    })
}

fn claims() -> impl Strategy<Value = Claim> {
    (ranks(), members(), prop_oneof![Just([0xff; 32]), any::<[u8; 32]>()]).prop_map(
        |(rank, master, cells)| Claim { epoch: rank.epoch, master, cells: Cells::from_bytes(cells) },
    )
}

fn frames() -> impl Strategy<Value = Frame> {
    let sides = any::<bool>().prop_map(|up| if up { Side::Up } else { Side::Down });
    prop_oneof![
        Just(Frame::Discover),
        prop::collection::vec(claims(), 0..4).prop_map(|claims| Frame::Tree { claims }),
        locations().prop_map(|location| Frame::Join { location }),
        (ranks(), 0..4u64, prop::collection::vec(members(), 0..5))
            .prop_map(|(reign, version, members)| Frame::Table { reign, version, members }),
        (ranks(), 0..4u64, prop::collection::vec(members(), 0..3), prop::collection::vec(peers(), 0..3))
            .prop_map(|(reign, version, put, gone)| Frame::Changed { reign, version, put, gone }),
        Just(Frame::Full),
        (ranks(), 0..4u64, any::<u64>(), any::<bool>())
            .prop_map(|(reign, version, tree, asks)| Frame::Alive { reign, version, tree, asks }),
        Just(Frame::Stranger),
        Just(Frame::Leave),
        (ranks(), sides, words()).prop_map(|(reign, from, word)| Frame::Elect { reign, from, word }),
        ranks().prop_map(|reign| Frame::Reigns { reign }),
        ranks().prop_map(|reign| Frame::Probe { reign }),
        ranks().prop_map(|reign| Frame::Present { reign }),
    ]
}

/// Nothing is done with what a peer wants.
#[derive(Default)]
struct Ignored(usize);

impl Effects for Ignored {
    fn send(&mut self, _to: &Member, frame: Frame) {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        self.0 += bytes.len();
    }
    fn send_to_address(&mut self, _address: &str, _frame: Frame) {}
    fn tell(&mut self, _news: News) {}
}

proptest! {
    #[test]
    fn what_is_written_is_read(frame in frames(), member in members()) {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        prop_assert_eq!(Frame::decode(&bytes).unwrap(), frame);
        bytes.clear();
        member.append_to(&mut bytes);
        prop_assert_eq!(Member::decode(&bytes).unwrap(), member);
    }

    #[test]
    fn what_is_none_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Frame::decode(&bytes);
        let _ = Member::decode(&bytes);
    }

    /// Peers that say anything at any time, and links that break: this one goes on, and keeps no more than it may.
    #[test]
    fn a_peer_goes_on_whatever_others_say(
        said in prop::collection::vec((members(), frames(), 0..3_000i64, any::<bool>()), 1..60),
        own in members(),
    ) {
        let corner = |at: f64| Location::new(at, at).unwrap();
        let extent = crate::Extent::new(corner(-80.0), corner(80.0)).unwrap();
        let settings = Settings::new(extent, vec!["p0".to_owned()]);
        let mut now = Time(1_000_000_000_000);
        let mut rings = Rings::new(settings, own, now);
        let mut out = Ignored::default();
        for (from, frame, wait, breaks) in said {
            now = now + Span::millis(wait);
            rings.handle_timeout(now, &mut out);
            rings.handle_frame(now, &from, frame, &mut out);
            if breaks {
                rings.handle_lost(now, from.id, &mut out);
            }
            prop_assert!(rings.table().members.len() <= MEMBERS_MAX && rings.tree().claims().count() <= CELLS);
        }
    }
}

#[test]
fn what_is_too_long_is_said() {
    let location = Location::new(0.0, 0.0).unwrap();
    let long = Member { id: PeerId::default(), name: "n".repeat(65), address: String::new(), location };
    let mut bytes = Vec::new();
    long.append_to(&mut bytes);
    assert!(matches!(Member::decode(&bytes), Err(FrameError::TooMany("letters in a name"))));
    assert!(matches!(Frame::decode(&[13]), Err(FrameError::Unknown)));
    assert!(matches!(Frame::decode(&[1, 0x99, 0x01, 0x01]), Err(FrameError::TooMany("claims"))));
}
