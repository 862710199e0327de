//! How many filters, names and nodes have been looked at, so that tests can say how that grows with what there is.

#[cfg(debug_assertions)]
std::thread_local! {
    static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts looks. Without debug assertions nothing is left of it.
#[inline]
pub(crate) fn count(looks: u64) {
    #[cfg(debug_assertions)]
    LOOKS.set(LOOKS.get() + looks);
    #[cfg(not(debug_assertions))]
    let _ = looks;
}

/// Looks of this thread so far: filters that were compared with names, and nodes and names that were visited to find them.
#[cfg(debug_assertions)]
pub fn looks() -> u64 {
    LOOKS.get()
}
