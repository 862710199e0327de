package verge.flink;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;

/**
 * Supplies the inputs of a level that are at least `from` and below `to`, each at its planned times whatever becomes of them: an event is
 * created when it was due, so what holds a source up is latency. Streams are dealt out to the subtasks, and nothing need go from one to
 * another. The kind of source that Flink gives a thread of its own, for which waiting is allowed.
 */
final class Readings extends RichParallelSourceFunction<Event> {
    private static final double APART_NS = 1e6;

    private final Level level;
    private final int from;
    private final int to;
    private final long seed;
    private volatile boolean running = true;

    private record Supplier(int stream, int input, long phaseNs, byte[] payload) {}

    Readings(Level level, int from, int to, long seed) {
        this.level = level;
        this.from = from;
        this.to = to;
        this.seed = seed;
    }

    /** Streams begin anywhere in their period, suppliers of a stream within 1 ms of each other. */
    private List<Supplier> suppliers() {
        List<Supplier> mine = new ArrayList<>();
        int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        for (int stream = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(); stream < level.streams(); stream += subtasks) {
            SplittableRandom chance = new SplittableRandom((seed * 31 + level.place()) * 1_000 + stream);
            double begin = chance.nextDouble() * level.periodNs();
            for (int input = 0; input < level.inputs(); input++) {
                byte[] payload = new byte[level.bytes()];
                chance.nextBytes(payload);
                long phase = (long) (begin + chance.nextDouble() * APART_NS);
                if (input >= from && input < to) {
                    mine.add(new Supplier(stream, input, phase, payload));
                }
            }
        }
        mine.sort(Comparator.comparingLong(Supplier::phaseNs));
        return mine;
    }

    @Override
    public void run(SourceContext<Event> output) {
        List<Supplier> suppliers = suppliers();
        long begin = Tally.origin();
        // All have one period, so they take turns.
        for (long round = 0; running; round++) {
            for (Supplier supplier : suppliers) {
                long due = begin + supplier.phaseNs + round * level.periodNs();
                for (long left = due - System.nanoTime(); left > 0 && running; left = due - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
                Tally.supplied(due);
                output.collect(new Event(supplier.stream, supplier.input, due, supplier.payload));
            }
        }
    }

    @Override
    public void cancel() {
        running = false;
    }
}
