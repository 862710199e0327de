//! Words and numbers as coordinates: so that what begins alike, or lies near, stays near on the curve (rendezvous P1 to P3).
//!
//! The idea: a word is a number of radix 40, of which its first symbols are the highest digits. All that begins with the same letters is an interval
//! then. Words that differ only beyond [`SYMBOLS`] share a coordinate; whoever holds them tells them apart.

/// Symbols of a word that count.
pub(crate) const SYMBOLS: usize = 6;
const RADIX: u64 = 40;
/// 40 ^ 6: what all words are below.
const WORDS: u64 = RADIX.pow(SYMBOLS as u32);

/// The digit of a symbol; zero is none.
fn digit(symbol: char) -> u64 {
    match symbol {
        '0'..='9' => symbol as u64 - '0' as u64 + 1,
        'a'..='z' => symbol as u64 - 'a' as u64 + 11,
        'A'..='Z' => symbol as u64 - 'A' as u64 + 11,
        '-' => 37,
        '.' => 38,
        _ => 39,
    }
}

/// The number of a word.
pub(crate) fn number_of(word: &str) -> u64 {
    let digits = word.chars().map(digit).chain(std::iter::repeat(0)).take(SYMBOLS);
    digits.fold(0, |number, digit| number * RADIX + digit)
}

/// The numbers of the words that begin so: the least and the greatest.
pub(crate) fn numbers_beginning(prefix: &str) -> (u64, u64) {
    let length = prefix.chars().take(SYMBOLS).count() as u32;
    let least = number_of(prefix);
    (least, least + RADIX.pow(SYMBOLS as u32 - length) - 1)
}

/// The coordinate of a word's number, where coordinates have so many bits.
pub(crate) fn coordinate_of(number: u64, bits: u32) -> u32 {
    ((u128::from(number) << bits) / u128::from(WORDS)) as u32
}

/// The coordinate of a number between two others; of one beyond them it is that of the nearer one.
pub(crate) fn coordinate_between(number: f64, least: f64, most: f64, bits: u32) -> u32 {
    let share = ((number - least) / (most - least)).clamp(0.0, 1.0);
    let top = (1_u64 << bits) - 1;
    (share * top as f64) as u64 as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_have_the_numbers_of_the_page() {
        for (word, number, coordinate) in [
            ("", 0, 0),
            ("a", 1_126_400_000, 1_181_116_006),
            ("drone", 1_506_919_000, 1_580_119_097),
            ("lidar", 2_302_354_720, 2_414_193_902),
            ("thermal", 3_119_085_731, 3_270_598_439),
            ("z", 3_686_400_000, 3_865_470_566),
        ] {
            assert_eq!((number_of(word), coordinate_of(number_of(word), 32)), (number, coordinate), "{word}");
        }
    }

    #[test]
    fn what_begins_alike_is_an_interval() {
        assert_eq!(numbers_beginning("li"), (2_301_440_000, 2_303_999_999));
        let coordinates = |prefix| {
            let (least, most) = numbers_beginning(prefix);
            (coordinate_of(least, 32), coordinate_of(most, 32))
        };
        assert_eq!(coordinates("li"), (2_413_234_749, 2_415_919_102));
        assert_eq!(coordinates("dr"), (1_578_400_481, 1_581_084_834));
        assert_eq!(numbers_beginning("thermal"), (3_119_085_731, 3_119_085_731));
        assert_eq!(numbers_beginning(""), (0, WORDS - 1));
    }

    proptest! {
        #[test]
        fn a_word_lies_within_each_of_its_beginnings(word in "\\PC{0,9}", cut in 0_usize..9, bits in 1_u32..=32) {
            let prefix: String = word.chars().take(cut).collect();
            let (least, most) = numbers_beginning(&prefix);
            let number = number_of(&word);
            prop_assert!((least..=most).contains(&number));
            let coordinate = coordinate_of(number, bits);
            prop_assert!((coordinate_of(least, bits)..=coordinate_of(most, bits)).contains(&coordinate));
            prop_assert!(u64::from(coordinate) < 1 << bits);
        }

        #[test]
        fn greater_numbers_have_no_smaller_coordinates(a in -1e9_f64..1e9, b in -1e9_f64..1e9, bits in 1_u32..=32) {
            let of = |number| coordinate_between(number, -1e6, 1e7, bits);
            prop_assert!((a <= b) == (of(a) <= of(b)) || of(a) == of(b));
            prop_assert!(u64::from(of(a)) < 1 << bits);
        }
    }
}
