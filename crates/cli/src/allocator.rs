//! Where memory comes from.
//!
//! Threads of different priorities share it, and the system's allocator has locks: a less urgent thread that is interrupted while it
//! holds one holds up the data thread, for as long as the threads between the two have work. In mimalloc every thread has memory of
//! its own, and gives that of others back with atomic operations, so nobody waits. Without huge pages: they would take three times
//! the memory.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::{Duration, Instant};

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
    #[allow(
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
