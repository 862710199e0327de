//! Memory that processes share: an anonymous file, sealed so that its size cannot change, and mapped as words.
//!
//! Everything in it is a 64-bit word that is read and written atomically. So it does not matter to the rules of memory what
//! others do to it at the same time: a load gives some value, and what uses it decides whether it makes sense.
#![allow(unsafe_code, reason = "mapping memory is unsafe by its nature; each place says why it is sound")]

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a word.
pub(crate) const WORD: usize = 8;

/// The longest shared memory: 4 GiB. A configuration has its own limit, which is lower (`kv.store_memory`).
pub const MEMORY_BYTES_MAX: u64 = 1 << 32;

/// Why memory cannot be shared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The kernel refused.
    #[error("{step} of shared memory: {error}; Linux 5.1 or newer is needed, and enough memory")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        error: Errno,
    },
    /// It would be larger than [`MEMORY_BYTES_MAX`].
    #[error(
        "shared memory of {0} bytes: at most {MEMORY_BYTES_MAX}; lower `history`, `value_bytes_max` or the number of keys"
    )]
    TooLarge(u64),
    /// What was given may shrink or change under its reader, or is none of ours.
    #[error(
        "the descriptor is no shared memory of a node ({0}): node and application must be of the same version"
    )]
    Foreign(&'static str),
}

/// Memory that this process may write.
#[derive(Debug)]
pub(crate) struct Memory(Mapping);

/// Memory that this process may only read.
#[derive(Debug)]
pub(crate) struct ReadOnly(Mapping);

/// A word that can only be read: storing to it would end the process.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
}

impl Memory {
    /// New memory, all zero, with every page there, so that nobody waits for one later.
    pub(crate) fn create(name: &str, words: usize) -> Result<(OwnedFd, Memory), MemoryError> {
        let bytes = words as u64 * WORD as u64;
        if bytes > MEMORY_BYTES_MAX {
            return Err(MemoryError::TooLarge(bytes));
        }
        let file =
            memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(step("making"))?;
        ftruncate(&file, bytes).map_err(step("sizing"))?;
        // The size must not change from here on: an access beyond it would be fatal.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).map_err(step("sealing"))?;
        let mapping = Mapping::new(&file, words, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok((file, Memory(mapping)))
    }

    /// What another process has made for both to write.
    pub(crate) fn map(file: impl AsFd) -> Result<Memory, MemoryError> {
        let words = sealed_words(&file, SealFlags::SHRINK)?;
        Ok(Memory(Mapping::new(file, words, ProtFlags::READ | ProtFlags::WRITE)?))
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is of this length, page-aligned, lives as long as `self`, and can be written. The size of its file is
        // sealed, so all of it is backed. Others change it only word by word, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.0.start.cast().as_ptr(), self.0.words) }
    }
}

impl ReadOnly {
    /// What another process, or another part of this one, writes.
    pub(crate) fn map(file: impl AsFd) -> Result<ReadOnly, MemoryError> {
        let words = sealed_words(&file, SealFlags::SHRINK | SealFlags::FUTURE_WRITE)?;
        Ok(ReadOnly(Mapping::new(file, words, ProtFlags::READ)?))
    }

    #[inline]
    pub(crate) fn words(&self) -> &[Word] {
        // SAFETY: as in `Memory::words`; a `Word` has the layout of an `AtomicU64` and never stores. Loads of 64 bits do not write
        // on the 64-bit targets that Verge runs on.
        unsafe { std::slice::from_raw_parts(self.0.start.cast().as_ptr(), self.0.words) }
    }
}

/// Nobody maps the file for writing from now on, and nobody changes its seals.
pub(crate) fn seal_against_writing(file: impl AsFd) -> Result<(), MemoryError> {
    fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL).map_err(step("sealing"))
}

/// Nobody changes the seals from now on: those against writing would make a ring of no use.
pub(crate) fn seal_seals(file: impl AsFd) -> Result<(), MemoryError> {
    fcntl_add_seals(file, SealFlags::SEAL).map_err(step("sealing"))
}

/// A mapping, undone when it is dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    words: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is only accessed through atomic words.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: impl AsFd, words: usize, access: ProtFlags) -> Result<Mapping, MemoryError> {
        // Populated, so that no access waits for a page later.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a place that is free, so nothing that exists is touched.
        let start =
            unsafe { mmap(null_mut(), words * WORD, access, flags, file, 0) }.map_err(step("mapping"))?;
        let start = NonNull::new(start).ok_or(MemoryError::Foreign("mapped to nothing"))?;
        Ok(Mapping { start, words })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and all that borrowed from it is gone. A failure leaves it mapped, which harms
        // nobody.
        let _ = unsafe { munmap(self.start.as_ptr(), self.words * WORD) };
    }
}

/// How many words a file has whose size cannot change.
fn sealed_words(file: impl AsFd, seals: SealFlags) -> Result<usize, MemoryError> {
    let found = fcntl_get_seals(&file).map_err(|_| MemoryError::Foreign("it has no seals"))?;
    if !found.contains(seals) {
        return Err(MemoryError::Foreign("it is not sealed"));
    }
    let bytes = fstat(&file).map_err(step("asking for the size"))?.st_size as u64;
    if bytes == 0 || bytes > MEMORY_BYTES_MAX || !bytes.is_multiple_of(WORD as u64) {
        return Err(MemoryError::Foreign("its size is wrong"));
    }
    usize::try_from(bytes / WORD as u64).map_err(|_| MemoryError::TooLarge(bytes))
}

fn step(step: &'static str) -> impl Fn(Errno) -> MemoryError {
    move |error| MemoryError::System { step, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::dup;

    #[test]
    fn what_is_sealed_is_read_by_others_and_written_by_its_maker_alone() {
        let (file, memory) = Memory::create("test", 700).unwrap();
        assert!(matches!(ReadOnly::map(&file), Err(MemoryError::Foreign(_))), "not sealed yet");
        seal_against_writing(&file).unwrap();
        let other = ReadOnly::map(dup(&file).unwrap()).unwrap();
        memory.words()[699].store(7, Ordering::Relaxed);
        assert_eq!(other.words()[699].load(Ordering::Relaxed), 7);
        assert_eq!(
            Memory::map(&file).unwrap_err(),
            MemoryError::System { step: "mapping", error: Errno::PERM }
        );
        assert_eq!(ftruncate(&file, 8), Err(Errno::PERM));
        assert_eq!(rustix::io::write(&file, b"scribble"), Err(Errno::PERM));
    }

    #[test]
    fn what_may_shrink_is_not_mapped() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(matches!(Memory::map(&file), Err(MemoryError::Foreign("it is not sealed"))));
        let (mine, _theirs) = std::io::pipe().unwrap();
        assert!(matches!(ReadOnly::map(&mine), Err(MemoryError::Foreign("it has no seals"))));
    }
}
