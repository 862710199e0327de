package verge.flink;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;

/** Stream, which input of the stream's join, creation of the latest reading in it, bytes. A tuple: Flink has its fastest serializer for those. */
public final class Event extends Tuple4<Integer, Integer, Long, byte[]> {
    static final TypeInformation<Event> TYPE =
            new TupleTypeInfo<>(Event.class, Types.INT, Types.INT, Types.LONG, Types.PRIMITIVE_ARRAY(Types.BYTE));

    /** For the serializer. */
    public Event() {}

    Event(int stream, int input, long created, byte[] payload) {
        super(stream, input, created, payload);
    }
}
