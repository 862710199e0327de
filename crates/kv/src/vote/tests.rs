use super::*;
use crate::KeyId;
use contract::Time;

fn decide(vote: &Vote, quorum: Quorum, values: &[(u8, &[u8])]) -> Option<Vec<u8>> {
    let bytes: Vec<u8> = values.iter().flat_map(|(_, value)| value.iter().copied()).collect();
    let mut at = 0;
    let mut entries = Vec::new();
    for (node, value) in values {
        let (node, len) = (Node(*node), value.len() as u16);
        entries.push(Entry { stamp: Time(1), key: KeyId(0), at, len, node });
        at += u32::from(len);
    }
    let mut out = [0; 16];
    let len = vote.decide(&Ballots { entries: &entries, bytes: &bytes }, quorum, &mut out)?;
    Some(out[..len].to_vec())
}

const FOUR: Quorum = Quorum { proposals: 3, electorate: Some(4), trim: 1 };

fn f64s(vote: &Vote, quorum: Quorum, numbers: &[f64]) -> Option<f64> {
    let values: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
    let values: Vec<(u8, &[u8])> =
        values.iter().enumerate().map(|(node, value)| (node as u8, value.as_slice())).collect();
    decide(vote, quorum, &values).map(|value| f64::from_le_bytes(value.try_into().unwrap()))
}

#[test]
fn a_majority_is_more_than_half_of_all_writers() {
    let values: [(u8, &[u8]); 4] = [(0, b"x"), (1, b"y"), (2, b"x"), (3, b"x")];
    assert_eq!(decide(&Vote::Majority, FOUR, &values), Some(b"x".to_vec()));
    assert_eq!(decide(&Vote::Majority, FOUR, &values[..3]), None, "two of four are not enough");
    let two_of_two = Quorum { electorate: None, ..FOUR };
    assert_eq!(decide(&Vote::Majority, two_of_two, &[(0, b"x"), (2, b"x")]), Some(b"x".to_vec()));
    let prefix: [(u8, &[u8]); 4] = [(0, b"x"), (1, b"x"), (2, b"xx"), (3, b"xx")];
    assert_eq!(decide(&Vote::Majority, FOUR, &prefix), None, "a beginning is not the whole");
}

#[test]
fn the_median_needs_2f_plus_1_numbers_and_takes_the_middle() {
    let median = Vote::Median(Format::F64);
    assert_eq!(f64s(&median, FOUR, &[5.0, 5.0, 7.0]), Some(5.0), "E1");
    assert_eq!(f64s(&median, FOUR, &[1.0, 9.0, 2.0, 4.0]), Some(3.0));
    assert_eq!(f64s(&median, FOUR, &[1.0, 9.0]), None);
    assert_eq!(f64s(&median, FOUR, &[1.0, 9.0, f64::NAN]), None, "NaN is dropped");
    assert_eq!(f64s(&median, FOUR, &[1.0, f64::INFINITY, 9.0, 2.0]), Some(2.0));
}

#[test]
fn a_liar_moves_neither_median_nor_trimmed_mean_out_of_the_correct_range() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..5_000 {
        let (n, f) = [(4, 1), (5, 1), (7, 2)][random.usize(..3)];
        let quorum = Quorum { proposals: 2 * f + 1, electorate: Some(n), trim: f };
        let correct: Vec<f64> = (f..n).map(|_| random.f64() * 10.0 - 5.0).collect();
        let lies = (0..f).map(|_| f64::from_bits(random.u64(..)));
        let all: Vec<f64> = lies.chain(correct.iter().copied()).collect();
        let lowest = correct.iter().copied().fold(f64::MAX, f64::min);
        let highest = correct.iter().copied().fold(f64::MIN, f64::max);
        for vote in [Vote::Median(Format::F64), Vote::TrimmedMean(Format::F64)] {
            let result = f64s(&vote, quorum, &all).unwrap();
            assert!((lowest..=highest).contains(&result), "{vote:?} of {all:?} is {result}");
        }
    }
}

#[test]
fn means_minima_and_maxima_are_what_they_say() {
    let numbers = [4.0, 1.0, 100.0, 3.0];
    assert_eq!(f64s(&Vote::TrimmedMean(Format::F64), FOUR, &numbers), Some(3.5));
    assert_eq!(f64s(&Vote::Min(Format::F64), FOUR, &numbers), Some(1.0));
    assert_eq!(f64s(&Vote::Max(Format::F64), FOUR, &numbers), Some(100.0));
    let weights = Vote::WeightedMean(Format::F64, Arc::new([1.0, 3.0, 0.0, 0.0]));
    assert_eq!(f64s(&weights, FOUR, &numbers), Some(1.75));
    let none = Vote::WeightedMean(Format::F64, Arc::new([0.0, 0.0, 0.0, 1.0]));
    assert_eq!(f64s(&none, FOUR, &numbers[..3]), None, "whoever has weight is silent");
}

#[test]
fn integers_and_texts_are_numbers_too() {
    let integers: Vec<[u8; 8]> = [i64::MAX, i64::MAX - 2, 7].map(i64::to_le_bytes).into();
    let integers: Vec<(u8, &[u8])> = integers.iter().zip(0..).map(|(v, node)| (node, v.as_slice())).collect();
    let median = decide(&Vote::Median(Format::I64), FOUR, &integers).unwrap();
    assert_eq!(median, (i64::MAX - 2).to_le_bytes());
    let texts: [(u8, &[u8]); 4] = [(0, b"1.5"), (1, b"15e-1"), (2, b"no"), (3, b"2")];
    assert_eq!(decide(&Vote::Median(Format::Decimal), FOUR, &texts), Some(b"1.5".to_vec()));
}

#[derive(Debug)]
struct Longest;

impl VoteFunction for Longest {
    fn name(&self) -> &str {
        "longest 1"
    }
    fn vote(&self, ballots: &Ballots<'_>, out: &mut [u8]) -> Option<usize> {
        let (_, longest) = ballots.iter().max_by_key(|(_, value)| value.len())?;
        put(out, longest)
    }
}

#[test]
fn a_function_of_the_user_decides_when_enough_have_proposed() {
    let values: [(u8, &[u8]); 3] = [(0, b"x"), (1, b"yyy"), (3, b"xx")];
    let vote = Vote::Custom(Arc::new(Longest));
    assert_eq!(decide(&vote, FOUR, &values), Some(b"yyy".to_vec()));
    assert_eq!(decide(&vote, FOUR, &values[..2]), None);
}
