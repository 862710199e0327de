package verge.flink;

import java.io.Serializable;

/** A level of figure 2.6: its place in the tallies, suppliers of a stream and their period, streams, bytes of a reading; microseconds of
 *  the operator behind each supplier, of the one that takes an event of each, and of the one behind that; 0 where there is none. */
record Level(String name, int place, int inputs, long periodNs, int streams, int bytes, double first, double together, double last)
        implements Serializable {

    static Level of(String name, int place, int inputs, int periodMs, String words) {
        String[] word = words.split(",");
        if (word.length != 5) {
            throw new IllegalArgumentException("--" + name + " takes streams,bytes,first,together,last, and not " + words);
        }
        return new Level(name, place, inputs, periodMs * 1_000_000L, Integer.parseInt(word[0]), Integer.parseInt(word[1]),
                Double.parseDouble(word[2]), Double.parseDouble(word[3]), Double.parseDouble(word[4]));
    }
}
