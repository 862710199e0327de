//! Numbers of what a gateway holds, each of its own type, so that none is taken for another.
//!
//! Packet identifiers and the numbers of subscriptions stay bare: clients make them up.

/// The number of something that has a place in a table.
pub(crate) trait Number: Copy {
    /// Of the thing at this place.
    fn of(place: u32) -> Self;

    /// As an index.
    fn place(self) -> usize;
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $vis:vis $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        $vis struct $name(pub u32);

        impl Number for $name {
            #[inline(always)]
            fn of(place: u32) -> $name {
                $name(place)
            }

            #[inline(always)]
            fn place(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

numbers! {
    /// The place of a client's session.
    pub SessionId;
    /// The place of a topic of the broker among those that have been routed.
    pub RouteId;
    /// The place of a group that shares a filter.
    pub GroupId;
    /// The place of a message that waits for sessions.
    pub(crate) BodyId;
}

/// No body behind this number: the message is not sent again.
pub(crate) const NO_BODY: BodyId = BodyId(u32::MAX);

/// No session has this number.
pub(crate) const NO_SESSION: SessionId = SessionId(u32::MAX);
