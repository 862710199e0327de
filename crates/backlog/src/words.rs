//! What sites say to each other of what was missed, and keepers of one site to each other: CBOR, arrays that begin with a number for their kind.
//!
//! Whatever comes is bounded before anything is reserved for it. Another site may say what it likes; what does not fit is an error.

use contract::{Span, Time};
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

/// Logs that a journal may tell of: one for each filter that is kept.
pub(crate) const LOGS_MAX: usize = 64;
/// Filters that may be asked for at once. Who wants more asks for everything, and passes over what it does not want.
pub(crate) const FILTERS_MAX: usize = 512;
/// Bytes of these filters.
pub(crate) const FILTERS_BYTES_MAX: usize = 64 << 10;
/// Streams in a list.
pub(crate) const STREAMS_MAX: usize = 1_024;
/// Ranges of numbers in a list.
pub(crate) const RANGES_MAX: usize = 4_096;
/// Bytes that names of streams may take in a list. The last one may be longer.
pub(crate) const NAMES_BYTES_MAX: usize = 192 << 10;
/// The longest payload that goes to another site as backlog: a message holds its names as well.
pub const ITEM_BYTES_MAX: usize = (1 << 20) - (8 << 10);

/// Whose messages: a topic, its publisher, and which life of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StreamName {
    /// The topic.
    pub topic: Box<str>,
    /// The publisher, as it is called in its own site.
    pub publisher: Box<str>,
    /// Which life of the publication.
    pub life: u64,
}

impl StreamName {
    /// The name of a stream.
    pub fn new(topic: &str, publisher: &str, life: u64) -> StreamName {
        StreamName { topic: topic.into(), publisher: publisher.into(), life }
    }

    /// Its bytes in a list.
    pub(crate) fn bytes(&self) -> usize {
        self.topic.len() + self.publisher.len() + 16
    }
}

/// Streams and their numbers, in ranges.
pub type Listed = Vec<(StreamName, Vec<(u64, u64)>)>;

/// How far a log has come: the position up to which everything has had time to go its ordinary way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// The filter of the topics that are in it.
    pub log: Box<str>,
    /// That position.
    pub end: u64,
    /// How far it has come by now: who hears of it for the first time has missed nothing up to there.
    pub now: u64,
}

/// A keeper says that it is there, and what it has. Each does, twice in a second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Its journal: a number that no other has.
    pub journal: u64,
    /// Whether its broker reigns.
    pub reigns: bool,
    /// Since when it has kept without a break, by its own clock.
    pub began: Time,
    /// Its logs.
    pub logs: Vec<LogEnd>,
}

/// From where on a list is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// Behind this position.
    After(u64),
    /// From the first message on that is no older than this.
    Younger(Span),
}

/// What is wanted of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Want {
    /// Which messages of these topics are there.
    List {
        /// From where on.
        from: From,
        /// Up to this position: what stands behind it may still be on its ordinary way.
        up_to: u64,
        /// The topics.
        filters: Vec<Box<str>>,
    },
    /// These messages, which stand behind one position and not behind the other.
    Give {
        /// That one.
        after: u64,
        /// And the other.
        up_to: u64,
        /// The messages.
        missing: Listed,
    },
}

/// A site asks another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The number that the answer bears.
    pub number: u64,
    /// Whose journal it is about.
    pub journal: u64,
    /// Which log of it.
    pub log: Box<str>,
    /// Bytes in a second that may come at most; zero: as many as there are.
    pub rate: u64,
    /// What is wanted.
    pub want: Want,
}

/// A message as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its publisher.
    pub publisher: &'a str,
    /// Which life of the publication.
    pub life: u64,
    /// Its number.
    pub seq: u64,
    /// When it was created, by the clock of its site.
    pub created: Time,
    /// How it came, and what belongs to it besides: bits that the keeper knows.
    pub flags: u8,
    /// What it says.
    pub payload: &'a [u8],
}

/// An answer, or a part of one.
#[derive(Clone, Debug)]
pub enum Part<'a> {
    /// What is there.
    List {
        /// The number of the question.
        number: u64,
        /// From where on: behind this position.
        after: u64,
        /// Up to where it has been looked.
        up_to: u64,
        /// What was found.
        streams: Listed,
    },
    /// Messages.
    Items(Items<'a>),
}

/// Messages that were asked for.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    /// The number of the question.
    pub number: u64,
    /// Which part of the answer it is, from zero.
    pub index: u64,
    /// Whether it is the last.
    pub done: bool,
    /// When it was sent, by the clock of its site.
    pub sent: Time,
    /// The messages, not yet decoded.
    body: &'a [u8],
}

/// What a keeper tells the other one of its site, which goes on with it when it has to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It has begun, and knows nothing.
    Hello,
    /// The site stood still a moment ago: for so long still, what comes live counts as missed.
    Doubts(Span),
    /// Messages of this journal are handed on: whoever goes on begins with it, so that each has the same number again.
    HandsOn {
        /// The journal's site.
        origin: Box<str>,
        /// The journal.
        journal: u64,
    },
    /// What has come of another site, and been handed on.
    Had {
        /// That site.
        origin: Box<str>,
        /// What.
        streams: Vec<Told>,
        /// Places that everything up to there has been handed on from: journal, log, position.
        places: Vec<(u64, Box<str>, u64)>,
        /// Whether that was all that it knows, to somebody who said hello.
        all: bool,
    },
}

/// What is told of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Which.
    pub stream: StreamName,
    /// What has come.
    pub had: Vec<(u64, u64)>,
    /// How what was missed of it is numbered: in which life, which is zero where nothing was missed, and the next number.
    pub numbered: (u64, u64),
}

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WordError {
    /// It is no such word.
    #[error("it cannot be read: {0}")]
    Cbor(#[from] minicbor::decode::Error),
    /// There is too much of something.
    #[error("it has more {0} than may be")]
    TooMany(&'static str),
    /// It is of a kind that is not known.
    #[error("it is of a kind that this release does not know")]
    Unknown,
}

type Read<T> = Result<T, WordError>;

/// Writing into memory does not fail.
fn encode(write: impl FnOnce(&mut Encoder<&mut Vec<u8>>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = write(&mut Encoder::new(&mut bytes));
    debug_assert!(written.is_ok(), "memory takes everything");
    bytes
}

type EncodeError = minicbor::encode::Error<core::convert::Infallible>;

fn text(from: &mut Decoder<'_>) -> Read<Box<str>> {
    Ok(from.str()?.into())
}

/// So many follow.
fn count(from: &mut Decoder<'_>, most: usize, what: &'static str) -> Read<usize> {
    let count = from.array()?.ok_or(WordError::Unknown)?;
    usize::try_from(count).ok().filter(|count| *count <= most).ok_or(WordError::TooMany(what))
}

fn stream(from: &mut Decoder<'_>) -> Read<StreamName> {
    Ok(StreamName { topic: text(from)?, publisher: text(from)?, life: from.u64()? })
}

fn write_stream(to: &mut Encoder<&mut Vec<u8>>, stream: &StreamName) -> Result<(), EncodeError> {
    to.str(&stream.topic)?.str(&stream.publisher)?.u64(stream.life)?;
    Ok(())
}

fn ranges(from: &mut Decoder<'_>, left: &mut usize) -> Read<Vec<(u64, u64)>> {
    let ranges = count(from, *left, "ranges")?;
    *left -= ranges;
    (0..ranges)
        .map(|_| {
            let first = from.u64()?;
            Ok((first, first.saturating_add(from.u64()?)))
        })
        .collect()
}

fn write_ranges(to: &mut Encoder<&mut Vec<u8>>, ranges: &[(u64, u64)]) -> Result<(), EncodeError> {
    to.array(ranges.len() as u64)?;
    for (first, last) in ranges {
        to.u64(*first)?.u64(last.saturating_sub(*first))?;
    }
    Ok(())
}

fn listed(from: &mut Decoder<'_>) -> Read<Listed> {
    let (streams, mut left) = (count(from, STREAMS_MAX, "streams")?, RANGES_MAX);
    (0..streams).map(|_| Ok((stream(from)?, ranges(from, &mut left)?))).collect()
}

fn write_listed(to: &mut Encoder<&mut Vec<u8>>, streams: &Listed) -> Result<(), EncodeError> {
    to.array(streams.len() as u64)?;
    for (stream, ranges) in streams {
        write_stream(to, stream)?;
        write_ranges(to, ranges)?;
    }
    Ok(())
}

impl Beat {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|to| {
            to.u64(self.journal)?.bool(self.reigns)?.u64(self.began.0)?.array(self.logs.len() as u64)?;
            for LogEnd { log, end, now } in &self.logs {
                to.str(log)?.u64(*end)?.u64(*now)?;
            }
            Ok(())
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Read<Beat> {
        let from = &mut Decoder::new(bytes);
        let (journal, reigns, began) = (from.u64()?, from.bool()?, Time(from.u64()?));
        let logs = count(from, LOGS_MAX, "logs")?;
        let logs = (0..logs).map(|_| Ok(LogEnd { log: text(from)?, end: from.u64()?, now: from.u64()? }));
        Ok(Beat { journal, reigns, began, logs: logs.collect::<Read<_>>()? })
    }
}

impl Ask {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|to| {
            to.u64(self.number)?.u64(self.journal)?.str(&self.log)?.u64(self.rate)?;
            match &self.want {
                Want::List { from, up_to, filters } => {
                    match from {
                        From::After(position) => to.u8(0)?.u64(*position)?,
                        From::Younger(span) => to.u8(1)?.i64(span.0)?,
                    };
                    to.u64(*up_to)?.array(filters.len() as u64)?;
                    for filter in filters {
                        to.str(filter)?;
                    }
                }
                Want::Give { after, up_to, missing } => {
                    to.u8(2)?.u64(*after)?.u64(*up_to)?;
                    write_listed(to, missing)?;
                }
            }
            Ok(())
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Read<Ask> {
        let from = &mut Decoder::new(bytes);
        let (number, journal, log, rate) = (from.u64()?, from.u64()?, text(from)?, from.u64()?);
        let want = match from.u8()? {
            2 => Want::Give { after: from.u64()?, up_to: from.u64()?, missing: listed(from)? },
            kind @ 0..=1 => {
                let begin =
                    if kind == 0 { From::After(from.u64()?) } else { From::Younger(Span(from.i64()?)) };
                let up_to = from.u64()?;
                let filters = count(from, FILTERS_MAX, "filters")?;
                let filters = (0..filters).map(|_| text(from)).collect::<Read<_>>()?;
                Want::List { from: begin, up_to, filters }
            }
            _ => return Err(WordError::Unknown),
        };
        Ok(Ask { number, journal, log, rate, want })
    }
}

impl<'a> Part<'a> {
    /// As bytes: a list.
    pub fn encode_list(number: u64, after: u64, up_to: u64, streams: &Listed) -> Vec<u8> {
        encode(|to| {
            to.u8(0)?.u64(number)?.u64(after)?.u64(up_to)?;
            write_listed(to, streams)
        })
    }

    /// As bytes: messages, which are encoded already.
    pub fn encode_items(number: u64, index: u64, done: bool, sent: Time, body: &[u8]) -> Vec<u8> {
        encode(|to| {
            to.u8(1)?.u64(number)?.u64(index)?.bool(done)?.u64(sent.0)?.bytes(body)?;
            Ok(())
        })
    }

    /// From bytes.
    pub fn decode(bytes: &'a [u8]) -> Read<Part<'a>> {
        let from = &mut Decoder::new(bytes);
        match from.u8()? {
            0 => Ok(Part::List {
                number: from.u64()?,
                after: from.u64()?,
                up_to: from.u64()?,
                streams: listed(from)?,
            }),
            1 => Ok(Part::Items(Items {
                number: from.u64()?,
                index: from.u64()?,
                done: from.bool()?,
                sent: Time(from.u64()?),
                body: from.bytes()?,
            })),
            _ => Err(WordError::Unknown),
        }
    }
}

impl<'a> Items<'a> {
    /// The messages, one after the other. It ends at the first that cannot be read.
    pub fn iter(&self) -> impl Iterator<Item = Item<'a>> + use<'a> {
        let mut from = Decoder::new(self.body);
        std::iter::from_fn(move || Item::decode(&mut from).ok())
    }
}

impl<'a> Item<'a> {
    /// Writes it behind others.
    pub fn append_to(&self, body: &mut Vec<u8>) {
        let written = (|| -> Result<(), EncodeError> {
            let mut to = Encoder::new(body);
            to.str(self.topic)?.str(self.publisher)?.u64(self.life)?.u64(self.seq)?;
            to.u64(self.created.0)?;
            if self.flags != 0 {
                to.u8(self.flags)?;
            }
            to.bytes(self.payload)?;
            Ok(())
        })();
        debug_assert!(written.is_ok(), "memory takes everything");
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Item<'a>, minicbor::decode::Error> {
        Ok(Item {
            topic: from.str()?,
            publisher: from.str()?,
            life: from.u64()?,
            seq: from.u64()?,
            created: Time(from.u64()?),
            flags: if from.datatype()? == Type::U8 { from.u8()? } else { 0 },
            payload: from.bytes()?,
        })
    }
}

impl Progress {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|to| {
            let (origin, streams, places, all) = match self {
                Progress::Hello => {
                    to.null()?;
                    return Ok(());
                }
                Progress::Doubts(left) => {
                    to.bool(true)?.i64(left.0)?;
                    return Ok(());
                }
                Progress::HandsOn { origin, journal } => {
                    to.u64(*journal)?.str(origin)?;
                    return Ok(());
                }
                Progress::Had { origin, streams, places, all } => (origin, streams, places, all),
            };
            to.str(origin)?.array(streams.len() as u64)?;
            for told in streams {
                write_stream(to, &told.stream)?;
                write_ranges(to, &told.had)?;
                to.u64(told.numbered.0)?.u64(told.numbered.1)?;
            }
            to.array(places.len() as u64)?;
            for (journal, log, position) in places {
                to.u64(*journal)?.str(log)?.u64(*position)?;
            }
            to.bool(*all)?;
            Ok(())
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Read<Progress> {
        let from = &mut Decoder::new(bytes);
        if from.datatype()? == Type::Null {
            return Ok(Progress::Hello);
        }
        if from.datatype()? == Type::Bool {
            from.bool()?;
            return Ok(Progress::Doubts(Span(from.i64()?)));
        }
        if from.datatype()? != Type::String {
            let journal = from.u64()?;
            return Ok(Progress::HandsOn { journal, origin: text(from)? });
        }
        let origin = text(from)?;
        let (count_of, mut left) = (count(from, STREAMS_MAX, "streams")?, 64 * RANGES_MAX);
        let told = |from: &mut Decoder<'_>, left: &mut usize| {
            let (stream, had) = (stream(from)?, ranges(from, left)?);
            Ok(Told { stream, had, numbered: (from.u64()?, from.u64()?) })
        };
        let streams = (0..count_of).map(|_| told(from, &mut left)).collect::<Read<_>>()?;
        let places = count(from, LOGS_MAX, "places")?;
        let places = (0..places).map(|_| Ok((from.u64()?, text(from)?, from.u64()?)));
        Ok(Progress::Had { origin, streams, places: places.collect::<Read<_>>()?, all: from.bool()? })
    }
}
