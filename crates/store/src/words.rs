//! What peers say to each other about what they keep, as bytes: CBOR, each field in its place.

use crate::asking::Query;
use crate::item::{Item, ItemId, Kept, VALUE_BYTES_MAX, Version};
use crate::store::Refusal;
use crate::syncing::LIST_MAX;
use contract::{Location, RingId, Span, Time};
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use std::sync::Arc;

/// One word.
#[derive(Clone, PartialEq, Debug)]
pub enum StoreWord {
    /// To who has its place: keep it, or delete it where it has no value.
    Put {
        /// Which request of the sender.
        request: u64,
        /// What. Its version does not matter.
        item: Item,
    },
    /// It is kept by all that have to keep it, or why not.
    Done {
        /// Which request of the receiver.
        request: u64,
        /// Under which version, and by how many peers.
        result: Result<(Version, u64), Refusal>,
    },
    /// Have this as well.
    Copy {
        /// Which copy of the sender.
        token: u64,
        /// What.
        item: Item,
    },
    /// What has become of a copy.
    Copied {
        /// Which of the receiver.
        token: u64,
        /// What.
        result: Copied,
    },
    /// What is there under this?
    Fetch {
        /// Which request of the sender.
        request: u64,
        /// What.
        id: ItemId,
    },
    /// This is.
    Fetched {
        /// Which request of the receiver.
        request: u64,
        /// What; without a value if it was deleted.
        item: Option<Item>,
    },
    /// What is there that is as wanted?
    Look {
        /// Which request of the sender.
        request: u64,
        /// What is wanted.
        query: Query,
    },
    /// These are, and behind the last of them perhaps more.
    Seen {
        /// Which request of the receiver.
        request: u64,
        /// What.
        items: Vec<Item>,
        /// Behind what there may be more.
        cut: Option<ItemId>,
        /// How many others have not answered.
        silent: u64,
    },
    /// To the master of another region: the same for me there.
    Forward(Box<StoreWord>),
    /// I have so much in this part.
    Range {
        /// The first of it.
        from: ItemId,
        /// The last.
        to: ItemId,
        /// How many.
        count: u64,
        /// What they amount to.
        digest: u128,
    },
    /// I have these in this part.
    List {
        /// The first of it.
        from: ItemId,
        /// The last.
        to: ItemId,
        /// What.
        entries: Vec<(ItemId, Version)>,
    },
    /// I want these.
    Want {
        /// Which.
        ids: Vec<ItemId>,
    },
}

/// What has become of a copy.
#[derive(Clone, PartialEq, Debug)]
pub enum Copied {
    /// It is on disk.
    Has,
    /// There is something newer.
    Newer(Version),
    /// It is not taken.
    Refused(Refusal),
}

/// Why something is no word.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WordError {
    /// It is none.
    #[error("it cannot be read: {0}")]
    Cbor(#[from] minicbor::decode::Error),
    /// Something in it is too long, or none.
    #[error("{0} in it is none")]
    Invalid(&'static str),
}

/// The longest key, and the longest interest.
const KEY_BYTES_MAX: usize = 32 << 10;
/// The longest reason.
const WHY_BYTES_MAX: usize = 1_024;
/// Things in one answer.
const SEEN_MAX: u64 = 20_000;

type To<'a> = Encoder<&'a mut Vec<u8>>;
type Written = Result<(), minicbor::encode::Error<core::convert::Infallible>>;
type Read<T> = Result<T, WordError>;

impl StoreWord {
    /// As bytes, behind what is there.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        let written = self.write(&mut Encoder::new(bytes));
        debug_assert!(written.is_ok(), "memory takes everything");
    }

    fn write(&self, to: &mut To<'_>) -> Written {
        match self {
            StoreWord::Put { request, item } => write_item(to.u8(0)?.u64(*request)?, item),
            StoreWord::Done { request, result } => {
                to.u8(1)?.u64(*request)?;
                match result {
                    Ok((version, copies)) => {
                        write_version(to.bool(true)?, *version)?;
                        to.u64(*copies).map(drop)
                    }
                    Err(refusal) => write_refusal(to.bool(false)?, refusal),
                }
            }
            StoreWord::Copy { token, item } => write_item(to.u8(2)?.u64(*token)?, item),
            StoreWord::Copied { token, result } => {
                to.u8(3)?.u64(*token)?;
                match result {
                    Copied::Has => to.u8(0).map(drop),
                    Copied::Newer(version) => write_version(to.u8(1)?, *version),
                    Copied::Refused(refusal) => write_refusal(to.u8(2)?, refusal),
                }
            }
            StoreWord::Fetch { request, id } => write_id(to.u8(4)?.u64(*request)?, *id),
            StoreWord::Fetched { request, item } => {
                to.u8(5)?.u64(*request)?;
                match item {
                    Some(item) => write_item(to.bool(true)?, item),
                    None => to.bool(false).map(drop),
                }
            }
            StoreWord::Look { request, query } => {
                let Query { interest, after, limit, values } = query;
                to.u8(6)?.u64(*request)?.str(interest)?.u64(*limit as u64)?.bool(*values)?;
                write_id_or_none(to, *after)
            }
            StoreWord::Seen { request, items, cut, silent } => {
                to.u8(7)?.u64(*request)?.u64(*silent)?;
                write_id_or_none(to, *cut)?;
                to.array(items.len() as u64)?;
                items.iter().try_for_each(|item| write_item(to, item))
            }
            StoreWord::Forward(word) => {
                to.u8(8)?;
                word.write(to)
            }
            StoreWord::Range { from, to: last, count, digest } => {
                write_id(to.u8(9)?, *from)?;
                write_id(to, *last)?;
                to.u64(*count)?.bytes(&digest.to_le_bytes()).map(drop)
            }
            StoreWord::List { from, to: last, entries } => {
                write_id(to.u8(10)?, *from)?;
                write_id(to, *last)?;
                to.array(entries.len() as u64)?;
                entries.iter().try_for_each(|(id, version)| {
                    write_id(to, *id)?;
                    write_version(to, *version)
                })
            }
            StoreWord::Want { ids } => {
                to.u8(11)?.array(ids.len() as u64)?;
                ids.iter().try_for_each(|id| write_id(to, *id))
            }
        }
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Read<StoreWord> {
        let from = &mut Decoder::new(bytes);
        match from.u8()? {
            8 => {
                let word = read(from.u8()?, from)?;
                let is_asked =
                    matches!(word, StoreWord::Put { .. } | StoreWord::Fetch { .. } | StoreWord::Look { .. });
                if is_asked {
                    Ok(StoreWord::Forward(Box::new(word)))
                } else {
                    Err(WordError::Invalid("what is passed on"))
                }
            }
            kind => read(kind, from),
        }
    }
}

fn read(kind: u8, from: &mut Decoder<'_>) -> Read<StoreWord> {
    Ok(match kind {
        0 => StoreWord::Put { request: from.u64()?, item: whole(from)? },
        1 => {
            let request = from.u64()?;
            let result = if from.bool()? { Ok((version(from)?, from.u64()?)) } else { Err(refusal(from)?) };
            StoreWord::Done { request, result }
        }
        2 => StoreWord::Copy { token: from.u64()?, item: whole(from)? },
        3 => {
            let token = from.u64()?;
            let result = match from.u8()? {
                0 => Copied::Has,
                1 => Copied::Newer(version(from)?),
                2 => Copied::Refused(refusal(from)?),
                _ => return Err(WordError::Invalid("what has become of a copy")),
            };
            StoreWord::Copied { token, result }
        }
        4 => StoreWord::Fetch { request: from.u64()?, id: id(from)? },
        5 => {
            let request = from.u64()?;
            StoreWord::Fetched { request, item: if from.bool()? { Some(whole(from)?) } else { None } }
        }
        6 => {
            let (request, interest) = (from.u64()?, text(from, KEY_BYTES_MAX)?.to_owned());
            let limit = usize::try_from(from.u64()?.min(SEEN_MAX)).unwrap_or(usize::MAX);
            let (values, after) = (from.bool()?, id_or_none(from)?);
            StoreWord::Look { request, query: Query { interest, after, limit, values } }
        }
        7 => {
            let (request, silent, cut) = (from.u64()?, from.u64()?, id_or_none(from)?);
            let count = length(from, SEEN_MAX)?;
            let items = (0..count).map(|_| item(from)).collect::<Read<_>>()?;
            StoreWord::Seen { request, items, cut, silent }
        }
        9 => StoreWord::Range {
            from: id(from)?,
            to: id(from)?,
            count: from.u64()?,
            digest: u128::from_le_bytes(array(from)?),
        },
        10 => {
            let (first, last) = (id(from)?, id(from)?);
            let count = length(from, LIST_MAX as u64)?;
            let entries = (0..count).map(|_| Ok((id(from)?, version(from)?))).collect::<Read<_>>()?;
            StoreWord::List { from: first, to: last, entries }
        }
        11 => {
            let count = length(from, LIST_MAX as u64)?;
            StoreWord::Want { ids: (0..count).map(|_| id(from)).collect::<Read<_>>()? }
        }
        _ => return Err(WordError::Invalid("the kind of word: run the same release on all peers, which")),
    })
}

/// How what is on disk begins.
const ON_DISK: u8 = 1;

impl Kept {
    /// As it is on disk.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = self.write(&mut Encoder::new(&mut bytes));
        debug_assert!(written.is_ok(), "memory takes everything");
        bytes
    }

    fn write(&self, to: &mut To<'_>) -> Written {
        to.u8(ON_DISK)?.bytes(&self.place.to_bytes())?.str(&self.key)?;
        write_version(to, self.version)?;
        to.f64(self.location.lat())?.f64(self.location.long())?.u64(self.until.0)?;
        match self.size {
            Some(size) => to.u64(size).map(drop),
            None => to.null().map(drop),
        }
    }

    /// From disk.
    ///
    /// # Errors
    ///
    /// It is none, or of another release.
    pub fn from_bytes(bytes: &[u8]) -> Read<Kept> {
        let from = &mut Decoder::new(bytes);
        if from.u8()? != ON_DISK {
            return Err(WordError::Invalid("the form"));
        }
        let (place, key) = (RingId::from_bytes(array(from)?), text(from, KEY_BYTES_MAX)?.into());
        let version = version(from)?;
        let location =
            Location::new(from.f64()?, from.f64()?).map_err(|_| WordError::Invalid("a location"))?;
        let until = Time(from.u64()?);
        let size = size(from)?;
        Ok(Kept { place, key, version, location, until, size })
    }
}

fn write_id(to: &mut To<'_>, id: ItemId) -> Written {
    to.bytes(&id.place.to_bytes())?.bytes(&id.hash.to_le_bytes()).map(drop)
}

fn write_id_or_none(to: &mut To<'_>, id: Option<ItemId>) -> Written {
    match id {
        Some(id) => write_id(to, id),
        None => to.null().map(drop),
    }
}

fn write_version(to: &mut To<'_>, version: Version) -> Written {
    to.u64(version.at)?.bytes(&version.by.to_bytes()).map(drop)
}

fn write_item(to: &mut To<'_>, item: &Item) -> Written {
    to.bytes(&item.place.to_bytes())?.str(&item.key)?;
    write_version(to, item.version)?;
    to.f64(item.location.lat())?.f64(item.location.long())?.i64(item.left.0)?;
    match item.size {
        Some(size) => to.u64(size)?,
        None => to.null()?,
    };
    match &item.value {
        Some(value) => to.bytes(value).map(drop),
        None => to.null().map(drop),
    }
}

fn write_refusal(to: &mut To<'_>, refusal: &Refusal) -> Written {
    match refusal {
        Refusal::NotMine => to.u8(0).map(drop),
        Refusal::Busy => to.u8(1).map(drop),
        Refusal::Full(why) => to.u8(2)?.str(shortened(why)).map(drop),
        Refusal::Disk(why) => to.u8(3)?.str(shortened(why)).map(drop),
        Refusal::Unconfirmed { confirmed, of } => to.u8(4)?.u64(*confirmed as u64)?.u64(*of as u64).map(drop),
        Refusal::NoRegion => to.u8(6).map(drop),
        Refusal::NoAnswer { answered, of } => to.u8(5)?.u64(*answered as u64)?.u64(*of as u64).map(drop),
    }
}

fn shortened(why: &str) -> &str {
    why.get(..why.floor_char_boundary(WHY_BYTES_MAX)).unwrap_or(why)
}

fn array<const N: usize>(from: &mut Decoder<'_>) -> Read<[u8; N]> {
    from.bytes()?.try_into().map_err(|_| WordError::Invalid("a number of fixed length"))
}

fn text<'a>(from: &mut Decoder<'a>, most: usize) -> Read<&'a str> {
    let text = from.str()?;
    if text.len() > most { Err(WordError::Invalid("a text above its limit")) } else { Ok(text) }
}

fn length(from: &mut Decoder<'_>, most: u64) -> Read<u64> {
    from.array()?.filter(|count| *count <= most).ok_or(WordError::Invalid("a list above its limit"))
}

fn id(from: &mut Decoder<'_>) -> Read<ItemId> {
    Ok(ItemId { place: RingId::from_bytes(array(from)?), hash: u128::from_le_bytes(array(from)?) })
}

fn id_or_none(from: &mut Decoder<'_>) -> Read<Option<ItemId>> {
    if from.datatype()? == Type::Null {
        from.null()?;
        return Ok(None);
    }
    id(from).map(Some)
}

fn version(from: &mut Decoder<'_>) -> Read<Version> {
    Ok(Version { at: from.u64()?, by: RingId::from_bytes(array(from)?) })
}

fn item(from: &mut Decoder<'_>) -> Read<Item> {
    let place = RingId::from_bytes(array(from)?);
    let key = text(from, KEY_BYTES_MAX)?.into();
    let version = version(from)?;
    let location = Location::new(from.f64()?, from.f64()?).map_err(|_| WordError::Invalid("a location"))?;
    let left = Span(from.i64()?);
    if left < Span::ZERO {
        return Err(WordError::Invalid("the time that something lasts"));
    }
    let size = size(from)?;
    let value = if from.datatype()? == Type::Null {
        from.null()?;
        None
    } else {
        let value = from.bytes()?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(WordError::Invalid("a value above its limit"));
        }
        Some(value.into())
    };
    if value.as_ref().is_some_and(|value: &Arc<[u8]>| Some(value.len() as u64) != size) {
        return Err(WordError::Invalid("the size of a value"));
    }
    Ok(Item { place, key, version, location, left, size, value })
}

/// One that has its value, unless it was deleted.
fn whole(from: &mut Decoder<'_>) -> Read<Item> {
    let item = item(from)?;
    if item.value.is_some() == item.size.is_some() { Ok(item) } else { Err(WordError::Invalid("a value")) }
}

fn size(from: &mut Decoder<'_>) -> Read<Option<u64>> {
    if from.datatype()? == Type::Null {
        from.null()?;
        return Ok(None);
    }
    Ok(Some(from.u64()?))
}

fn refusal(from: &mut Decoder<'_>) -> Read<Refusal> {
    let two = |from: &mut Decoder<'_>| -> Read<(usize, usize)> {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok((count(from.u64()?), count(from.u64()?)))
    };
    Ok(match from.u8()? {
        0 => Refusal::NotMine,
        1 => Refusal::Busy,
        2 => Refusal::Full(text(from, WHY_BYTES_MAX)?.to_owned()),
        3 => Refusal::Disk(text(from, WHY_BYTES_MAX)?.to_owned()),
        4 => {
            let (confirmed, of) = two(from)?;
            Refusal::Unconfirmed { confirmed, of }
        }
        5 => {
            let (answered, of) = two(from)?;
            Refusal::NoAnswer { answered, of }
        }
        6 => Refusal::NoRegion,
        _ => return Err(WordError::Invalid("a reason")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids() -> impl Strategy<Value = ItemId> {
        (any::<[u8; 20]>(), any::<u128>())
            .prop_map(|(place, hash)| ItemId { place: RingId::from_bytes(place), hash })
    }

    fn versions() -> impl Strategy<Value = Version> {
        (any::<u64>(), any::<[u8; 20]>()).prop_map(|(at, by)| Version { at, by: RingId::from_bytes(by) })
    }

    fn items() -> impl Strategy<Value = Item> {
        let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
        (ids(), "[a-z=, ]{0,20}", versions(), -90.0..90.0, 0..=i64::MAX, value).prop_map(
            |(id, key, version, lat, left, value)| Item {
                place: id.place,
                key: key.into(),
                version,
                location: Location::new(lat, 2.0 * lat).unwrap(),
                left: Span(left),
                size: value.as_ref().map(|value| value.len() as u64),
                value: value.map(Into::into),
            },
        )
    }

    fn refusals() -> impl Strategy<Value = Refusal> {
        prop_oneof![
            Just(Refusal::NotMine),
            Just(Refusal::Busy),
            Just(Refusal::NoRegion),
            Just(Refusal::Full("no room".into())),
            Just(Refusal::Disk("it burns".into())),
            Just(Refusal::Unconfirmed { confirmed: 1, of: 3 }),
            Just(Refusal::NoAnswer { answered: 0, of: 3 }),
        ]
    }

    fn asked() -> impl Strategy<Value = StoreWord> {
        let query = ("[a-z*, ]{0,20}", prop::option::of(ids()), 0_usize..9, any::<bool>());
        prop_oneof![
            (any::<u64>(), items()).prop_map(|(request, item)| StoreWord::Put { request, item }),
            (any::<u64>(), ids()).prop_map(|(request, id)| StoreWord::Fetch { request, id }),
            (any::<u64>(), query).prop_map(|(request, (interest, after, limit, values))| StoreWord::Look {
                request,
                query: Query { interest, after, limit, values }
            }),
        ]
    }

    fn words() -> impl Strategy<Value = StoreWord> {
        let copied = prop_oneof![
            Just(Copied::Has),
            versions().prop_map(Copied::Newer),
            refusals().prop_map(Copied::Refused),
        ];
        let list = prop::collection::vec((ids(), versions()), 0..4);
        let seen = (prop::collection::vec(items(), 0..3), prop::option::of(ids()), any::<u64>());
        prop_oneof![
            asked(),
            asked().prop_map(|word| StoreWord::Forward(Box::new(word))),
            (any::<u64>(), versions(), any::<u64>()).prop_map(|(request, version, copies)| StoreWord::Done {
                request,
                result: Ok((version, copies))
            }),
            (any::<u64>(), refusals())
                .prop_map(|(request, refusal)| StoreWord::Done { request, result: Err(refusal) }),
            (any::<u64>(), items()).prop_map(|(token, item)| StoreWord::Copy { token, item }),
            (any::<u64>(), copied).prop_map(|(token, result)| StoreWord::Copied { token, result }),
            (any::<u64>(), prop::option::of(items()))
                .prop_map(|(request, item)| StoreWord::Fetched { request, item }),
            (any::<u64>(), seen).prop_map(|(request, (items, cut, silent))| StoreWord::Seen {
                request,
                items,
                cut,
                silent
            }),
            (ids(), ids(), any::<u64>(), any::<u128>())
                .prop_map(|(from, to, count, digest)| StoreWord::Range { from, to, count, digest }),
            (ids(), ids(), list).prop_map(|(from, to, entries)| StoreWord::List { from, to, entries }),
            prop::collection::vec(ids(), 0..4).prop_map(|ids| StoreWord::Want { ids }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(word in words()) {
            let mut bytes = Vec::new();
            word.append_to(&mut bytes);
            prop_assert_eq!(StoreWord::decode(&bytes).unwrap(), word);
        }

        #[test]
        fn a_place_among_things_is_read_as_it_is_written(id in ids()) {
            prop_assert_eq!(id.to_string().parse::<ItemId>(), Ok(id));
        }

        #[test]
        fn what_is_on_disk_is_read(item in items(), until: u64) {
            let kept = item.kept(Time(until));
            prop_assert_eq!(Kept::from_bytes(&kept.to_bytes()).unwrap(), kept);
        }

        #[test]
        fn what_is_none_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = StoreWord::decode(&bytes);
            let _ = Kept::from_bytes(&bytes);
        }
    }
}
