package verge.flink;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.util.Collector;

/** Figure 2.6 as a job. Results are the bytes of what they are made of, one after another. */
final class Graph {
    /** Sources: one for each level, or one for each supplier. Apart: sources are tasks of their own, so that operators do not hold them up. */
    static void add(StreamExecutionEnvironment to, Level level, boolean sourceForEach, boolean apart, long seed) {
        if (level.streams() == 0) {
            return;
        }
        DataStream<Event> all = null;
        int step = sourceForEach ? 1 : level.inputs();
        for (int input = 0; input < level.inputs(); input += step) {
            DataStream<Event> one = to.addSource(new Readings(level, input, input + step, seed), level.name(), Event.TYPE);
            one = then(one, level.first(), apart, "first");
            all = all == null ? one : all.union(one);
        }
        var together = all.flatMap(new Join(level)).returns(Event.TYPE).name("together");
        if (apart && level.first() == 0) {
            together.startNewChain();
        }
        int place = level.place();
        SinkFunction<Event> taken = new SinkFunction<>() {
            @Override
            public void invoke(Event event, Context context) {
                Tally.result(place, event.f2);
            }
        };
        then(together, level.last(), false, "last").addSink(taken);
    }

    private static DataStream<Event> then(DataStream<Event> stream, double microseconds, boolean chainBegins, String name) {
        if (microseconds == 0) {
            return stream;
        }
        Burn burn = new Burn(microseconds);
        MapFunction<Event, Event> work = event -> {
            burn.run();
            return new Event(event.f0, event.f1, event.f2, event.f3.clone());
        };
        SingleOutputStreamOperator<Event> behind = stream.map(work).returns(Event.TYPE).name(name);
        return chainBegins ? behind.startNewChain() : behind;
    }

    /** Runs when there is a new event of each input; a newer one takes the place of one that waits, as in Verge. */
    private static final class Join implements FlatMapFunction<Event, Event> {
        private final Burn burn;
        private final Event[][] waiting;

        Join(Level level) {
            burn = new Burn(level.together());
            waiting = new Event[level.streams()][level.inputs()];
        }

        @Override
        public void flatMap(Event event, Collector<Event> output) {
            Event[] parts = waiting[event.f0];
            parts[event.f1] = event;
            int bytes = 0;
            long created = Long.MIN_VALUE;
            for (Event part : parts) {
                if (part == null) {
                    return;
                }
                bytes += part.f3.length;
                created = Math.max(created, part.f2);
            }
            burn.run();
            byte[] payload = new byte[bytes];
            int at = 0;
            for (int input = 0; input < parts.length; input++) {
                System.arraycopy(parts[input].f3, 0, payload, at, parts[input].f3.length);
                at += parts[input].f3.length;
                parts[input] = null;
            }
            output.collect(new Event(event.f0, 0, created, payload));
        }
    }
}
