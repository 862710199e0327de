//! Profiles, which say what something is, and interests, which say what is wanted.

use crate::clusters::{Cluster, Resolution};
use crate::pattern::{Bounds, Pattern, Value};
use crate::reading::{At, Placed, ProfileError, read, terms};
use crate::space::Space;
use crate::terms::Terms;
use contract::Location;
use std::cell::OnceCell;
use std::sync::Arc;

/// What a producer, a thing that is stored, or a function is: a value for each of some attributes.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// By dimension.
    values: Box<[Option<Value>]>,
    /// Of attributes without a dimension, by name.
    others: Vec<(Box<str>, Value)>,
    location: Option<Location>,
    terms: Terms,
}

impl Profile {
    /// Reads a profile: elements with commas between, each the value of a dimension (`sensor=lidar`) or of another attribute, or a value for the next
    /// dimension of which nothing is said (`drone, lidar`). Behind `;` may stand [`Terms`].
    pub fn read(space: &Space, text: &str) -> Result<Profile, ProfileError> {
        let mut profile = Profile {
            values: vec![None; space.dimensions().len()].into(),
            others: Vec::new(),
            location: None,
            terms: terms(text)?,
        };
        let (mut lat, mut long) = (None, None);
        for placed in read(space, text)? {
            let Pattern::Is(value) = placed.pattern else { return Err(placed.no_value()) };
            match placed.at {
                At::Dimension(place) => {
                    if let Some(slot) = profile.values.get_mut(place) {
                        *slot = Some(value);
                    }
                }
                At::Latitude => lat = value.as_number(),
                At::Longitude => long = value.as_number(),
                At::Other(name) => profile.others.push((name, value)),
            }
        }
        profile.others.sort_by(|(a, _), (b, _)| a.cmp(b));
        profile.location = match (lat, long) {
            (None, None) => None,
            (Some(lat), Some(long)) => {
                Some(Location::new(lat, long).map_err(|wrong| ProfileError::Location(wrong.to_string()))?)
            }
            (lat, _) => return Err(ProfileError::HalfALocation(if lat.is_some() { "long" } else { "lat" })),
        };
        Ok(profile)
    }

    /// The same where it says itself where it is, or comes from there.
    #[must_use]
    pub fn located(self, from: Option<Location>) -> Profile {
        Profile { location: self.location.or(from), ..self }
    }

    /// The value of each dimension, where it has one.
    pub fn values(&self) -> &[Option<Value>] {
        &self.values
    }

    /// The value of an attribute, with or without a dimension.
    pub fn value(&self, space: &Space, name: &str) -> Option<&Value> {
        match space.find(name) {
            Some(place) => self.values.get(place)?.as_ref(),
            None => self.other(name),
        }
    }

    fn other(&self, name: &str) -> Option<&Value> {
        let place = self.others.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.others.get(place).map(|(_, value)| value)
    }

    /// Where it is.
    pub fn location(&self) -> Option<Location> {
        self.location
    }

    /// What is said of its messages.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The one way of writing it that all have in common who say the same, without what is said of messages.
    pub fn canonical(&self, space: &Space) -> String {
        let named = self.values.iter().zip(space.dimensions());
        let dimensions = named.filter_map(|(value, dimension)| Some((dimension.name(), value.as_ref()?)));
        let others = self.others.iter().map(|(name, value)| (&**name, value));
        let place = self.location.into_iter().flat_map(|at| [("lat", at.lat()), ("long", at.long())]);
        let all = dimensions.chain(others).map(|(name, value)| format!("{name}={}", value.canonical()));
        let all = all.chain(place.map(|(name, number)| format!("{name}={}", number + 0.0)));
        all.collect::<Vec<String>>().join(", ")
    }
}

/// A part of the earth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Area {
    /// Latitudes.
    pub lat: Bounds,
    /// Longitudes.
    pub long: Bounds,
}

impl Area {
    /// All of it.
    pub const EARTH: Area = Area { lat: Bounds::ALL, long: Bounds::ALL };

    /// Whether a place lies in it.
    pub fn contains(&self, location: Location) -> bool {
        self.lat.contain(location.lat()) && self.long.contain(location.long())
    }
}

/// What is wanted: something for each of some attributes.
#[derive(Clone, Debug)]
pub struct Interest {
    /// By dimension.
    wanted: Box<[Option<Pattern>]>,
    /// Of attributes without a dimension.
    others: Vec<(Box<str>, Pattern)>,
    area: Option<Area>,
    terms: Terms,
    pieces: OnceCell<Arc<[Cluster]>>,
}

impl PartialEq for Interest {
    fn eq(&self, other: &Interest) -> bool {
        (&self.wanted, &self.others, self.area, &self.terms)
            == (&other.wanted, &other.others, other.area, &other.terms)
    }
}

impl Interest {
    /// Reads an interest. It is written as a [`Profile`] is, and may have beginnings (`li*`), anything (`*`), and ranges (`10..20`, `10..`, `a..c`).
    pub fn read(space: &Space, text: &str) -> Result<Interest, ProfileError> {
        let mut interest = Interest {
            wanted: vec![None; space.dimensions().len()].into(),
            others: Vec::new(),
            area: None,
            terms: terms(text)?,
            pieces: OnceCell::new(),
        };
        interest.terms.check_wanted()?;
        for Placed { pattern, at, .. } in read(space, text)? {
            let bounds = || match &pattern {
                Pattern::Numbers(bounds) => *bounds,
                Pattern::Is(value) => value.as_number().map_or(Bounds::ALL, |at| Bounds::new(at, at)),
                _ => Bounds::ALL,
            };
            match at {
                At::Latitude => interest.area_mut().lat = bounds(),
                At::Longitude => interest.area_mut().long = bounds(),
                At::Dimension(place) => {
                    if let Some(slot) = interest.wanted.get_mut(place) {
                        *slot = Some(pattern);
                    }
                }
                At::Other(name) => interest.others.push((name, pattern)),
            }
        }
        Ok(interest)
    }

    fn area_mut(&mut self) -> &mut Area {
        self.area.get_or_insert(Area::EARTH)
    }

    /// What is asked of each dimension.
    pub fn wanted(&self) -> &[Option<Pattern>] {
        &self.wanted
    }

    /// What is said of the messages that are wanted.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The pieces of the curve that it is wanted on, in the space for which it was read. They are found once.
    pub fn pieces(&self, space: &Space) -> &[Cluster] {
        self.pieces.get_or_init(|| space.clusters_of(self, &Resolution::default()).into())
    }

    /// Where it looks.
    pub fn area(&self) -> Option<Area> {
        self.area
    }

    /// Whether a profile has everything that is wanted (rendezvous P6).
    pub fn matches(&self, profile: &Profile) -> bool {
        let has = |(pattern, value): (&Option<Pattern>, &Option<Value>)| {
            pattern.as_ref().is_none_or(|pattern| value.as_ref().is_some_and(|value| pattern.matches(value)))
        };
        self.wanted.iter().zip(&profile.values).all(has)
            && self
                .others
                .iter()
                .all(|(name, pattern)| profile.other(name).is_some_and(|value| pattern.matches(value)))
            && self.area.is_none_or(|area| profile.location.is_some_and(|location| area.contains(location)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Kind;

    fn space() -> Space {
        let battery = Kind::Numbers { least: 0.0, most: 100.0 };
        Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words), ("battery", battery)], false).unwrap()
    }

    fn meets(profile: &str, interest: &str) -> bool {
        let profile = Profile::read(&space(), profile).unwrap();
        Interest::read(&space(), interest).unwrap().matches(&profile)
    }

    #[test]
    fn matches_are_those_of_the_page() {
        let at = "drone, lidar, lat=40.0583, long=-74.4056";
        assert!(meets("Drone, LiDAR", "Drone, Li*"));
        assert!(meets(at, "Drone, Li*, lat:40*, long:-74*"));
        assert!(!meets("Drone, LiDAR", "Drone, Th*"));
        assert!(!meets(at, "Drone, Li*, lat:41*, long:-74*"));
        assert!(!meets("Drone, LiDAR", "Drone, Li*, lat:40*, long:-74*"), "nobody knows where it is");
    }

    #[test]
    fn everything_that_is_wanted_has_to_be_there() {
        let profile = "kind=drone, battery=80, colour=red, weight=12.50";
        for (interest, expected) in [
            ("drone", true),
            ("kind=*", true),
            ("sensor=*", false),
            ("drone, battery=75..", true),
            ("drone, battery=..75", false),
            ("battery=80.0", true),
            ("colour=red", true),
            ("colour=r*, weight=12.5", true),
            ("weight=12..13", true),
            ("height=*", false),
            ("drone, sensor=lidar", false),
        ] {
            assert_eq!(meets(profile, interest), expected, "{interest}");
        }
    }

    #[test]
    fn names_may_come_in_any_order_and_words_without_one_take_what_is_left() {
        let same = ["drone, lidar", "sensor=lidar, drone", "lidar, kind=drone", "SENSOR=LiDAR, kind=Drone"];
        let read = same.map(|text| Profile::read(&space(), text).unwrap());
        assert!(read.iter().all(|profile| *profile == read[0]));
        assert!(read.iter().all(|profile| space().place_of(profile) == space().place_of(&read[0])));
        assert_ne!(Profile::read(&space(), "lidar, drone").unwrap(), read[0]);
    }
}
