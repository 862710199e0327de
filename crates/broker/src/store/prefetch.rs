//! Asking the processor for memory before it is needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Fetches the first lines of something into the processor's cache. Nothing waits for them. Does nothing on processors for which
/// nobody has tried it.
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "no library and no stable function of the language offers it")
)]
#[inline]
pub(crate) fn fetch<const LINES: usize, T>(wanted: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let begin = std::ptr::from_ref(wanted).cast::<i8>();
        for line in 0..LINES {
            // SAFETY: the instruction is a hint; it reads nothing that the program could see, and no address makes it fail.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(begin.wrapping_add(line * LINE)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (wanted, LINES, LINE);
}
