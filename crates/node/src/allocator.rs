//! Where memory comes from.
//!
//! Threads of different priorities share it, and the system's allocator has locks: a less urgent thread that is interrupted while it
//! holds one holds up the data thread, for as long as the threads between the two have work. In mimalloc every thread has memory of
//! its own, and gives that of others back with atomic operations, so nobody waits.
//!
//! A broker's messages, streams and topics come from huge pages. Of tens of thousands of streams none is in the processor's cache, and
//! where pages are small, their addresses are not either: looking these up takes longer than fetching the memory, on a guest above
//! all. **The convention**: what each message touches asks to lie at pairs of cache lines (`repr(align(128))`), and hardly anything
//! else does. All memory on huge pages would take nearly twice as much.

use libmimalloc_sys as mi;
use mimalloc::MiMalloc;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// How what each message touches is aligned.
const PAIR_OF_LINES: usize = 128;
const HUGE_PAGE: usize = 2 << 20;
/// So much lies on small pages first, which is several hundred topics with a stream each: the processor finds those without, and a
/// small broker stays small.
const SMALL_BYTES: usize = 1 << 20;
/// Addresses for what is on huge pages; memory is taken when it is used. What has no room is elsewhere.
const HUGE_BYTES: usize = 256 << 20;

struct Allocator {
    /// Whether this program is one for huge pages.
    wanted: AtomicBool,
    /// How much has been asked for, since then, of what each message touches.
    asked: AtomicUsize,
    /// Where huge pages are handed out, once that is much.
    huge: AtomicPtr<mi::mi_heap_t>,
}

/// From now on, what each message touches lies on huge pages where the host has them, once there is much of it. They are not given
/// back.
pub fn use_huge_pages() {
    ALLOCATOR.wanted.store(true, Ordering::Relaxed);
}

/// Gives memory that this thread has freed back to the host. `all`: also what was freed just now.
#[expect(unsafe_code, reason = "an allocator in C")]
pub fn give_back(all: bool) {
    // SAFETY: any thread may ask for it at any time.
    unsafe { mi::mi_collect(all) }
}

/// A heap with these addresses; `None` if the host does not let a program have so many.
#[expect(unsafe_code, reason = "memory is given to an allocator in C")]
fn heap_of_huge_pages(bytes: usize) -> Option<(*mut mi::mi_heap_t, Range<usize>)> {
    let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: the kernel chooses a place where nothing is.
    let found = unsafe { mmap_anonymous(null_mut(), bytes + HUGE_PAGE, access, kind) }.ok()?;
    let begin = found.wrapping_byte_add(found.addr().wrapping_neg() % HUGE_PAGE);
    // Small pages are as good, but slower.
    // SAFETY: the range is within what was mapped, and nothing lies there yet.
    let _ = unsafe { madvise(begin, bytes, Advice::LinuxHugepage) };
    let mut arena = null_mut();
    // It is committed, is to stay so, and holds zeros; no particular memory node, and nobody else's.
    // SAFETY: the range is mapped, aligned beyond what an arena has to be, used by nobody, and stays for ever.
    unsafe {
        if !mi::mi_manage_os_memory_ex(begin, bytes, true, true, true, -1, true, &raw mut arena) {
            let _ = munmap(found, bytes + HUGE_PAGE);
            return None;
        }
        let heap = mi::mi_heap_new_in_arena(arena);
        (!heap.is_null()).then(|| (heap, begin.addr()..begin.addr() + bytes))
    }
}

impl Allocator {
    const fn new() -> Allocator {
        let (wanted, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        Allocator { wanted, asked, huge: AtomicPtr::new(null_mut()) }
    }

    /// What `ask` gets of huge pages, if this is to lie there and they have room.
    #[inline]
    fn on_huge_pages(
        &self,
        layout: Layout,
        ask: impl FnOnce(*mut mi::mi_heap_t) -> *mut c_void,
    ) -> Option<*mut u8> {
        if layout.align() != PAIR_OF_LINES || !self.wanted.load(Ordering::Relaxed) {
            return None;
        }
        let before = self.asked.fetch_add(layout.size(), Ordering::Relaxed);
        // Only one comes to so much.
        if before < SMALL_BYTES
            && before + layout.size() >= SMALL_BYTES
            && let Some((heap, _)) = heap_of_huge_pages(HUGE_BYTES)
        {
            self.huge.store(heap, Ordering::Release);
        }
        let heap = Some(self.huge.load(Ordering::Acquire)).filter(|heap| !heap.is_null())?;
        let place = ask(heap);
        (!place.is_null()).then(|| place.cast())
    }
}

// SAFETY: mimalloc returns memory of the size and alignment that it is asked for, or null, from each of its heaps and by any thread,
// and takes back what came from any of them.
#[expect(unsafe_code, reason = "an allocator is")]
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the heap lives for ever.
        let ask = |heap| unsafe { mi::mi_heap_malloc_aligned(heap, layout.size(), layout.align()) };
        // SAFETY: the caller keeps what both promise.
        self.on_huge_pages(layout, ask).unwrap_or_else(|| unsafe { MiMalloc.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(place, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let ask = |heap| unsafe { mi::mi_heap_zalloc_aligned(heap, layout.size(), layout.align()) };
        // SAFETY: as above.
        self.on_huge_pages(layout, ask).unwrap_or_else(|| unsafe { MiMalloc.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; what lies elsewhere moves here.
        let ask = |heap| unsafe { mi::mi_heap_realloc_aligned(heap, place.cast(), size, layout.align()) };
        // SAFETY: as above; what found no room is still where it was.
        self.on_huge_pages(layout, ask).unwrap_or_else(|| unsafe { MiMalloc.realloc(place, layout, size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::{Duration, Instant};

    /// As what messages touch.
    const PAIRS: usize = 2_048;
    const LAYOUT: Layout = match Layout::from_size_align(PAIRS * PAIR_OF_LINES, PAIR_OF_LINES) {
        Ok(layout) => layout,
        Err(_) => panic!(),
    };

    #[test]
    #[expect(unsafe_code, reason = "an allocator is")]
    fn there_are_huge_pages_once_there_is_much_for_them_in_a_program_that_wants_them() {
        let allocator = Allocator::new();
        // SAFETY: the size is not zero, and what is given back was allocated.
        let come_and_go = || unsafe { allocator.dealloc(allocator.alloc(LAYOUT), LAYOUT) };
        let has_huge_pages = || !allocator.huge.load(Ordering::Acquire).is_null();
        come_and_go();
        assert!(!has_huge_pages(), "they are not wanted");
        allocator.wanted.store(true, Ordering::Relaxed);
        for asked in (0..SMALL_BYTES).step_by(LAYOUT.size()) {
            assert!(!has_huge_pages(), "after {asked} bytes");
            come_and_go();
        }
        assert!(has_huge_pages());
    }

    #[test]
    #[expect(unsafe_code, reason = "an allocator is")]
    fn what_messages_touch_lies_on_huge_pages_and_elsewhere_where_those_are_full() {
        let (heap, addresses) = heap_of_huge_pages(64 << 20).unwrap();
        let allocator = Allocator {
            wanted: AtomicBool::new(true),
            asked: AtomicUsize::new(SMALL_BYTES),
            huge: AtomicPtr::new(heap),
        };
        let is_huge = |place: *mut u8| addresses.contains(&place.addr());
        // SAFETY: no size is zero, what is written lies within what was allocated, and what is given back was.
        unsafe {
            let other = Layout::from_size_align(LAYOUT.size(), 64).unwrap();
            let elsewhere = allocator.alloc(other);
            assert!(!is_huge(elsewhere));
            allocator.dealloc(elsewhere, other);
            // It is used again: ten times as much as there is comes and goes.
            for _ in 0..2_560 {
                let place = allocator.alloc(LAYOUT);
                assert!(is_huge(place) && place.addr().is_multiple_of(PAIR_OF_LINES));
                place.write_bytes(7, LAYOUT.size());
                allocator.dealloc(place, LAYOUT);
            }
            let clean = allocator.alloc_zeroed(LAYOUT);
            assert!(std::slice::from_raw_parts(clean, LAYOUT.size()).iter().all(|byte| *byte == 0));
            allocator.dealloc(clean, LAYOUT);
            // As a table that grows, until there is no room, and beyond.
            let mut layout = Layout::from_size_align(4 * PAIR_OF_LINES, PAIR_OF_LINES).unwrap();
            let mut table = allocator.alloc(layout);
            let mut was_huge = vec![is_huge(table)];
            table.write_bytes(9, layout.size());
            while layout.size() < 128 << 20 {
                table = allocator.realloc(table, layout, 2 * layout.size());
                assert!(!table.is_null() && table.addr().is_multiple_of(PAIR_OF_LINES));
                let kept = std::slice::from_raw_parts(table, layout.size());
                assert!(kept.iter().all(|byte| *byte == 9), "{} bytes are kept", layout.size());
                layout = Layout::from_size_align(2 * layout.size(), PAIR_OF_LINES).unwrap();
                table.write_bytes(9, layout.size());
                was_huge.push(is_huge(table));
            }
            assert!(was_huge[..16].iter().all(|huge| *huge), "{was_huge:?}");
            assert_eq!(was_huge.last(), Some(&false));
            allocator.dealloc(table, layout);
        }
    }

    /// The thread that is to stand still, does; it may go on.
    static STANDS: AtomicBool = AtomicBool::new(false);
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    /// The other thread waits for it.
    static HELD_UP: AtomicBool = AtomicBool::new(false);

    /// In the middle of whatever it was doing.
    extern "C" fn stand_still(_: libc::c_int) {
        STANDS.store(true, SeqCst);
        while !GOES_ON.load(SeqCst) && !HELD_UP.load(SeqCst) {
            std::hint::spin_loop();
        }
        STANDS.store(false, SeqCst);
    }

    const PAYLOAD_BYTES: usize = 4_096;
    const ROUNDS: usize = 400;
    const BLOCKS_AT_ONCE: usize = 64;
    /// Nobody needs so long for a few blocks.
    const PATIENCE: Duration = Duration::from_secs(10);

    fn wait_for(flag: &AtomicBool, value: bool) {
        while flag.load(SeqCst) != value && !HELD_UP.load(SeqCst) {
            thread::yield_now();
        }
    }

    /// Whoever is held up cannot let the other one go on.
    fn watch(rounds: &AtomicUsize) {
        let mut last = (0, Instant::now());
        loop {
            let done = rounds.load(SeqCst);
            if done == ROUNDS {
                return;
            }
            if done != last.0 {
                last = (done, Instant::now());
            }
            if last.1.elapsed() > PATIENCE {
                return HELD_UP.store(true, SeqCst);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    #[expect(
        unsafe_code,
        reason = "a thread is stopped in the middle of what it does, which nothing safe can do"
    )]
    fn whoever_stands_still_while_it_gives_memory_back_holds_nobody_up() {
        // SAFETY: the handler touches nothing but atomics.
        unsafe { libc::signal(libc::SIGUSR2, stand_still as *const () as libc::sighandler_t) };
        let (give, taken) = sync_channel::<Vec<u8>>(BLOCKS_AT_ONCE);
        // As an operator's thread: frees what the data thread has made, and makes something of its own.
        let worker = thread::spawn(move || {
            for block in taken {
                drop(black_box(vec![1_u8; block.len()]));
                drop(block);
            }
        });
        let id = worker.as_pthread_t();
        let blocks = |count: usize| (0..count).map(|_| black_box(vec![0_u8; PAYLOAD_BYTES]));
        let rounds = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| watch(&rounds));
            while rounds.load(SeqCst) < ROUNDS && !HELD_UP.load(SeqCst) {
                blocks(BLOCKS_AT_ONCE).for_each(|block| give.send(block).unwrap());
                GOES_ON.store(false, SeqCst);
                // SAFETY: the thread lives until `give` is dropped.
                unsafe { libc::pthread_kill(id, libc::SIGUSR2) };
                wait_for(&STANDS, true);
                drop(blocks(BLOCKS_AT_ONCE).collect::<Vec<_>>());
                GOES_ON.store(true, SeqCst);
                wait_for(&STANDS, false);
                rounds.fetch_add(1, SeqCst);
            }
        });
        drop(give);
        worker.join().unwrap();
        assert!(!HELD_UP.load(SeqCst), "held up in round {}", rounds.load(SeqCst));
    }
}
