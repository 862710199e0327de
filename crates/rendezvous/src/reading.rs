//! How profiles and interests are written.

use crate::pattern::{Bounds, Pattern, Value, number};
use crate::space::{Kind, NAME_BYTES_MAX, Space, is_name, is_place};
use crate::terms::{Terms, TermsError};
use crate::words::number_of;

/// Elements that a profile or an interest may have.
pub const ELEMENTS_MAX: usize = 32;
/// Bytes that a word may have.
pub const WORD_BYTES_MAX: usize = 1_024;

/// Why something is no profile or no interest.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It says nothing.
    #[error("nothing is said: write for example `drone, lidar` or `kind=drone, sensor=li*`")]
    Empty,
    /// Something in it is no letter.
    #[error("a control character stands there, such as the end of a line: say it in one line of text")]
    Control,
    /// It says too much.
    #[error("{0} elements are above the limit of {ELEMENTS_MAX}")]
    TooMany(usize),
    /// One of its elements is none.
    #[error("element {number}, `{text}`: {why}")]
    Element {
        /// Which, from 1.
        number: usize,
        /// As it is written.
        text: String,
        /// What is wrong with it.
        why: WrongElement,
    },
    /// What is said of messages is wrong.
    #[error("{0}")]
    Terms(#[from] TermsError),
    /// A place that is none.
    #[error("{0}")]
    Location(String),
    /// One of two coordinates is there.
    #[error("a place has `lat` and `long`: say `{0}` as well")]
    HalfALocation(&'static str),
}

/// What is wrong with an element.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrongElement {
    /// There is nothing between two commas.
    #[error("nothing stands there: take a comma away, or give it a value")]
    Empty,
    /// A quotation mark has no other one.
    #[error("a quotation mark without another one: a value in quotation marks begins and ends with one")]
    Quote,
    /// A word above its limit.
    #[error("{0} bytes are above the limit of {WORD_BYTES_MAX}: pass what is long as data")]
    TooLong(usize),
    /// A name that is none.
    #[error("`{0}` names nothing: a name has 1 to {NAME_BYTES_MAX} bytes of a-z, 0-9, `_` and `-`")]
    Name(String),
    /// All dimensions have something.
    #[error("all dimensions have a value ({0}): name the attribute that it is of, as in `colour={1}`")]
    NoDimensionLeft(String, String),
    /// It is there twice.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// The space has no such attribute, and no others either.
    #[error("this space has no `{0}`, only {1}")]
    Unknown(String, String),
    /// A word where a number is to be.
    #[error("`{0}` is no number, and `{1}` has numbers")]
    NoNumber(String, String),
    /// A range that ends before it begins.
    #[error("the range ends before it begins: write `{to}..{from}`")]
    UpsideDown {
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// A `*` that is not at the end.
    #[error("`*` stands at the end of a word, or alone: put other words into quotation marks")]
    Star,
    /// A profile that says what is wanted.
    #[error("a profile says what is, not what is wanted: `*` and `..` are for interests")]
    NoValue,
}

/// What an element is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// A dimension, by its place.
    Dimension(usize),
    /// How far to the north something is.
    Latitude,
    /// How far to the east something is.
    Longitude,
    /// An attribute without a dimension: it is matched, and says nothing of where the profile lies.
    Other(Box<str>),
}

/// An element of a profile or an interest, and what it was taken for.
#[derive(Clone, PartialEq, Debug)]
pub struct Placed {
    /// Which, from 1.
    pub number: usize,
    /// As it is written.
    pub text: String,
    /// What it is of.
    pub at: At,
    /// What it says.
    pub pattern: Pattern,
}

impl Placed {
    /// It is in a profile, and says what is wanted.
    pub(crate) fn no_value(self) -> ProfileError {
        ProfileError::Element { number: self.number, text: self.text, why: WrongElement::NoValue }
    }
}

/// Reads the elements of a profile or an interest, and says what each was taken for.
pub fn read(space: &Space, text: &str) -> Result<Vec<Placed>, ProfileError> {
    if text.contains(char::is_control) {
        return Err(ProfileError::Control);
    }
    let (text, _) = split(text);
    let elements = elements(text);
    if elements.iter().all(|element| element.trim().is_empty()) {
        return Err(ProfileError::Empty);
    }
    if elements.len() > ELEMENTS_MAX {
        return Err(ProfileError::TooMany(elements.len()));
    }
    let wrong = |place: usize, text: &str, why| ProfileError::Element {
        number: place + 1,
        text: shortened(text),
        why,
    };
    let mut placed: Vec<Placed> = Vec::new();
    let mut unnamed = Vec::new();
    for (place, element) in elements.iter().map(|element| element.trim()).enumerate() {
        let (name, value) = parts(element);
        let at = match name {
            None => None,
            Some(name) => Some(at_name(space, name, &placed).map_err(|why| wrong(place, element, why))?),
        };
        match at {
            None => unnamed.push((place, element, value)),
            Some(at) => {
                let pattern = pattern(space, &at, value).map_err(|why| wrong(place, element, why))?;
                placed.push(Placed { number: place + 1, text: element.to_owned(), at, pattern });
            }
        }
    }
    // What has no name takes the dimensions of which nothing is said, in their order.
    for (place, element, value) in unnamed {
        let free = (0..space.dimensions().len())
            .find(|dimension| placed.iter().all(|other| other.at != At::Dimension(*dimension)));
        let Some(dimension) = free else {
            let why = WrongElement::NoDimensionLeft(names(space), shortened(value));
            return Err(wrong(place, element, why));
        };
        let at = At::Dimension(dimension);
        let pattern = pattern(space, &at, value).map_err(|why| wrong(place, element, why))?;
        placed.push(Placed { number: place + 1, text: element.to_owned(), at, pattern });
    }
    placed.sort_by_key(|placed| placed.number);
    Ok(placed)
}

/// What is said of something, and behind `;` what is said of its messages.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let mut quoted = false;
    text.split_once(|symbol| {
        quoted ^= symbol == '"';
        symbol == ';' && !quoted
    })
    .unwrap_or((text, ""))
}

/// What is said of messages.
pub(crate) fn terms(text: &str) -> Result<Terms, TermsError> {
    split(text).1.parse()
}

/// What stands between commas. Those within quotation marks are part of a value.
fn elements(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(|symbol| {
        quoted ^= symbol == '"';
        symbol == ',' && !quoted
    })
    .collect()
}

/// The name of an element, if it has one, and its value.
fn parts(element: &str) -> (Option<&str>, &str) {
    if !element.starts_with('"') {
        if let Some((name, value)) = element.split_once('=') {
            return (Some(name.trim()), value.trim());
        }
        // As the source writes places.
        if let Some((name, value)) = element.split_once(':')
            && is_place(&name.trim().to_ascii_lowercase())
        {
            return (Some(name.trim()), value.trim());
        }
    }
    (None, element)
}

fn at_name(space: &Space, name: &str, placed: &[Placed]) -> Result<At, WrongElement> {
    let name = name.to_ascii_lowercase();
    let at = match (&*name, space.find(&name)) {
        ("lat", _) => At::Latitude,
        ("long", _) => At::Longitude,
        (_, Some(place)) => At::Dimension(place),
        _ if !is_name(&name) => return Err(WrongElement::Name(shortened(&name))),
        _ if space.is_closed() => return Err(WrongElement::Unknown(name, names(space))),
        _ => At::Other(name.as_str().into()),
    };
    if placed.iter().any(|other| other.at == at) {
        return Err(WrongElement::Twice(name));
    }
    Ok(at)
}

/// What is said of something.
fn pattern(space: &Space, at: &At, text: &str) -> Result<Pattern, WrongElement> {
    if text.is_empty() {
        return Err(WrongElement::Empty);
    }
    if text.len() > WORD_BYTES_MAX {
        return Err(WrongElement::TooLong(text.len()));
    }
    let text = text.to_ascii_lowercase();
    let numbers = match at {
        At::Latitude => Some("lat"),
        At::Longitude => Some("long"),
        At::Other(_) => None,
        At::Dimension(place) => space
            .dimensions()
            .get(*place)
            .filter(|dimension| dimension.kind() != Kind::Words)
            .map(|dimension| dimension.name()),
    };
    let read = Reading { numbers, either: matches!(at, At::Other(_)) };
    if let Some(quoted) = text.strip_prefix('"') {
        let quoted = quoted.strip_suffix('"').filter(|quoted| !quoted.contains('"'));
        return read.value(quoted.ok_or(WrongElement::Quote)?).map(Pattern::Is);
    }
    match text.split_once("..") {
        _ if text.contains('"') => Err(WrongElement::Quote),
        _ if text == "*" => Ok(Pattern::Any),
        Some((from, to)) => read.range(from.trim(), to.trim()),
        None => match text.strip_suffix('*') {
            Some(prefix) => read.beginning(prefix),
            None if text.contains('*') => Err(WrongElement::Star),
            None => read.value(&text).map(Pattern::Is),
        },
    }
}

/// As what values are read.
#[derive(Clone, Copy)]
struct Reading<'a> {
    /// What has numbers, if it has.
    numbers: Option<&'a str>,
    /// Whether it has either.
    either: bool,
}

impl Reading<'_> {
    fn value(self, text: &str) -> Result<Value, WrongElement> {
        match self.numbers {
            Some(name) => {
                Value::number(text).ok_or_else(|| WrongElement::NoNumber(shortened(text), name.to_owned()))
            }
            None if self.either => Ok(Value::number(text).unwrap_or_else(|| Value::word(text))),
            None => Ok(Value::word(text)),
        }
    }

    fn beginning(self, prefix: &str) -> Result<Pattern, WrongElement> {
        if prefix.contains('*') {
            return Err(WrongElement::Star);
        }
        match self.numbers {
            None => Ok(Pattern::Begins(prefix.into())),
            Some(name) => {
                let bounds = Bounds::beginning(prefix);
                let no_number = || WrongElement::NoNumber(shortened(prefix), name.to_owned());
                bounds.map(Pattern::Numbers).ok_or_else(no_number)
            }
        }
    }

    fn range(self, from: &str, to: &str) -> Result<Pattern, WrongElement> {
        if from.contains('*') || to.contains('*') || to.contains("..") {
            return Err(WrongElement::Star);
        }
        let upside_down = || WrongElement::UpsideDown { from: shortened(from), to: shortened(to) };
        let is_number = |text: &str| text.is_empty() || number(text).is_some();
        let as_numbers = is_number(from) && is_number(to) && !(from.is_empty() && to.is_empty());
        if self.numbers.is_some() || (self.either && as_numbers) {
            let end = |text: &str, open: f64| match self.numbers {
                _ if text.is_empty() => Ok(open),
                name => number(text).ok_or_else(|| {
                    WrongElement::NoNumber(shortened(text), name.unwrap_or_default().to_owned())
                }),
            };
            let (from, to) = (end(from, f64::NEG_INFINITY)?, end(to, f64::INFINITY)?);
            return if from <= to { Ok(Pattern::Numbers(Bounds::new(from, to))) } else { Err(upside_down()) };
        }
        let word = |text: &str| (!text.is_empty()).then(|| Box::<str>::from(text));
        match (word(from), word(to)) {
            (None, None) => Ok(Pattern::Any),
            (Some(from), Some(to)) if number_of(&from) > number_of(&to) => Err(upside_down()),
            (from, to) => Ok(Pattern::Words { from, to }),
        }
    }
}

fn names(space: &Space) -> String {
    let names: Vec<String> = space.dimensions().iter().map(|known| format!("`{}`", known.name())).collect();
    names.join(", ")
}

/// What is long is shown by how it begins.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Interest, Profile};
    use proptest::prelude::*;

    fn space(closed: bool) -> Space {
        let battery = Kind::Numbers { least: 0.0, most: 100.0 };
        Space::new(&[("kind", Kind::Words), ("battery", battery)], closed).unwrap()
    }

    fn wrong(text: &str) -> String {
        Interest::read(&space(true), text).expect_err(text).to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_a_remedy() {
        for (text, says) in [
            ("", "nothing is said"),
            (" , ", "nothing is said"),
            ("drone\nstart", "a control character"),
            ("drone,,80", "element 2, ``: nothing stands there"),
            (
                "drone, colour=red",
                "element 2, `colour=red`: this space has no `colour`, only `kind`, `battery`",
            ),
            ("drone, full", "`full` is no number, and `battery` has numbers"),
            ("drone, 80, red", "all dimensions have a value (`kind`, `battery`)"),
            ("kind=a, kind=b", "`kind` is there twice"),
            ("lat=40*, lat:50*", "`lat` is there twice"),
            ("battery=20..10", "write `10..20`"),
            ("kind=z..a", "write `a..z`"),
            ("kind=l*r", "`*` stands at the end"),
            ("kind=\"l", "a quotation mark without another one"),
            ("ki nd=l", "`ki nd` names nothing"),
            ("lat=north", "`north` is no number, and `lat` has numbers"),
        ] {
            assert!(wrong(text).contains(says), "{text}: {}", wrong(text));
        }
        assert!(wrong(&format!("kind={}", "x".repeat(4_096))).contains("above the limit of 1024"));
        assert!(wrong(&"a,".repeat(40)).contains("41 elements are above the limit of 32"));
        let half = Profile::read(&space(true), "drone, lat=40").unwrap_err().to_string();
        assert!(half.contains("say `long` as well"), "{half}");
        let nowhere = Profile::read(&space(true), "drone, lat=91, long=0").unwrap_err().to_string();
        assert!(nowhere.contains("no place on earth"), "{nowhere}");
        let wanting = Profile::read(&space(true), "dr*").unwrap_err().to_string();
        assert!(wanting.contains("`*` and `..` are for interests"), "{wanting}");
    }

    #[test]
    fn what_is_quoted_is_a_value() {
        let open = space(false);
        let profile = Profile::read(&open, "kind=\"a, b*..c=\", note=\"12\"").unwrap();
        assert_eq!(profile.values()[0].as_ref().unwrap().text(), "a, b*..c=");
        assert!(Interest::read(&open, "\"A, B*..C=\", note=12.0").unwrap().matches(&profile));
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_or_refused(text in "\\PC{0,80}", closed: bool) {
            let space = space(closed);
            let interest = Interest::read(&space, &text);
            // Who says what is can also ask for just that.
            if let Ok(profile) = Profile::read(&space, &text) {
                prop_assert!(interest.is_ok_and(|interest| interest.matches(&profile)));
            }
        }

        #[test]
        fn likely_texts_too(text in "(kind=|battery=|lat:|long=|x=|)[a-c0-9.*\"-]{0,6}(, ?(kind=|battery=|)[a-z0-9.*]{0,5}){0,3}") {
            let space = space(false);
            let interest = Interest::read(&space, &text);
            if let Ok(profile) = Profile::read(&space, &text) {
                prop_assert!(interest.is_ok_and(|interest| interest.matches(&profile)));
                let canonical = profile.canonical(&space);
                let again = Profile::read(&space, &canonical).unwrap();
                prop_assert_eq!(again.canonical(&space), canonical.clone());
                prop_assert_eq!(space.place_of(&again), space.place_of(&profile));
                prop_assert!(Interest::read(&space, &canonical).unwrap().matches(&profile));
            }
        }
    }

    #[test]
    fn who_says_the_same_has_the_same_key() {
        let space = space(false);
        let key = |text: &str| Profile::read(&space, text).unwrap().canonical(&space);
        let same =
            ["drone, 80", "battery=80.0, KIND=Drone", "drone, battery=8e1; period=5ms", "\"drone\", +80"];
        same.iter().for_each(|text| assert_eq!(key(text), "kind=drone, battery=80", "{text}"));
        assert_eq!(
            key("\"a;b\", x=-0, y=\" c\", lat=1, long=-0.0"),
            "kind=\"a;b\", x=0, y=\" c\", lat=1, long=0"
        );
    }
}
