//! A contract in its fixed form on the wire.

use crate::WireError;
use crate::limits::PAYLOAD_BYTES_MAX;
use contract::{Contract, Crossing, LinkClass, Loss, Needs, Span, TrafficClass};
use zerocopy::byteorder::little_endian::{I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const UNBOUNDED: u32 = u32::MAX;

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
pub(crate) struct TermsHead {
    period: I64,
    deadline: I64,
    loss: U32,
    retain: U32,
    link: [u8; LinkClass::BYTES],
    priority: u8,
    confirm: u8,
    reserved: [u8; 2],
    size: U32,
}

impl TermsHead {
    pub(crate) fn new(contract: &Contract) -> TermsHead {
        let loss = match contract.loss {
            Loss::AtMost(most) => most.min(UNBOUNDED - 1),
            Loss::Unbounded => UNBOUNDED,
        };
        TermsHead {
            period: contract.period.0.into(),
            deadline: contract.deadline.0.into(),
            loss: loss.into(),
            retain: contract.retain.into(),
            link: contract.link.bytes(),
            priority: contract.priority,
            confirm: u8::from(contract.confirm),
            reserved: [0; 2],
            size: contract.size.into(),
        }
    }

    pub(crate) fn contract(&self) -> Result<Contract, WireError> {
        let loss = match self.loss.get() {
            UNBOUNDED => Loss::Unbounded,
            most => Loss::AtMost(most),
        };
        let contract = Contract {
            period: Span(self.period.get()),
            deadline: Span(self.deadline.get()),
            loss,
            retain: self.retain.get(),
            link: LinkClass::from_bytes(self.link).map_err(|_| WireError::BadContract)?,
            priority: self.priority,
            confirm: self.confirm != 0,
            size: self.size.get(),
        };
        if contract.size as usize > PAYLOAD_BYTES_MAX {
            return Err(WireError::BadContract);
        }
        contract.check().map_err(|_| WireError::BadContract)?;
        Ok(contract)
    }
}

/// What a subscriber needs, in its fixed form on the wire.
#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
pub(crate) struct NeedsHead {
    /// Zero: as the contract says.
    deadline: I64,
    /// [`UNBOUNDED`]: as the contract says.
    loss: U32,
    /// Zeroes: as the contract says.
    link: [u8; LinkClass::BYTES],
    /// One: nothing is promised.
    best_effort: u8,
    /// One: it confirms.
    confirm: u8,
    onward: I64,
    /// Zero: of both classes.
    class: u8,
}

impl NeedsHead {
    pub(crate) fn new(needs: &Needs) -> NeedsHead {
        NeedsHead {
            deadline: needs.deadline.map_or(0, |deadline| deadline.0).into(),
            loss: needs.loss.map_or(UNBOUNDED, |most| most.min(UNBOUNDED - 1)).into(),
            link: needs.link.map_or([0; LinkClass::BYTES], |link| link.bytes()),
            best_effort: needs.best_effort.into(),
            confirm: needs.confirm.into(),
            onward: needs.onward.0.into(),
            class: match needs.class {
                None => 0,
                Some(TrafficClass::Promised) => 1,
                Some(TrafficClass::Bulk) => 2,
            },
        }
    }

    pub(crate) fn needs(&self) -> Result<Needs, WireError> {
        let deadline = Some(Span(self.deadline.get())).filter(|deadline| *deadline != Span::ZERO);
        if deadline.is_some_and(|deadline| deadline < Span::ZERO) {
            return Err(WireError::BadContract);
        }
        let loss = Some(self.loss.get()).filter(|most| *most != UNBOUNDED);
        let link = match self.link {
            link if link == [0; LinkClass::BYTES] => None,
            link => Some(LinkClass::from_bytes(link).map_err(|_| WireError::BadContract)?),
        };
        let (best_effort, confirm) = (self.best_effort != 0, self.confirm != 0);
        let class = match self.class {
            0 => None,
            1 => Some(TrafficClass::Promised),
            2 => Some(TrafficClass::Bulk),
            _ => return Err(WireError::BadContract),
        };
        let onward = Span(self.onward.get());
        let needs = Needs { deadline, loss, link, best_effort, confirm, onward, class };
        needs.check().map_err(|_| WireError::BadContract)?;
        Ok(needs)
    }
}

/// What is known of a stream that comes by other brokers, in its fixed form on the wire.
#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
pub(crate) struct CrossingHead {
    age: I64,
    retain: U32,
    within: I64,
    promised: u8,
}

impl CrossingHead {
    pub(crate) fn new(crossing: &Crossing) -> CrossingHead {
        let Crossing { age, retain, within, promised } = *crossing;
        CrossingHead {
            age: age.0.into(),
            retain: retain.into(),
            within: within.0.into(),
            promised: promised.into(),
        }
    }

    pub(crate) fn crossing(&self) -> Result<Crossing, WireError> {
        let (age, within) = (Span(self.age.get()), Span(self.within.get()));
        if age < Span::ZERO || within < Span::ZERO {
            return Err(WireError::BadContract);
        }
        if self.retain.get() > Contract::RETAIN_MAX {
            return Err(WireError::BadContract);
        }
        Ok(Crossing { age, retain: self.retain.get(), within, promised: self.promised != 0 })
    }
}
