package verge.flink;

import java.io.Serializable;

/** Takes a stated time of a processor, as {@code bench/processing/src/busy.rs}: so many steps, each of which needs the one before. */
final class Burn implements Serializable {
    private static final long WARM_UP_NS = 300_000_000;
    private static final int TRIES = 200;
    private static final long STEPS_OF_A_TRY = 100_000;

    /** Nanoseconds of a step: the least of many tries, since other programs only ever add to it. */
    static final double STEP_NS = measured();

    private final long steps;
    private long state = 1;

    Burn(double microseconds) {
        steps = Math.round(microseconds * 1e3 / STEP_NS);
    }

    void run() {
        state = after(state, steps);
    }

    private static long after(long state, long steps) {
        for (long step = 0; step < steps; step++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
        }
        return state;
    }

    private static double measured() {
        long state = 1;
        // Until the compiler has seen enough of it.
        for (long begin = System.nanoTime(); System.nanoTime() - begin < WARM_UP_NS; ) {
            state = after(state, STEPS_OF_A_TRY / 100);
        }
        long least = Long.MAX_VALUE;
        for (int turn = 0; turn < TRIES; turn++) {
            long begin = System.nanoTime();
            state = after(state, STEPS_OF_A_TRY);
            least = Math.min(least, System.nanoTime() - begin);
        }
        if (state == 0) {
            throw new IllegalStateException("these steps never lead to zero");
        }
        return (double) least / STEPS_OF_A_TRY;
    }
}
