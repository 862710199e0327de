/* Every refusal that a call from C can meet, at a lane with the keys of the tests, and at one of a node that lacks something. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "verge_kv.h"

static void expect(const char *what, int64_t code, int64_t wanted, const char *words) {
    if (code != wanted || (words && !strstr(verge_kv_last_error(), words))) {
        fprintf(stderr, "%s: %lld, not %lld (%s): %s\n", what, (long long)code, (long long)wanted, words ? words : "", verge_kv_last_error());
        exit(1);
    }
}

/* Writes until a value is read: on a machine that has no time, a node may come to one when it is too late for it. */
static uint64_t written(verge_kv *lane, int64_t key, int64_t value, uint64_t within) {
    for (int tries = 0; tries < 50; tries++) {
        int64_t read = 0;
        uint64_t later = verge_kv_now() + within;
        int code = verge_kv_write_i64(lane, key, value, later);
        if (code != VERGE_KV_FULL && code != VERGE_KV_LATE) expect("written", code, 0, NULL);
        while (verge_kv_now() < later + within) {
            if (verge_kv_read_i64(lane, key, later, &read, NULL) == 0 && read == value) return later;
            verge_kv_sleep_until(verge_kv_now() + 1000000);
        }
    }
    fprintf(stderr, "nothing that was written could be read: %s\n", verge_kv_last_error());
    exit(1);
}

int main(int count, char **arguments) {
    char buffer[16];
    uint64_t stamp = 0;
    double number = 0;
    int64_t whole = 0;
    char vector[256];
    const void *said = NULL;
    size_t size = 0;
    if (count < 3) return 2;

    expect("no node", verge_kv_attach("/nonexistent/kv.sock", 0, 1, NULL, 0) != NULL, 0, "/nonexistent/kv.sock");
    expect("no socket", verge_kv_attach(NULL, 0, 1, NULL, 0) != NULL, 0, "socket must be a text");
    expect("too many", verge_kv_attach(arguments[1], 0, 31, NULL, 0) != NULL, 0, "30 of the lane's 30 tuples");
    verge_kv *lane = verge_kv_attach(arguments[1], 0, 2, "refusals", 10000);
    if (!lane) {
        fprintf(stderr, "%s\n", verge_kv_last_error());
        return 1;
    }
    int64_t a = verge_kv_key(lane, "a"), theirs = verge_kv_key(lane, "theirs"), mine = verge_kv_key(lane, "mine");
    expect("no key", verge_kv_key(lane, "b"), VERGE_KV_INVALID, "key `b` is not configured");
    expect("no name", verge_kv_key(lane, NULL), VERGE_KV_INVALID, "name must be a text");
    expect("no number", verge_kv_read(lane, 99, 0, buffer, sizeof buffer, NULL), VERGE_KV_INVALID, "no such key number");
    expect("refused key", verge_kv_read(lane, VERGE_KV_INVALID, 0, buffer, sizeof buffer, NULL), VERGE_KV_INVALID, "no such key number");
    expect("nothing", verge_kv_read(lane, a, 0, buffer, sizeof buffer, &stamp), VERGE_KV_NOTHING, "key `a`");
    expect("nothing", verge_kv_read_f64(lane, a, 0, &number, &stamp), VERGE_KV_NOTHING, "key `a`");
    while (verge_kv_alive(lane) != 1) verge_kv_sleep_until(verge_kv_now() + 1000000);
    uint64_t period = verge_kv_period(lane), later = verge_kv_now() + 5 * period;
    expect("period", period == 100000000 && verge_kv_value_bytes_max(lane) == 16, 1, NULL);
    expect("late", verge_kv_write(lane, a, "v", 1, 1), VERGE_KV_LATE, "key `a`: the publishing time was");
    expect("theirs", verge_kv_write(lane, theirs, "v", 1, later), VERGE_KV_INVALID, "`writers`");
    expect("long", verge_kv_write(lane, a, "0123456789abcdefg", 17, later), VERGE_KV_INVALID, "17 bytes");
    expect("no whole number", verge_kv_write_f64(lane, mine, 0.5, later), VERGE_KV_INVALID, "key `mine`");
    int code;
    while ((code = verge_kv_write(lane, a, "hello", 5, verge_kv_now() + 5 * period)) == 0) {}
    expect("full", code, VERGE_KV_FULL, "2 tuples wait");
    for (uint64_t written = verge_kv_now(); verge_kv_read(lane, a, 0, buffer, sizeof buffer, &stamp) == VERGE_KV_NOTHING;) {
        if (verge_kv_now() < written + 10 * period) {
            verge_kv_sleep_until(verge_kv_now() + 1000000);
        } else {
            verge_kv_write(lane, a, "hello", 5, verge_kv_now() + 5 * period);
            written = verge_kv_now();
        }
    }
    expect("value", verge_kv_read(lane, a, 0, buffer, sizeof buffer, &stamp), 5, NULL);
    expect("bytes", memcmp(buffer, "hello", 5) == 0 && stamp <= verge_kv_now(), 1, NULL);
    expect("small", verge_kv_read(lane, a, 0, buffer, 4, NULL), VERGE_KV_INVALID, "the buffer 4");
    expect("null", verge_kv_read(lane, a, 0, NULL, 0, NULL), VERGE_KV_INVALID, "the buffer 0");
    expect("no i64", verge_kv_read_i64(lane, a, 0, &whole, NULL), VERGE_KV_INVALID, "is no i64");
    /* Two values may come after one another. */
    expect("stale", verge_kv_read(lane, a, verge_kv_now(), buffer, sizeof buffer, NULL), VERGE_KV_STALE, "older than the freshness");
    later = written(lane, mine, -7, 5 * period);
    expect("number", verge_kv_read_i64(lane, mine, later, &whole, &stamp), 0, NULL);
    expect("itself", whole == -7 && stamp == later, 1, NULL);
    expect("vector", verge_kv_read_vector(lane, mine, later, vector, sizeof vector, &stamp), 3 + 8, NULL);
    expect("said", verge_kv_said(vector, 11, 0, &said, &size), 1, NULL);
    expect("what", stamp == later && size == 8 && memcmp(said, &whole, 8) == 0, 1, NULL);
    expect("not said", verge_kv_said(vector, 11, 1, NULL, NULL), 0, NULL);
    expect("small vector", verge_kv_read_vector(lane, mine, later, vector, 4, NULL), VERGE_KV_INVALID, "the buffer 4");
    expect("longest", (int64_t)verge_kv_vector_bytes_max(lane), 2 * (3 + (int64_t)verge_kv_value_bytes_max(lane)), NULL);
    expect("nodes", verge_kv_nodes(lane), 2, NULL);
    expect("names", strcmp(verge_kv_node_name(lane, 1), "other") == 0 && !verge_kv_node_name(lane, 2), 1, NULL);
    expect("calm", verge_kv_alarm(lane), 0, NULL);
    verge_kv_fail_safe(lane, 1);
    expect("safe", verge_kv_read_i64(lane, mine, later, &whole, NULL), 0, NULL);
    expect("releases", verge_kv_latest_release(1049, 50) == 1000 && verge_kv_release_after(1050, 50) == 1100, 1, NULL);
    verge_kv_detach(lane);
    verge_kv_detach(NULL);

    lane = verge_kv_attach(arguments[2], 0, 1, "refusals", 10000);
    if (!lane) {
        fprintf(stderr, "%s\n", verge_kv_last_error());
        return 1;
    }
    while (verge_kv_alive(lane) != 1) verge_kv_sleep_until(verge_kv_now() + 1000000);
    expect("unknown", verge_kv_read(lane, a, 0, buffer, sizeof buffer, NULL), VERGE_KV_UNKNOWN, "this node has missed a job");
    expect("unseen", verge_kv_write(lane, a, "v", 1, verge_kv_now() + 5 * period), VERGE_KV_UNKNOWN, "this node does not know");
    expect("alarm", verge_kv_alarm(lane), 1, NULL);
    verge_kv_fail_safe(lane, 1);
    expect("unsafe", verge_kv_read(lane, a, 0, buffer, sizeof buffer, NULL), VERGE_KV_ALARM, "can be trusted");
    verge_kv_detach(lane);
    puts("all is as it should be");
    return 0;
}
