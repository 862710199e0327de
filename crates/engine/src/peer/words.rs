//! What peers say to each other: of the overlay, and of what is offered and wanted.

use super::duties::{Where, is_function_name};
use super::keeping::{NOTE_BYTES_MAX, Note};
use contract::{Location, RingId};
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use overlay::{Frame, FrameError};
use rendezvous::{MEETINGS_MAX, Other, SHOWN_BYTES_MAX, Said, TERMS_BYTES_MAX, Topic};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{StoreWord, VALUE_BYTES_MAX, Version};

/// One word.
#[derive(Clone, PartialEq, Debug)]
pub enum PeerWord {
    /// Of the overlay.
    Overlay(Frame),
    /// Something is offered or wanted.
    Put(Put),
    /// It no longer is.
    Take {
        /// Under which number.
        number: u64,
    },
    /// About what is kept.
    Store(StoreWord),
    /// Something new is kept that is as was wanted.
    Noted {
        /// Under which number it was wanted.
        number: u64,
        /// What.
        note: Note,
    },
    /// To a point: the brokers refuse the topic of something that was put there.
    Refuse {
        /// Under which number.
        number: u64,
        /// Which topic.
        topic: Topic,
        /// Why.
        why: String,
    },
    /// To the other end of it.
    Refused {
        /// Under which number that is put.
        number: u64,
        /// Which topic.
        topic: Topic,
        /// Why.
        why: String,
    },
    /// Of who runs a function.
    Work(WorkWord),
    /// What a point says of it.
    Said {
        /// Under which number it was put there.
        number: u64,
        /// What.
        said: Said,
    },
}

/// Of who runs a function.
#[derive(Clone, PartialEq, Debug)]
pub enum WorkWord {
    /// The owner of its place asks a member: would it run it?
    Asks {
        /// Its name.
        name: Arc<str>,
        /// Where it has to run.
        at: Where,
    },
    /// It would, or would not; also said by one that was told to run it and cannot.
    Offers {
        /// Its name.
        name: Arc<str>,
        /// How much the member has to do already; `None`: it would not.
        load: Option<u32>,
    },
    /// The owner tells a member to run it, for as long as it says so again and again.
    Runs {
        /// Its name.
        name: Arc<str>,
        /// Which of several of that name.
        version: Version,
        /// Where it has to run.
        at: Where,
        /// Whether somebody has started it.
        is_started: bool,
        /// What it is; `None`: the member has been told.
        text: Option<Arc<[u8]>>,
    },
    /// That one has not got its text.
    Lacks {
        /// Its name.
        name: Arc<str>,
    },
    /// It is removed.
    Ends {
        /// Its name.
        name: Arc<str>,
    },
}

/// Something that is put at a point.
#[derive(Clone, PartialEq, Debug)]
pub struct Put {
    /// Its number among those of the sender.
    pub number: u64,
    /// Whether it is offered, or wanted.
    pub offers: bool,
    /// Whether the receiver is to put it at the points of its region, which the sender does not know.
    pub region: bool,
    /// Its profile or interest, as it is written.
    pub text: String,
    /// Where it is, if it is somewhere.
    pub location: Option<Location>,
    /// What the sender has been told of it amounts to.
    pub digest: u128,
}

/// The longest reason for a refusal that is told, in bytes; of longer ones the beginning is.
pub const WHY_BYTES_MAX: usize = 512;

/// The longest profile or interest, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

type Read<T> = Result<T, FrameError>;
type Written = Result<(), minicbor::encode::Error<core::convert::Infallible>>;

impl PeerWord {
    /// As bytes, behind what is there.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        let written = self.write(bytes);
        debug_assert!(written.is_ok(), "memory takes everything");
    }

    fn write(&self, bytes: &mut Vec<u8>) -> Written {
        let mut to = Encoder::new(&mut *bytes);
        match self {
            PeerWord::Overlay(frame) => {
                to.u8(0)?;
                frame.append_to(bytes);
            }
            PeerWord::Put(Put { number, offers, region, text, location, digest }) => {
                to.u8(1)?.u64(*number)?.bool(*offers)?.bool(*region)?.str(text)?;
                match location {
                    Some(location) => to.f64(location.lat())?.f64(location.long())?,
                    None => to.null()?,
                };
                to.bytes(&digest.to_le_bytes())?;
            }
            PeerWord::Take { number } => {
                to.u8(2)?.u64(*number)?;
            }
            PeerWord::Refuse { number, topic, why } => {
                to.u8(6)?.u64(*number)?.bytes(&topic.0.to_le_bytes())?.str(why)?;
            }
            PeerWord::Refused { number, topic, why } => {
                to.u8(7)?.u64(*number)?.bytes(&topic.0.to_le_bytes())?.str(why)?;
            }
            PeerWord::Store(word) => {
                to.u8(4)?;
                word.append_to(bytes);
            }
            PeerWord::Work(word) => work(to.u8(8)?, word)?,
            PeerWord::Noted { number, note: Note { key, size, value } } => {
                to.u8(5)?.u64(*number)?.str(key)?.u64(*size)?;
                match value {
                    Some(value) => to.bytes(value)?,
                    None => to.null()?,
                };
            }
            PeerWord::Said { number, said } => {
                to.u8(3)?.u64(*number)?;
                match said {
                    Said::Met(topic, other) => meeting(to.u8(0)?, *topic, other)?,
                    Said::Parted(topic) => to.u8(1)?.bytes(&topic.0.to_le_bytes())?,
                    Said::All(topics) => {
                        to.u8(2)?.array(topics.len() as u64)?;
                        for (topic, other) in topics {
                            meeting(&mut to, *topic, other)?;
                        }
                        &mut to
                    }
                };
            }
        }
        Ok(())
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Read<PeerWord> {
        let mut from = Decoder::new(bytes);
        Ok(match from.u8()? {
            0 => PeerWord::Overlay(Frame::decode(bytes.get(from.position()..).unwrap_or(&[]))?),
            1 => PeerWord::Put(Put {
                number: from.u64()?,
                offers: from.bool()?,
                region: from.bool()?,
                text: text(&mut from)?,
                location: location(&mut from)?,
                digest: bits(&mut from)?,
            }),
            2 => PeerWord::Take { number: from.u64()? },
            3 => PeerWord::Said { number: from.u64()?, said: said(&mut from)? },
            4 => {
                let word = StoreWord::decode(bytes.get(from.position()..).unwrap_or(&[]));
                PeerWord::Store(
                    word.map_err(|_| FrameError::Invalid("what is said of things that are kept"))?,
                )
            }
            5 => PeerWord::Noted { number: from.u64()?, note: note(&mut from)? },
            kind @ (6 | 7) => {
                let (number, topic) = (from.u64()?, Topic(bits(&mut from)?));
                let why = within(&mut from, WHY_BYTES_MAX)?.to_owned();
                match kind {
                    6 => PeerWord::Refuse { number, topic, why },
                    _ => PeerWord::Refused { number, topic, why },
                }
            }
            8 => PeerWord::Work(read_work(&mut from)?),
            _ => return Err(FrameError::Unknown),
        })
    }
}

fn work(to: &mut To<'_>, word: &WorkWord) -> Written {
    match word {
        WorkWord::Asks { name, at } => to.u8(0)?.str(name)?.u8(at.byte())?,
        WorkWord::Offers { name, load } => match load {
            Some(load) => to.u8(1)?.str(name)?.u32(*load)?,
            None => to.u8(1)?.str(name)?.null()?,
        },
        WorkWord::Runs { name, version, at, is_started, text } => {
            let Version { at: since, by } = version;
            to.u8(2)?.str(name)?.u64(*since)?.bytes(&by.to_bytes())?.u8(at.byte())?.bool(*is_started)?;
            match text {
                Some(text) => to.bytes(text)?,
                None => to.null()?,
            }
        }
        WorkWord::Lacks { name } => to.u8(3)?.str(name)?,
        WorkWord::Ends { name } => to.u8(4)?.str(name)?,
    };
    Ok(())
}

fn read_work(from: &mut Decoder<'_>) -> Read<WorkWord> {
    let (kind, name) = (from.u8()?, from.str()?);
    if !is_function_name(name) {
        return Err(FrameError::Invalid("the name of a function"));
    }
    let name = Arc::from(name);
    Ok(match kind {
        0 => WorkWord::Asks { name, at: read_where(from)? },
        1 => {
            let load = if is_null(from)? { None } else { Some(from.u32()?) };
            WorkWord::Offers { name, load }
        }
        2 => {
            let at = from.u64()?;
            let by = from.bytes()?.try_into().map_err(|_| FrameError::Invalid("a place on the ring"))?;
            let version = Version { at, by: RingId::from_bytes(by) };
            let (at, is_started) = (read_where(from)?, from.bool()?);
            let text = if is_null(from)? { None } else { Some(from.bytes()?) };
            if text.is_some_and(|text| text.len() > VALUE_BYTES_MAX) {
                return Err(FrameError::TooMany("bytes of a function"));
            }
            WorkWord::Runs { name, version, at, is_started, text: text.map(Arc::from) }
        }
        3 => WorkWord::Lacks { name },
        4 => WorkWord::Ends { name },
        _ => return Err(FrameError::Unknown),
    })
}

fn read_where(from: &mut Decoder<'_>) -> Read<Where> {
    Where::from_byte(from.u8()?).ok_or(FrameError::Invalid("where a function runs"))
}

/// Whether there is nothing; then it is gone over.
fn is_null(from: &mut Decoder<'_>) -> Read<bool> {
    let is_null = from.datatype()? == Type::Null;
    if is_null {
        from.null()?;
    }
    Ok(is_null)
}

fn note(from: &mut Decoder<'_>) -> Read<Note> {
    let (key, size) = (within(from, 2 * TEXT_BYTES_MAX)?.into(), from.u64()?);
    if is_null(from)? {
        return Ok(Note { key, size, value: None });
    }
    let value = from.bytes()?;
    if value.len() > NOTE_BYTES_MAX {
        return Err(FrameError::TooMany("bytes of a value"));
    }
    Ok(Note { key, size, value: Some(value.into()) })
}

fn text(from: &mut Decoder<'_>) -> Read<String> {
    within(from, TEXT_BYTES_MAX).map(str::to_owned)
}

fn within<'a>(from: &mut Decoder<'a>, bytes_max: usize) -> Read<&'a str> {
    let text = from.str()?;
    if text.len() > bytes_max { Err(FrameError::TooMany("letters in a profile")) } else { Ok(text) }
}

type To<'a> = Encoder<&'a mut Vec<u8>>;

fn meeting<'a, 'b>(
    to: &'a mut To<'b>,
    topic: Topic,
    other: &Other,
) -> Result<&'a mut To<'b>, minicbor::encode::Error<core::convert::Infallible>> {
    to.bytes(&topic.0.to_le_bytes())?.str(&other.says)?.str(&other.terms.to_string())
}

fn read_meeting(from: &mut Decoder<'_>) -> Read<(Topic, Other)> {
    let (topic, says) = (Topic(bits(from)?), within(from, SHOWN_BYTES_MAX)?.into());
    let terms = within(from, TERMS_BYTES_MAX)?.parse().map_err(|_| FrameError::Invalid("terms"))?;
    Ok((topic, Other { says, terms: Arc::new(terms) }))
}

fn location(from: &mut Decoder<'_>) -> Read<Option<Location>> {
    if is_null(from)? {
        return Ok(None);
    }
    let location = Location::new(from.f64()?, from.f64()?);
    location.map(Some).map_err(|_| FrameError::Invalid("a location"))
}

fn bits(from: &mut Decoder<'_>) -> Read<u128> {
    let bytes = from.bytes()?.try_into().map_err(|_| FrameError::Invalid("a digest"))?;
    Ok(u128::from_le_bytes(bytes))
}

fn said(from: &mut Decoder<'_>) -> Read<Said> {
    Ok(match from.u8()? {
        0 => {
            let (topic, other) = read_meeting(from)?;
            Said::Met(topic, other)
        }
        1 => Said::Parted(Topic(bits(from)?)),
        2 => {
            let count = from.array()?.and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| *count <= MEETINGS_MAX).ok_or(FrameError::TooMany("topics"))?;
            Said::All((0..count).map(|_| read_meeting(from)).collect::<Read<BTreeMap<Topic, Other>>>()?)
        }
        _ => return Err(FrameError::Unknown),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn works() -> impl Strategy<Value = WorkWord> {
        let names = || "[a-z][a-z._-]{0,9}".prop_map(|name| Arc::from(name.as_str()));
        let places = || (0..3_u8).prop_map(|byte| Where::from_byte(byte).unwrap());
        let texts = prop::option::of(any::<[u8; 3]>());
        let runs = (names(), any::<(u64, [u8; 20], bool)>(), places(), texts);
        prop_oneof![
            (names(), places()).prop_map(|(name, at)| WorkWord::Asks { name, at }),
            (names(), any::<Option<u32>>()).prop_map(|(name, load)| WorkWord::Offers { name, load }),
            runs.prop_map(|(name, (since, by, is_started), at, text)| {
                let version = Version { at: since, by: RingId::from_bytes(by) };
                let text = text.map(|text| text.to_vec().into());
                WorkWord::Runs { name, version, at, is_started, text }
            }),
            names().prop_map(|name| WorkWord::Lacks { name }),
            names().prop_map(|name| WorkWord::Ends { name }),
        ]
    }

    fn words() -> impl Strategy<Value = PeerWord> {
        let terms = || prop_oneof![Just(""), Just("topic=a/b, period=50ms, loss=0"), Just("deadline=1s")];
        let others = move || {
            ("[a-z*=, ]{0,30}", terms()).prop_map(|(says, terms)| Other {
                says: says.into(),
                terms: Arc::new(terms.parse().unwrap()),
            })
        };
        let topics = prop::collection::btree_map(any::<u128>().prop_map(Topic), others(), 0..5);
        let places = prop::option::of((-90.0..=90.0, -180.0..=180.0));
        let places = places.prop_map(|place| place.map(|(lat, long)| Location::new(lat, long).unwrap()));
        let puts = (any::<u64>(), any::<[bool; 2]>(), "[a-z*=, ]{0,30}", places, any::<u128>());
        prop_oneof![
            Just(PeerWord::Overlay(Frame::Leave)),
            works().prop_map(PeerWord::Work),
            puts.prop_map(|(number, [offers, region], text, location, digest)| {
                PeerWord::Put(Put { number, offers, region, text, location, digest })
            }),
            any::<u64>().prop_map(|number| PeerWord::Take { number }),
            (any::<u64>(), any::<u128>(), "[a-z ]{0,9}", any::<bool>()).prop_map(
                |(number, topic, why, asks)| {
                    let topic = Topic(topic);
                    match asks {
                        true => PeerWord::Refuse { number, topic, why },
                        false => PeerWord::Refused { number, topic, why },
                    }
                }
            ),
            Just(PeerWord::Store(StoreWord::Want { ids: Vec::new() })),
            (any::<u64>(), "[a-z, ]{0,9}", prop::option::of(any::<[u8; 3]>())).prop_map(
                |(number, key, value)| {
                    let value = value.map(|value| value.to_vec().into());
                    PeerWord::Noted { number, note: Note { key: key.into(), size: 3, value } }
                }
            ),
            (any::<u64>(), any::<u128>(), prop::option::of(others())).prop_map(|(number, topic, met)| {
                let topic = Topic(topic);
                let said = met.map_or(Said::Parted(topic), |other| Said::Met(topic, other));
                PeerWord::Said { number, said }
            }),
            (any::<u64>(), topics)
                .prop_map(|(number, topics)| PeerWord::Said { number, said: Said::All(topics) }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(word in words()) {
            let mut bytes = Vec::new();
            word.append_to(&mut bytes);
            prop_assert_eq!(PeerWord::decode(&bytes).unwrap(), word);
        }

        #[test]
        fn what_is_none_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = PeerWord::decode(&bytes);
        }
    }
}
