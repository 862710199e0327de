//! Values, and what may be asked of them.

use crate::words::number_of;

/// The value of an attribute: a word, and the number that it is, where its attribute has numbers or it can be read as one.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    text: Box<str>,
    number: Option<f64>,
}

impl Value {
    pub(crate) fn word(text: &str) -> Value {
        Value { text: text.into(), number: None }
    }

    pub(crate) fn number(text: &str) -> Option<Value> {
        Some(Value { text: text.into(), number: Some(number(text)?) })
    }

    /// As it was written, with ASCII letters small.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number that it is.
    pub fn as_number(&self) -> Option<f64> {
        self.number
    }

    /// The one way of writing it, where equal ones have the same.
    pub(crate) fn canonical(&self) -> String {
        match self.number {
            // Zero has no sign.
            Some(number) => format!("{}", number + 0.0),
            None if self.text.contains([',', ';', '*', '=', ':']) || self.text.contains("..") => {
                format!("\"{}\"", self.text)
            }
            None if self.text.trim() != &*self.text || self.text.is_empty() => format!("\"{}\"", self.text),
            None => self.text.to_string(),
        }
    }

    /// Numbers are equal by value, however they are written.
    fn equals(&self, other: &Value) -> bool {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a == b,
            _ => self.text == other.text,
        }
    }
}

/// A number as it is written; infinite ones are none.
pub(crate) fn number(text: &str) -> Option<f64> {
    // What the library reads besides are words: `inf`, `nan`.
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
    let number = if begins { text.parse::<f64>().ok() } else { None };
    number.filter(|number| number.is_finite())
}

/// Numbers from one to another. Either end may belong to them or not, and be infinite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    from: f64,
    to: f64,
    with_from: bool,
    with_to: bool,
}

impl Bounds {
    /// All of them.
    pub const ALL: Bounds =
        Bounds { from: f64::NEG_INFINITY, to: f64::INFINITY, with_from: true, with_to: true };

    /// From one number to another, with both.
    pub fn new(from: f64, to: f64) -> Bounds {
        Bounds { from, to, with_from: true, with_to: true }
    }

    /// The numbers that begin so when they are written: of `40` those below 41, of `-74` those above -75.
    pub(crate) fn beginning(prefix: &str) -> Option<Bounds> {
        let start = number(prefix).filter(|_| !prefix.contains(['e', 'E']))?;
        let places = prefix.split_once('.').map_or(0, |(_, places)| places.len());
        let width = 10_f64.powi(-(places.min(300) as i32));
        Some(if prefix.starts_with('-') {
            Bounds { from: start - width, to: start, with_from: false, with_to: true }
        } else {
            Bounds { from: start, to: start + width, with_from: true, with_to: false }
        })
    }

    /// Where they begin.
    pub fn from(&self) -> f64 {
        self.from
    }

    /// Where they end.
    pub fn to(&self) -> f64 {
        self.to
    }

    /// Whether a number is one of them.
    pub fn contain(&self, number: f64) -> bool {
        let above = number > self.from || (self.with_from && number == self.from);
        above && (number < self.to || (self.with_to && number == self.to))
    }
}

/// What is asked of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// That there is one.
    Any,
    /// That it is this one.
    Is(Value),
    /// That it begins so.
    Begins(Box<str>),
    /// That it is one of these words, by the order of their first six symbols: none, digits, letters, `-`, `.`, others. The ends belong to them.
    Words {
        /// The first of them.
        from: Option<Box<str>>,
        /// The last of them.
        to: Option<Box<str>>,
    },
    /// That it is one of these numbers.
    Numbers(Bounds),
}

impl Pattern {
    /// Whether a value is as this asks (rendezvous P6).
    pub fn matches(&self, value: &Value) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Is(wanted) => wanted.equals(value),
            Pattern::Begins(prefix) => value.text.starts_with(&**prefix),
            Pattern::Words { from, to } => {
                let number = number_of(&value.text);
                from.as_ref().is_none_or(|from| number_of(from) <= number)
                    && to.as_ref().is_none_or(|to| number <= number_of(to))
            }
            Pattern::Numbers(bounds) => value.number.is_some_and(|number| bounds.contain(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_said_by_how_they_begin() {
        for (prefix, within, without) in [
            ("40", [40.0, 40.999], [39.999, 41.0]),
            ("-74", [-74.0, -74.999], [-75.0, -73.999]),
            ("40.05", [40.05, 40.0583], [40.049, 40.06]),
            ("-0", [0.0, -0.5], [-1.0, 0.1]),
        ] {
            let bounds = Bounds::beginning(prefix).unwrap();
            assert!(within.iter().all(|number| bounds.contain(*number)), "{prefix}");
            assert!(without.iter().all(|number| !bounds.contain(*number)), "{prefix}");
        }
        assert!(["", "-", "x", "inf", "1e3"].iter().all(|prefix| Bounds::beginning(prefix).is_none()));
    }

    #[test]
    fn numbers_are_equal_by_value_and_words_by_letters() {
        let number = |text| Value::number(text).unwrap();
        assert!(Pattern::Is(number("12.5")).matches(&number("12.50")));
        assert!(!Pattern::Is(number("12.5")).matches(&Value::word("12.50")));
        assert!(!Pattern::Is(Value::word("12.5")).matches(&Value::word("12.50")));
        assert!(["nan", "inf", "infinity", "1e999", ""].iter().all(|text| Value::number(text).is_none()));
    }

    #[test]
    fn words_between_two_are_told_by_six_symbols() {
        let range = |from: Option<&str>, to: Option<&str>| Pattern::Words {
            from: from.map(Into::into),
            to: to.map(Into::into),
        };
        let matches = |pattern: &Pattern, word: &str| pattern.matches(&Value::word(word));
        let some = range(Some("b"), Some("lidar"));
        assert!(["b", "bat", "lidar", "k_"].iter().all(|word| matches(&some, word)));
        assert!(["a", "z", "lidars"].iter().all(|word| !matches(&some, word)));
        assert!(matches(&range(Some("thermal"), None), "thermax"), "their first six symbols are the same");
        assert!(matches(&range(None, Some("b")), "9"));
    }
}
