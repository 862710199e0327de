/* A controller whose state lives in the store: it may run on several nodes at once, and all of them compute the same.
 *
 *     cc control.c -I crates/kv-client/include -L target/release -lverge_kv -o control && ./control SOCKET [ROUNDS]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "verge_kv.h"

static int fail(void) {
    fprintf(stderr, "%s\n", verge_kv_last_error());
    return 1;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: control SOCKET [ROUNDS]\n");
        return 2;
    }
    uint64_t rounds = count > 2 ? strtoull(arguments[2], NULL, 10) : UINT64_MAX;
    verge_kv *lane = verge_kv_attach(arguments[1], 0, 1, "control-c", 10000);
    if (!lane) return fail();
    int64_t angle = verge_kv_key(lane, "pendulum/angle");
    if (angle < 0) return fail();
    /* A refusal only means that other programs may get in the way. */
    if (verge_kv_realtime(20, -1) < 0) fail();

    double state = 0;
    uint64_t read = 0, written = 0, runs = 0, missed = 0, period = verge_kv_period(lane);
    uint64_t release = verge_kv_release_after(verge_kv_now(), period);
    while (runs < rounds) {
        while (verge_kv_sleep_until(release) == VERGE_KV_INTERRUPTED) {}
        uint64_t next = verge_kv_release_after(verge_kv_now(), period);
        if (next > release + period) { /* Too late for this release: leave it out. */
            missed += (next - release) / period;
            release = next;
            continue;
        }
        /* What this and the other replicas agreed on; where nothing came of it, the own state has to do. */
        if (verge_kv_read_f64(lane, angle, release - period, &state, NULL) < 0) fail();
        else read++;
        state = 0.5 * state + 1.0;
        /* Visible from the next release on, on all nodes. */
        if (verge_kv_write_f64(lane, angle, state, release + period) < 0) fail();
        else written++;
        runs++;
        release += period;
    }
    printf("state %.6f read %" PRIu64 " written %" PRIu64 " runs %" PRIu64 " missed %" PRIu64 "\n", state, read, written, runs, missed);
    verge_kv_detach(lane);
    return 0;
}
