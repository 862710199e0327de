//! Numbers as people and their programs write them.
//!
//! The problem: `1.234` is a little more than one in most files, and more than a thousand in those that write `980,5` elsewhere. The idea: a
//! point or a comma says by itself what it is, unless there is only one and exactly three digits follow it; what it is then, the other cells
//! of the column tell.

use std::ops::AddAssign;

/// What begins decimals where a cell does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Decimal {
    #[default]
    Point,
    Comma,
}

/// What the numbers of a column show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Cells whose decimals begin with a point, and with a comma.
    points: u64,
    commas: u64,
    /// Cells with one point or comma before exactly three digits.
    either: [u64; 2],
    /// Cells with several points, and with several commas, which part thousands then.
    parting: [u64; 2],
    /// Cells with neither.
    whole: u64,
}

/// What parts groups of three digits besides a point and a comma: blanks and apostrophes.
const PARTING: [char; 6] = [' ', '\'', '\u{2019}', '\u{a0}', '\u{202f}', '\u{2009}'];
const MINUS: char = '\u{2212}';

/// Appends a finite number in the notation with a point. `None`, and nothing appended, for anything else.
pub(super) fn push(text: &mut String, cell: &str, decimal: Decimal) -> Option<Shown> {
    let start = text.len();
    let shown = write(text, cell, decimal).filter(|_| text[start..].parse().is_ok_and(f64::is_finite));
    if shown.is_none() {
        text.truncate(start);
    }
    shown
}

/// Whether it is one.
pub(super) fn is_one(cell: &str) -> bool {
    push(&mut String::new(), cell, Decimal::default()).is_some()
}

fn write(text: &mut String, cell: &str, decimal: Decimal) -> Option<Shown> {
    let (sign, digits) = match cell.strip_prefix(['-', MINUS]) {
        Some(digits) => ("-", digits),
        None => ("", cell.strip_prefix('+').unwrap_or(cell)),
    };
    let (mantissa, exponent) = digits.split_at(digits.find(['e', 'E']).unwrap_or(digits.len()));
    let (whole, fraction, shown) = halves(mantissa, decimal)?;
    text.push_str(sign);
    let grouped = whole.contains(|c: char| !c.is_ascii_digit());
    let mut groups = whole.split(|c: char| !c.is_ascii_digit());
    let first = groups.next().unwrap_or_default();
    if grouped && !(1..=3).contains(&first.len()) {
        return None;
    }
    text.push_str(first);
    for group in groups {
        (group.len() == 3).then(|| text.push_str(group))?;
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text.push_str(exponent);
    Some(shown)
}

/// What stands before and behind the decimals' beginning, and what that shows.
fn halves(mantissa: &str, decimal: Decimal) -> Option<(&str, Option<&str>, Shown)> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',') || PARTING.contains(&c);
    if !mantissa.chars().all(is_part) || !mantissa.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let count = |mark| mantissa.matches(mark).count();
    let (points, commas) = (count('.'), count(','));
    let none = Shown::default();
    let at = match (points, commas) {
        (0, 0) => return Some((mantissa, None, Shown { whole: 1, ..none })),
        (0, 1) | (1, 0) => mantissa.find(['.', ','])?,
        // Several of one kind part groups, and the only one of the other kind, behind them, begins decimals.
        (0, _) => return Some((mantissa, None, Shown { parting: [0, 1], ..none })),
        (_, 0) => return Some((mantissa, None, Shown { parting: [1, 0], ..none })),
        _ => mantissa.rfind(['.', ',']).filter(|at| count(char::from(mantissa.as_bytes()[*at])) == 1)?,
    };
    let (whole, fraction) = (&mantissa[..at], &mantissa[at + 1..]);
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let is_comma = mantissa.as_bytes()[at] == b',';
    let groups = fraction.len() == 3
        && (1..=3).contains(&whole.len())
        && whole.bytes().all(|byte| byte.is_ascii_digit())
        && !whole.starts_with('0');
    if groups && points + commas == 1 {
        let shown = Shown { either: if is_comma { [0, 1] } else { [1, 0] }, ..none };
        return Some(match is_comma == (decimal == Decimal::Comma) {
            true => (whole, Some(fraction), shown),
            false => (mantissa, None, shown),
        });
    }
    let shown = if is_comma { Shown { commas: 1, ..none } } else { Shown { points: 1, ..none } };
    Some((whole, Some(fraction), shown))
}

impl AddAssign for Shown {
    fn add_assign(&mut self, other: Shown) {
        self.points += other.points;
        self.commas += other.commas;
        self.either[0] += other.either[0];
        self.either[1] += other.either[1];
        self.parting[0] += other.parting[0];
        self.parting[1] += other.parting[1];
        self.whole += other.whole;
    }
}

impl Shown {
    /// What the cells of this column tell of what begins decimals.
    fn told(&self) -> Option<Decimal> {
        match (self.commas + self.parting[0]).cmp(&(self.points + self.parting[1])) {
            std::cmp::Ordering::Greater => Some(Decimal::Comma),
            std::cmp::Ordering::Less => Some(Decimal::Point),
            std::cmp::Ordering::Equal => None,
        }
    }

    /// What begins decimals in this column: by its cells, else by the other columns. Where nothing tells and no comma parts cells, one is more
    /// likely to begin decimals than to part thousands.
    pub(super) fn decimal(&self, others: Option<Decimal>, comma_parts_cells: bool) -> Decimal {
        let comma_alone = self.either[1] > 0 && self.either[0] == 0 && !comma_parts_cells;
        let alone = if comma_alone { Decimal::Comma } else { Decimal::Point };
        self.told().or(others).unwrap_or(alone)
    }

    /// Whether a comma begins the decimals of some.
    pub(super) fn has_commas(&self, decimal: Decimal) -> bool {
        self.commas > 0 || self.either[1] > 0 && decimal == Decimal::Comma
    }

    /// Whether the other columns decide that points or commas part thousands here.
    pub(super) fn parts_by_others(&self, others: Option<Decimal>) -> bool {
        let parted = |decimal| if decimal == Decimal::Comma { self.either[0] } else { self.either[1] };
        self.told().is_none() && others.is_some_and(|decimal| parted(decimal) > 0)
    }

    /// Whether points or commas may part thousands as well: nothing in the column tells, and what is below a thousand has none.
    pub(super) fn may_be_thousands(&self) -> bool {
        self.told().is_none() && self.either != [0, 0] && self.whole > 0
    }

    /// What all columns together tell, where none contradicts.
    pub(super) fn of_all<'a>(columns: impl Iterator<Item = &'a Shown>) -> Option<Decimal> {
        let mut told = columns.filter_map(Shown::told);
        let first = told.next()?;
        told.all(|other| other == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(cell: &str, decimal: Decimal) -> Option<String> {
        let mut text = String::new();
        push(&mut text, cell, decimal).map(|_| text)
    }

    #[test]
    fn numbers_are_read_as_they_are_written_anywhere() {
        for (cell, number) in [
            ("1.5", "1.5"),
            ("1,5", "1.5"),
            ("-3,50", "-3.50"),
            ("+7", "7"),
            ("\u{2212}12.25", "-12.25"),
            ("1'230.5", "1230.5"),
            ("1\u{202f}230,5", "1230.5"),
            ("1 230 000", "1230000"),
            ("1.231,5", "1231.5"),
            ("1,234,567.25", "1234567.25"),
            ("1.234.567", "1234567"),
            ("0,125", "0.125"),
            ("1234,500", "1234.500"),
            (".5", ".5"),
            ("5.", "5."),
            ("1.58e9", "1.58e9"),
            ("1,5E-3", "1.5E-3"),
            ("00123", "00123"),
        ] {
            assert_eq!(read(cell, Decimal::Point).as_deref(), Some(number), "{cell}");
            assert_eq!(read(cell, Decimal::Comma).as_deref(), Some(number), "{cell}");
        }
        for cell in [
            "",
            "-",
            "1.2.3",
            "1,2,3",
            "12 34",
            "1.234,5,6",
            "50%",
            "0x10",
            "inf",
            "nan",
            "1e999",
            "1,",
            "'123",
        ] {
            assert_eq!(read(cell, Decimal::Point), None, "{cell}");
        }
        assert_eq!(
            (read("1.234", Decimal::Point), read("1,234", Decimal::Point)),
            (Some("1.234".into()), Some("1234".into()))
        );
        assert_eq!(
            (read("1.234", Decimal::Comma), read("1,234", Decimal::Comma)),
            (Some("1234".into()), Some("1.234".into()))
        );
    }

    proptest! {
        /// Whatever is accepted is the number that a person reads, grouped and with either mark.
        #[test]
        fn what_was_written_comes_back(whole in 0_u64..10_000_000, cents in 0_u32..100, comma in any::<bool>(), parting in 0_usize..8) {
            let (mark, other) = if comma { (",", ".") } else { (".", ",") };
            let parting = ["", other, " ", "'", "\u{2019}", "\u{a0}", "\u{202f}", "\u{2009}"][parting];
            let digits = whole.to_string();
            let mut grouped = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) {
                    grouped.push_str(parting);
                }
                grouped.push(digit);
            }
            for decimal in [Decimal::Point, Decimal::Comma] {
                prop_assert_eq!(read(&format!("{grouped}{mark}{cents:02}"), decimal), Some(format!("{whole}.{cents:02}")));
            }
        }
    }
}
