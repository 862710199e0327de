package verge.flink;

import java.util.concurrent.atomic.LongAccumulator;
import org.HdrHistogram.ConcurrentHistogram;

/** What sources and sinks of the job say, all in this process: when the plan begins, results and how late they were. */
final class Tally {
    private static final long START_NS = 1_000_000_000;
    private static final long LONGEST_US = 60_000_000;
    private static final LongAccumulator LATE = new LongAccumulator(Math::max, 0);
    private static final ConcurrentHistogram[] LATENCY_US = {histogram(), histogram(), histogram()};
    private static volatile long origin;
    private static volatile long from = Long.MAX_VALUE;
    private static volatile long until = Long.MAX_VALUE;

    private static ConcurrentHistogram histogram() {
        return new ConcurrentHistogram(LONGEST_US, 3);
    }

    /** The instant at which all plans begin: a while after the first source has asked, so that all of them are there. */
    static synchronized long origin() {
        origin = origin == 0 ? System.nanoTime() + START_NS : origin;
        return origin;
    }

    static boolean hasBegun() {
        return origin != 0;
    }

    /** Only readings of this time count, whenever their results come. */
    static void count(long first, long end) {
        until = end;
        from = first;
    }

    static void supplied(long due) {
        if (due >= from && due < until) {
            LATE.accumulate(System.nanoTime() - due);
        }
    }

    static void result(int place, long created) {
        if (created >= from && created < until) {
            LATENCY_US[place].recordValue(Math.min((System.nanoTime() - created) / 1_000, LONGEST_US));
        }
    }

    static double lateMs() {
        return LATE.get() / 1e6;
    }

    static String row(Level level, double seconds) {
        ConcurrentHistogram latency = LATENCY_US[level.place()];
        return String.format("\"%s\":{\"expected\":%.1f,\"results\":%d,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f}",
                level.name(), level.streams() * seconds * 1e9 / level.periodNs(), latency.getTotalCount(),
                latency.getValueAtPercentile(50) / 1e3, latency.getValueAtPercentile(99) / 1e3, latency.getValueAtPercentile(99.9) / 1e3,
                latency.getMaxValue() / 1e3);
    }
}
