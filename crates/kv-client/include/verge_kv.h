/*
 * The key-value store of a Verge node, for applications on the same host.
 *
 * Link with -lverge_kv. Times are nanoseconds since the Unix epoch on CLOCK_REALTIME. docs/kv-clients.md is the manual.
 *
 * Functions that return a number return one of the codes below, which are negative, where something was not done; then
 * verge_kv_last_error() says why and what to do. Several threads may use a handle at once: reads never wait for anybody, writes
 * take turns. Nothing allocates memory but verge_kv_attach and verge_kv_key.
 */
#ifndef VERGE_KV_H
#define VERGE_KV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An application's place at one lane. */
typedef struct verge_kv verge_kv;

enum {
    VERGE_KV_NOTHING = -1,     /* nothing is visible under the key */
    VERGE_KV_STALE = -2,       /* what is visible is older than asked for */
    VERGE_KV_FULL = -3,        /* as many tuples wait as this application may write for one job */
    VERGE_KV_LATE = -4,        /* the publishing time has passed, or no job is left before it */
    VERGE_KV_INVALID = -5,     /* the call can never succeed like this */
    VERGE_KV_GONE = -6,        /* the node has gone */
    VERGE_KV_INTERRUPTED = -7, /* a signal came */
    VERGE_KV_SYSTEM = -8,      /* anything else */
    VERGE_KV_UNKNOWN = -9,     /* the node does not know yet what was agreed on while it was away: try again later */
    VERGE_KV_ALARM = -10       /* verge_kv_fail_safe, and more nodes than may be faulty have another store: go to a safe state */
};

/*
 * Attaches to a lane of the node behind this socket; NULL if that cannot be. `tuples` is how many tuples the application writes in
 * one period of the lane, `name` what it is called in the node's status (NULL for the program's name), `wait_ms` how long to wait
 * for a node that is not there yet.
 */
verge_kv *verge_kv_attach(const char *socket, uint16_t lane, size_t tuples, const char *name, uint32_t wait_ms);

/* Gives the place back. A process that dies gives it back, too. NULL is nothing. */
void verge_kv_detach(verge_kv *kv);

/* The number of a key. Look keys up once, before the first period. */
int64_t verge_kv_key(const verge_kv *kv, const char *name);

/*
 * Copies the newest value whose stamp is at least `freshness` and has come to `buffer`, and returns its length. `stamp` may be
 * NULL. A buffer of verge_kv_value_bytes_max() bytes is always large enough.
 */
int64_t verge_kv_read(const verge_kv *kv, int64_t key, uint64_t freshness, void *buffer, size_t size, uint64_t *stamp);

/* The same for a number; 0 if there is one. */
int verge_kv_read_f64(const verge_kv *kv, int64_t key, uint64_t freshness, double *number, uint64_t *stamp);
int verge_kv_read_i64(const verge_kv *kv, int64_t key, uint64_t freshness, int64_t *number, uint64_t *stamp);

/*
 * What the newest value was made of whose stamp is at least `freshness` and has come: who proposed what, as all correct nodes have agreed. Copies
 * it to `buffer`, and returns its length. A buffer of verge_kv_vector_bytes_max() bytes is always large enough; that is 0 where the lane keeps
 * none (`vectors` of [[lane]]). Of values that this node has missed and taken from others there is none.
 */
int64_t verge_kv_read_vector(const verge_kv *kv, int64_t key, uint64_t freshness, void *buffer, size_t size, uint64_t *stamp);
size_t verge_kv_vector_bytes_max(const verge_kv *kv);

/*
 * 1 if this node proposed something in the vector; then `value` points to it, inside of the vector, and `size` is its length (both may be NULL).
 * 0 if it proposed nothing, or has lied.
 */
int verge_kv_said(const void *vector, size_t length, int node, const void **value, size_t *size);

/* How many nodes there are, and what they are called; NULL where there is no such node. The text lives as long as the place. */
int verge_kv_nodes(const verge_kv *kv);
const char *verge_kv_node_name(const verge_kv *kv, int node);

/*
 * From now on every read of this application is refused with VERGE_KV_ALARM while the node's alarm is on, also what is fresh enough: for whoever has
 * a safe state to go to. 0 ends that. verge_kv_alarm is 1 while the alarm is on, 0 otherwise.
 */
void verge_kv_fail_safe(const verge_kv *kv, int on);
int verge_kv_alarm(const verge_kv *kv);

/* Proposes a value that is to be visible on all nodes from `publishing` on; 0 if it is on its way. */
int verge_kv_write(const verge_kv *kv, int64_t key, const void *value, size_t size, uint64_t publishing);

/* The same with a number, in the format that the key votes on. */
int verge_kv_write_f64(const verge_kv *kv, int64_t key, double number, uint64_t publishing);
int verge_kv_write_i64(const verge_kv *kv, int64_t key, int64_t number, uint64_t publishing);

/* 1 while the node lives, VERGE_KV_GONE otherwise. */
int verge_kv_alive(const verge_kv *kv);

/* The lane's period, and the length of its longest value. */
uint64_t verge_kv_period(const verge_kv *kv);
size_t verge_kv_value_bytes_max(const verge_kv *kv);

/* The time. */
uint64_t verge_kv_now(void);

/* The first release after `time` of a task with this period, and the latest at or before it. */
uint64_t verge_kv_release_after(uint64_t time, uint64_t period);
uint64_t verge_kv_latest_release(uint64_t time, uint64_t period);

/* Sleeps until `time`; VERGE_KV_INTERRUPTED if a signal came before. */
int verge_kv_sleep_until(uint64_t time);

/* Gives the calling thread a priority under SCHED_FIFO (0: none) and keeps it on a processor (-1: any). */
int verge_kv_realtime(int priority, int processor);

/* Why the last call of this thread that was refused was. The text is valid until the next one. */
const char *verge_kv_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
