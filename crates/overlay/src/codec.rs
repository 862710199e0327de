//! Frames as bytes: CBOR, each field in its place.
//!
//! What comes from outside is bounded here: no list is longer than a region or an area can have, no name longer than one is.

use crate::cells::{CELLS, Cells};
use crate::election::{Side, Word};
use crate::frame::Frame;
use crate::table::MEMBERS_MAX;
use crate::tree::{Claim, Rank};
use crate::{Member, PeerId};
use contract::{Location, RingId};
use minicbor::{Decoder, Encoder};

/// The longest name of a peer, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest address of a peer, in bytes: a name of the domain name system, and a port.
pub const ADDRESS_BYTES_MAX: usize = 260;

/// Why something is no frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is none.
    #[error("it cannot be read: {0}")]
    Cbor(#[from] minicbor::decode::Error),
    /// There is too much of something.
    #[error("it has more {0} than may be")]
    TooMany(&'static str),
    /// It has a value that nothing has.
    #[error("{0} is none")]
    Invalid(&'static str),
    /// It is of a kind that is not known.
    #[error("it is of a kind that this release does not know: run the same release on all peers")]
    Unknown,
}

type Read<T> = Result<T, FrameError>;
type EncodeError = minicbor::encode::Error<core::convert::Infallible>;
type Written = Result<(), EncodeError>;

impl Frame {
    /// Writes it behind what is there.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        let written = self.write(&mut Encoder::new(bytes));
        debug_assert!(written.is_ok(), "memory takes everything");
    }

    fn write(&self, to: &mut Encoder<&mut Vec<u8>>) -> Written {
        to.u8(self.kind())?;
        match self {
            Frame::Discover | Frame::Full | Frame::Stranger | Frame::Leave => {}
            Frame::Tree { claims } => {
                to.array(claims.len() as u64)?;
                for Claim { epoch, master, cells } in claims {
                    to.u64(*epoch)?.bytes(&cells.to_bytes())?;
                    write_member(to, master)?;
                }
            }
            Frame::Join { location } => write_location(to, *location)?,
            Frame::Table { reign, version, members } => {
                write_rank(to, *reign)?;
                to.u64(*version)?;
                write_members(to, members)?;
            }
            Frame::Changed { reign, version, put, gone } => {
                write_rank(to, *reign)?;
                to.u64(*version)?;
                write_members(to, put)?;
                to.array(gone.len() as u64)?;
                for peer in gone {
                    write_peer(to, *peer)?;
                }
            }
            Frame::Alive { reign, version, tree, asks } => {
                write_rank(to, *reign)?;
                to.u64(*version)?.u64(*tree)?.bool(*asks)?;
            }
            Frame::Elect { reign, from, word } => {
                write_rank(to, *reign)?;
                to.bool(*from == Side::Up)?;
                let (is_back, Word::Out { id, phase, hops } | Word::Back { id, phase, hops }) =
                    (matches!(word, Word::Back { .. }), *word);
                to.bool(is_back)?;
                write_peer(to, id)?;
                to.u8(phase)?.u32(hops)?;
            }
            Frame::Reigns { reign } | Frame::Probe { reign } | Frame::Present { reign } => {
                write_rank(to, *reign)?;
            }
        }
        Ok(())
    }

    fn kind(&self) -> u8 {
        match self {
            Frame::Discover => 0,
            Frame::Tree { .. } => 1,
            Frame::Join { .. } => 2,
            Frame::Table { .. } => 3,
            Frame::Changed { .. } => 4,
            Frame::Full => 5,
            Frame::Alive { .. } => 6,
            Frame::Stranger => 7,
            Frame::Leave => 8,
            Frame::Elect { .. } => 9,
            Frame::Reigns { .. } => 10,
            Frame::Probe { .. } => 11,
            Frame::Present { .. } => 12,
        }
    }

    /// From bytes. What stands behind it is left.
    pub fn decode(bytes: &[u8]) -> Read<Frame> {
        let from = &mut Decoder::new(bytes);
        Ok(match from.u8()? {
            0 => Frame::Discover,
            1 => {
                let count = count(from, CELLS, "claims")?;
                Frame::Tree { claims: (0..count).map(|_| claim(from)).collect::<Read<_>>()? }
            }
            2 => Frame::Join { location: location(from)? },
            3 => Frame::Table { reign: rank(from)?, version: from.u64()?, members: members(from)? },
            4 => {
                let (reign, version, put) = (rank(from)?, from.u64()?, members(from)?);
                let gone = count(from, MEMBERS_MAX, "members")?;
                Frame::Changed {
                    reign,
                    version,
                    put,
                    gone: (0..gone).map(|_| peer(from)).collect::<Read<_>>()?,
                }
            }
            5 => Frame::Full,
            6 => {
                let (reign, version) = (rank(from)?, from.u64()?);
                Frame::Alive { reign, version, tree: from.u64()?, asks: from.bool()? }
            }
            7 => Frame::Stranger,
            8 => Frame::Leave,
            9 => {
                let (reign, side) = (rank(from)?, if from.bool()? { Side::Up } else { Side::Down });
                let (is_back, id, phase, hops) = (from.bool()?, peer(from)?, from.u8()?, from.u32()?);
                let word =
                    if is_back { Word::Back { id, phase, hops } } else { Word::Out { id, phase, hops } };
                Frame::Elect { reign, from: side, word }
            }
            10 => Frame::Reigns { reign: rank(from)? },
            11 => Frame::Probe { reign: rank(from)? },
            12 => Frame::Present { reign: rank(from)? },
            _ => return Err(FrameError::Unknown),
        })
    }
}

impl Member {
    /// Writes it behind what is there: what a peer says of itself when a link opens.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        let written = write_member(&mut Encoder::new(bytes), self);
        debug_assert!(written.is_ok(), "memory takes everything");
    }

    /// From bytes. What stands behind it is left.
    pub fn decode(bytes: &[u8]) -> Read<Member> {
        member(&mut Decoder::new(bytes))
    }
}

/// So many follow.
fn count(from: &mut Decoder<'_>, most: usize, what: &'static str) -> Read<usize> {
    let count = from.array()?.ok_or(FrameError::Unknown)?;
    usize::try_from(count).ok().filter(|count| *count <= most).ok_or(FrameError::TooMany(what))
}

fn text(from: &mut Decoder<'_>, most: usize, what: &'static str) -> Read<String> {
    let text = from.str()?;
    if text.len() > most { Err(FrameError::TooMany(what)) } else { Ok(text.to_owned()) }
}

fn array<const N: usize>(from: &mut Decoder<'_>, what: &'static str) -> Read<[u8; N]> {
    from.bytes()?.try_into().map_err(|_| FrameError::Invalid(what))
}

fn peer(from: &mut Decoder<'_>) -> Read<PeerId> {
    Ok(PeerId { ring: RingId::from_bytes(array(from, "a place on the ring")?), life: from.u64()? })
}

fn write_peer(to: &mut Encoder<&mut Vec<u8>>, peer: PeerId) -> Written {
    to.bytes(&peer.ring.to_bytes())?.u64(peer.life)?;
    Ok(())
}

fn rank(from: &mut Decoder<'_>) -> Read<Rank> {
    Ok(Rank { epoch: from.u64()?, master: peer(from)? })
}

fn write_rank(to: &mut Encoder<&mut Vec<u8>>, rank: Rank) -> Written {
    to.u64(rank.epoch)?;
    write_peer(to, rank.master)
}

fn location(from: &mut Decoder<'_>) -> Read<Location> {
    Location::new(from.f64()?, from.f64()?).map_err(|_| FrameError::Invalid("a location"))
}

fn write_location(to: &mut Encoder<&mut Vec<u8>>, location: Location) -> Written {
    to.f64(location.lat())?.f64(location.long())?;
    Ok(())
}

fn member(from: &mut Decoder<'_>) -> Read<Member> {
    Ok(Member {
        id: peer(from)?,
        name: text(from, NAME_BYTES_MAX, "letters in a name")?,
        address: text(from, ADDRESS_BYTES_MAX, "letters in an address")?,
        location: location(from)?,
    })
}

fn write_member(to: &mut Encoder<&mut Vec<u8>>, member: &Member) -> Written {
    let Member { id, name, address, location } = member;
    write_peer(to, *id)?;
    to.str(name)?.str(address)?;
    write_location(to, *location)
}

fn members(from: &mut Decoder<'_>) -> Read<Vec<Member>> {
    let count = count(from, MEMBERS_MAX, "members")?;
    (0..count).map(|_| member(from)).collect()
}

fn write_members(to: &mut Encoder<&mut Vec<u8>>, members: &[Member]) -> Written {
    to.array(members.len() as u64)?;
    members.iter().try_for_each(|member| write_member(to, member))
}

fn claim(from: &mut Decoder<'_>) -> Read<Claim> {
    let (epoch, cells) = (from.u64()?, Cells::from_bytes(array(from, "a set of cells")?));
    Ok(Claim { epoch, master: member(from)?, cells })
}

#[cfg(test)]
mod tests;
