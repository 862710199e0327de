//! Faults on purpose, to show that the property test notices them. Outside of this crate's tests they are constants.

/// A fault, named after what the code then does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Checksums are not looked at.
    BelieveAnything,
    /// A sync leaves out names of files.
    ForgetNames,
    /// What is deleted is what is newest.
    GiveUpNewest,
    /// Compaction removes old segments before the new one is synced.
    RemoveEarly,
    /// Compaction leaves out the last item of each topic.
    CopyTooLittle,
    /// After a restart items have numbers that others had before.
    NumberAgain,
    /// A receiver's position goes back.
    GoBack,
    /// Items that are out of date are read.
    ReadExpired,
    /// A failed sync is forgotten.
    ForgetFailure,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

impl Mutant {
    #[inline(always)]
    pub(crate) fn is_on(self) -> bool {
        #[cfg(test)]
        return ON.get() == Some(self);
        #[cfg(not(test))]
        false
    }

    #[cfg(test)]
    pub(crate) fn switch(mutant: Option<Mutant>) {
        ON.set(mutant);
    }
}
