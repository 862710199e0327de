//! Who wants a profile, out of very many interests.
//!
//! The problem: a hundred thousand interests are too many to look at for each profile. The idea: of each interest it is known *how* it asks, its form: which
//! dimensions have to have one word, how many letters others have to begin with, how large a piece of a dimension or of the earth it looks at. There are few
//! forms. For each of them a profile can say under which key an interest that it matches would stand; so it looks once for each form, and compares
//! exactly with what it finds there.
//!
//! Invariant: what a profile matches stands under a key that the profile has, and under no other one that it has.
//!
//! What asks for nothing that is known here (`*` of everything) stands in one form, and is compared one by one: whoever accepts interests bounds how many.
//!
//! Source: tuple space search (Srinivasan, Suri and Varghese), as packet filters do it.

use crate::curve::DIMENSIONS_MAX;
use crate::pattern::{Pattern, Value};
use crate::profile::{Area, Interest, Profile};
use crate::space::Space;
use contract::{Location, invariant};
use std::collections::BTreeMap;

/// Forms with beginnings, ranges or areas; what is above is known by its words alone, of which there are no more than 64 forms.
const FORMS_MAX: usize = 448;
/// Letters of a beginning that count.
const LETTERS: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32];
/// How often a dimension, or the earth, is halved at most, so that the piece is no smaller than what is asked for.
const HALVINGS_MAX: u32 = 16;

/// The number of an interest while it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key(u32);

/// How an interest asks of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Asks {
    /// Nothing that is known here.
    #[default]
    Anything,
    /// For one value.
    Value,
    /// For something that begins with so many letters.
    Letters(u8),
    /// For a coordinate in a piece that is halved so often.
    Piece(u8),
}

/// How an interest asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Form {
    of: [Asks; DIMENSIONS_MAX],
    /// How often the earth is halved, along both sides, where it looks at a part of it.
    earth: Option<u8>,
}

impl Form {
    /// What of it is one of few: which dimensions have to have one value.
    fn coarse(&self) -> Form {
        let value = |asks: Asks| if asks == Asks::Value { asks } else { Asks::Anything };
        Form { of: self.of.map(value), earth: None }
    }

    fn is_coarse(&self) -> bool {
        *self == self.coarse()
    }
}

/// Interests, each with what belongs to it.
#[derive(Clone, Debug)]
pub struct Interests<T> {
    space: Space,
    slots: Vec<Option<Known<T>>>,
    free: Vec<u32>,
    /// The number of each form in use, and by how many interests.
    forms: BTreeMap<Form, (u16, usize)>,
    free_forms: Vec<u16>,
    /// By the number of a form, and under which key interests stand in it.
    stand: BTreeMap<(u16, u64), Vec<u32>>,
}

#[derive(Clone, Debug)]
struct Known<T> {
    interest: Interest,
    form: Form,
    with: T,
}

impl<T> Interests<T> {
    /// None, of a space.
    pub fn new(space: &Space) -> Interests<T> {
        Interests {
            space: space.clone(),
            slots: Vec::new(),
            free: Vec::new(),
            forms: BTreeMap::new(),
            free_forms: Vec::new(),
            stand: BTreeMap::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one.
    pub fn insert(&mut self, interest: Interest, with: T) -> Key {
        let fine = self.form_of(&interest);
        let has_room = fine.is_coarse() || self.forms.contains_key(&fine) || self.forms.len() < FORMS_MAX;
        let form = if has_room { fine } else { fine.coarse() };
        let fresh = self.forms.len() as u16;
        let (number, users) =
            self.forms.entry(form).or_insert_with(|| (self.free_forms.pop().unwrap_or(fresh), 0));
        *users += 1;
        let number = *number;
        let key = self.free.pop().unwrap_or(self.slots.len() as u32);
        for hash in self.keys_of(&form, &interest) {
            self.stand.entry((number, hash)).or_default().push(key);
        }
        let known = Some(Known { interest, form, with });
        match self.slots.get_mut(key as usize) {
            Some(slot) => *slot = known,
            None => self.slots.push(known),
        }
        Key(key)
    }

    /// One of them.
    pub fn get(&self, key: Key) -> Option<(&Interest, &T)> {
        let known = self.slots.get(key.0 as usize)?.as_ref()?;
        Some((&known.interest, &known.with))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Interest, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(key, slot)| {
            let known = slot.as_ref()?;
            Some((Key(key as u32), &known.interest, &known.with))
        })
    }

    /// Takes one away.
    pub fn remove(&mut self, key: Key) -> Option<(Interest, T)> {
        let Known { interest, form, with } = self.slots.get_mut(key.0 as usize)?.take()?;
        self.free.push(key.0);
        let Some((number, users)) = self.forms.get_mut(&form) else {
            return invariant!("an interest that is known has a form that is", None);
        };
        let number = *number;
        *users -= 1;
        if *users == 0 {
            self.forms.remove(&form);
            self.free_forms.push(number);
        }
        for hash in self.keys_of(&form, &interest) {
            let place = (number, hash);
            let Some(stand) = self.stand.get_mut(&place) else {
                invariant!("an interest that is known stands where its keys say");
                continue;
            };
            stand.retain(|other| *other != key.0);
            if stand.is_empty() {
                self.stand.remove(&place);
            }
        }
        Some((interest, with))
    }

    /// Those that match a profile, in no particular order.
    pub fn matching(&self, profile: &Profile) -> impl Iterator<Item = (Key, &Interest, &T)> {
        let places =
            self.forms.iter().filter_map(|(form, (number, _))| Some((*number, self.key_of(form, profile)?)));
        let stand = places.filter_map(|place| self.stand.get(&place)).flatten();
        stand.filter_map(|key| {
            let known = self.slots.get(*key as usize)?.as_ref()?;
            known.interest.matches(profile).then_some((Key(*key), &known.interest, &known.with))
        })
    }

    /// How an interest asks.
    fn form_of(&self, interest: &Interest) -> Form {
        let mut form = Form::default();
        // Of ranges only the shortest counts, so that an interest stands under few keys.
        let mut shortest: Option<(u8, usize)> = None;
        for (place, pattern) in interest.wanted().iter().enumerate() {
            let Some(asks) = form.of.get_mut(place) else { break };
            match pattern {
                None | Some(Pattern::Any) => {}
                Some(Pattern::Is(_)) => *asks = Asks::Value,
                Some(Pattern::Begins(prefix)) => {
                    let letters = prefix.chars().take(LETTERS[LETTERS.len() - 1]).count();
                    let counted = LETTERS.iter().rev().find(|counted| **counted <= letters);
                    *asks = counted.map_or(Asks::Anything, |counted| Asks::Letters(*counted as u8));
                }
                Some(Pattern::Words { .. } | Pattern::Numbers(_)) => {
                    let halvings = self.halvings(interest, place);
                    shortest = shortest.max(Some((halvings, place)));
                }
            }
        }
        if let Some((halvings @ 1.., place)) = shortest
            && let Some(asks) = form.of.get_mut(place)
        {
            *asks = Asks::Piece(halvings);
        }
        form.earth = interest.area().and_then(|area| {
            let fits = |halvings: &u32| {
                let [(south, north), (west, east)] = cells(&area, *halvings);
                north - south <= 1 && east - west <= 1
            };
            (1..=HALVINGS_MAX).rev().find(fits).map(|halvings| halvings as u8)
        });
        form
    }

    /// How often a dimension may be halved so that the range of an interest lies in two pieces of it at most.
    fn halvings(&self, interest: &Interest, place: usize) -> u8 {
        let range = self.range(interest, place);
        let size = u64::from(range.1 - range.0) + 1;
        let halvings = self.space.bits().saturating_sub(size.next_power_of_two().trailing_zeros());
        halvings.min(HALVINGS_MAX) as u8
    }

    fn range(&self, interest: &Interest, place: usize) -> (u32, u32) {
        let kind = self.space.dimensions().get(place).map(|dimension| dimension.kind());
        let pattern = interest.wanted().get(place).and_then(Option::as_ref);
        let range = kind.map_or(0..=0, |kind| self.space.range(kind, pattern));
        // One that lies beyond the numbers of its dimension has the coordinate of the nearest.
        (*range.start(), *range.end().max(range.start()))
    }

    /// The keys under which an interest stands in a form.
    fn keys_of(&self, form: &Form, interest: &Interest) -> Vec<u64> {
        let mut keys = vec![SEED];
        for (place, asks) in form.of.iter().enumerate() {
            let pattern = interest.wanted().get(place).and_then(Option::as_ref);
            match (asks, pattern) {
                (Asks::Value, Some(Pattern::Is(value))) => {
                    keys.iter_mut().for_each(|key| *key = with_value(*key, value));
                }
                (Asks::Letters(letters), Some(Pattern::Begins(prefix))) => {
                    let begins = beginning(prefix, usize::from(*letters)).unwrap_or_default();
                    keys.iter_mut().for_each(|key| *key = mixed(*key, begins.as_bytes()));
                }
                (Asks::Piece(halvings), _) => {
                    let (from, to) = self.range(interest, place);
                    let piece = |coordinate| self.piece(coordinate, *halvings);
                    keys = (piece(from)..=piece(to))
                        .flat_map(|piece| keys.iter().map(move |key| mixed(*key, &piece.to_le_bytes())))
                        .collect();
                }
                _ => {}
            }
        }
        if let (Some(halvings), Some(area)) = (form.earth, interest.area()) {
            let [(south, north), (west, east)] = cells(&area, halvings.into());
            let all = (south..=north).flat_map(|lat| (west..=east).map(move |long| (lat, long)));
            keys = all.flat_map(|cell| keys.iter().map(move |key| with_cell(*key, cell))).collect();
        }
        keys
    }

    /// The key under which what a profile matches would stand in a form.
    fn key_of(&self, form: &Form, profile: &Profile) -> Option<u64> {
        let mut key = SEED;
        for (place, asks) in form.of.iter().enumerate().filter(|(_, asks)| **asks != Asks::Anything) {
            let value = profile.values().get(place)?.as_ref()?;
            key = match asks {
                Asks::Anything => key,
                Asks::Value => with_value(key, value),
                Asks::Letters(letters) => {
                    mixed(key, beginning(value.text(), usize::from(*letters))?.as_bytes())
                }
                Asks::Piece(halvings) => {
                    let kind = self.space.dimensions().get(place)?.kind();
                    let piece = self.piece(self.space.coordinate(kind, value), *halvings);
                    mixed(key, &piece.to_le_bytes())
                }
            };
        }
        match form.earth {
            None => Some(key),
            Some(halvings) => Some(with_cell(key, cell(profile.location()?, halvings.into()))),
        }
    }

    fn piece(&self, coordinate: u32, halvings: u8) -> u32 {
        coordinate >> (self.space.bits() - u32::from(halvings))
    }
}

/// The first letters of a word, if it has as many.
fn beginning(word: &str, letters: usize) -> Option<&str> {
    let (last, letter) = word.char_indices().nth(letters.checked_sub(1)?)?;
    word.get(..last + letter.len_utf8())
}

/// The cell of the earth in which a place lies, where its sides are halved so often.
fn cell(location: Location, halvings: u32) -> (u32, u32) {
    (side(location.lat(), 90.0, halvings), side(location.long(), 180.0, halvings))
}

/// The first and the last row of cells in which a part of the earth lies, and the same of columns.
fn cells(area: &Area, halvings: u32) -> [(u32, u32); 2] {
    [(area.lat, 90.0), (area.long, 180.0)].map(|(bounds, most)| {
        let (from, to) = (side(bounds.from(), most, halvings), side(bounds.to(), most, halvings));
        (from, to.max(from))
    })
}

fn side(degrees: f64, most: f64, halvings: u32) -> u32 {
    let share = ((degrees + most) / (2.0 * most)).clamp(0.0, 1.0);
    let cells = 1_u32 << halvings;
    ((share * f64::from(cells)) as u32).min(cells - 1)
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, and an end mark, so that two words are not one.
fn mixed(key: u64, bytes: &[u8]) -> u64 {
    let step = |key: u64, byte: u8| (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    step(bytes.iter().fold(key, |key, byte| step(key, *byte)), 0xff)
}

fn with_value(key: u64, value: &Value) -> u64 {
    match value.as_number() {
        // Zero has two forms, which are equal.
        Some(number) => mixed(key, &(number + 0.0).to_le_bytes()),
        None => mixed(key, value.text().as_bytes()),
    }
}

fn with_cell(key: u64, (lat, long): (u32, u32)) -> u64 {
    mixed(mixed(key, &lat.to_le_bytes()), &long.to_le_bytes())
}

#[cfg(test)]
mod tests;
