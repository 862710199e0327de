use super::*;
use crate::table::MEMBERS_MAX;

/// What a peer says, and to whom.
#[derive(Default)]
struct Heard(Vec<(String, Frame)>);

impl Effects for Heard {
    fn send(&mut self, to: &Member, frame: Frame) {
        self.0.push((to.name.clone(), frame));
    }
    fn send_to_address(&mut self, _address: &str, _frame: Frame) {}
    fn tell(&mut self, _news: News) {}
}

fn member(number: u32) -> Member {
    let id = PeerId { ring: RingId::beginning_with(u128::from(number), 32), life: 1 };
    Member { id, name: format!("p{number}"), address: format!("p{number}"), location: middle() }
}

fn middle() -> Location {
    Location::new(1.0, 1.0).unwrap()
}

fn first() -> Rings {
    let extent = Extent::new(Location::new(0.0, 0.0).unwrap(), Location::new(2.0, 2.0).unwrap());
    Rings::new(Settings::new(extent.unwrap(), Vec::new()), member(0), START)
}

const START: Time = Time(1_000_000_000_000);

/// Who finds no room is told so, and those who are there stay.
#[test]
fn a_region_takes_no_more_members_than_it_may_have() {
    let (mut now, mut rings) = (START, first());
    let mut out = Heard::default();
    for _ in 0..10 {
        now = now + Span::secs(1);
        rings.handle_timeout(now, &mut out);
    }
    assert_eq!(rings.role(), Role::Master);
    for number in 1..MEMBERS_MAX as u32 + 2 {
        rings.handle_frame(now, &member(number), Frame::Join { location: middle() }, &mut out);
    }
    assert_eq!(rings.table().members.len(), MEMBERS_MAX);
    let full = |(to, frame): &(String, Frame)| (*frame == Frame::Full).then(|| to.clone());
    let refused: Vec<String> = out.0.iter().filter_map(full).collect();
    assert_eq!(refused, ["p1024", "p1025"]);
    // There is room again when somebody leaves.
    rings.handle_frame(now, &member(7), Frame::Leave, &mut out);
    rings.handle_frame(now, &member(1025), Frame::Join { location: middle() }, &mut out);
    assert!(rings.table().has(member(1025).id) && !rings.table().has(member(7).id));
}

/// A claim that nobody could follow is not heard, and nothing that comes with it.
#[test]
fn a_claim_far_ahead_of_all_others_is_not_heard() {
    let mut rings = first();
    let mut out = Heard::default();
    for epoch in [u64::MAX, 1 << 21, 7] {
        let claims = vec![Claim { epoch, master: member(1), cells: Cells::ALL }];
        rings.handle_frame(START, &member(1), Frame::Tree { claims }, &mut out);
        assert_eq!(rings.tree().epoch_of(Cells::ALL), if epoch == 7 { 7 } else { 0 });
    }
}
