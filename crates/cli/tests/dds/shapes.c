/* A program of DDS that knows nothing of Verge: writes or reads shapes, as it is told on standard input, and ends with it.

   shapes write|read DOMAIN TOPIC [-r] [-d] [-k DEPTH] [-e STRENGTH] [-p PARTITION] [-D MS] [-l MS] [-P]
     -r reliable  -d transient local  -k history (0: all)  -e exclusive  -D deadline  -l lifespan  -P without a key

   A writer reads lines: `wait` (until a reader has found it), `write COLOR COUNT PERIOD_US BYTES`, `dispose COLOR`, `unregister COLOR`; it answers `written TOTAL`.
   A reader prints lines: `data COLOR X NS`, `disposed COLOR`, `unwritten COLOR`, `missed`, `matched WRITERS`. */

#include "dds/dds.h"
#include "shapes.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void must (int32_t result, const char *what)
{
  if (result < 0) {
    fprintf (stderr, "%s: %s\n", what, dds_strretcode (-result));
    exit (1);
  }
}

static void write_one (dds_entity_t writer, int plain, char *color, uint32_t x, uint32_t bytes)
{
  if (plain) {
    shapes_Plain sample = { .x = x, .sent = now () };
    must (dds_write (writer, &sample), "write");
  } else {
    shapes_Shape sample = { .color = color, .x = x, .sent = now () };
    sample.rest._buffer = calloc (1, bytes + 1);
    sample.rest._length = sample.rest._maximum = bytes;
    must (dds_write (writer, &sample), "write");
    free (sample.rest._buffer);
  }
}

static void run_writer (dds_entity_t writer, int plain)
{
  char line[256], color[64];
  uint32_t x = 0, count, period, bytes;
  while (fgets (line, sizeof (line), stdin)) {
    if (strncmp (line, "wait", 4) == 0) {
      dds_publication_matched_status_t matched = { 0 };
      while (matched.current_count == 0) {
        must (dds_get_publication_matched_status (writer, &matched), "status");
        dds_sleepfor (DDS_MSECS (1));
      }
      printf ("found\n");
    } else if (sscanf (line, "write %63s %u %u %u", color, &count, &period, &bytes) == 4) {
      uint64_t next = now ();
      for (uint32_t i = 0; i < count; i++) {
        write_one (writer, plain, color, x++, bytes);
        next += (uint64_t) period * 1000u;
        struct timespec until = { (time_t) (next / 1000000000u), (long) (next % 1000000000u) };
        clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
      }
      printf ("written %u\n", x);
    } else if (sscanf (line, "dispose %63s", color) == 1) {
      shapes_Shape key = { .color = color };
      must (dds_dispose (writer, &key), "dispose");
    } else if (sscanf (line, "unregister %63s", color) == 1) {
      shapes_Shape key = { .color = color };
      must (dds_unregister_instance (writer, &key), "unregister");
    }
    fflush (stdout);
  }
}

static void print_one (const dds_sample_info_t *info, int plain, const void *sample)
{
  const shapes_Shape *shape = sample;
  const shapes_Plain *text = sample;
  const char *color = plain ? "-" : shape->color;
  if (info->valid_data)
    printf ("data %s %u %llu\n", color, plain ? text->x : shape->x, (unsigned long long) (now () - (plain ? text->sent : shape->sent)));
  /* The end of an instance may come with its last sample. */
  if (info->instance_state == DDS_IST_NOT_ALIVE_DISPOSED)
    printf ("disposed %s\n", color);
  else if (info->instance_state == DDS_IST_NOT_ALIVE_NO_WRITERS)
    printf ("unwritten %s\n", color);
}

static void run_reader (dds_entity_t participant, dds_entity_t reader, int plain)
{
  enum { TAKEN = 64 };
  dds_entity_t waits = dds_create_waitset (participant);
  dds_entity_t has_data = dds_create_readcondition (reader, DDS_ANY_STATE);
  must (dds_waitset_attach (waits, has_data, 0), "attach");
  uint32_t writers = 0;
  for (;;) {
    struct pollfd in = { .fd = 0, .events = POLLIN };
    char rest[64];
    if (poll (&in, 1, 0) > 0 && read (0, rest, sizeof (rest)) <= 0)
      return;
    (void) dds_waitset_wait (waits, NULL, 0, DDS_MSECS (20));
    void *samples[TAKEN] = { NULL };
    dds_sample_info_t infos[TAKEN];
    int32_t n = dds_take (reader, samples, infos, TAKEN, TAKEN);
    must (n, "take");
    for (int32_t i = 0; i < n; i++)
      print_one (&infos[i], plain, samples[i]);
    if (n > 0)
      (void) dds_return_loan (reader, samples, n);
    dds_requested_deadline_missed_status_t missed;
    if (dds_get_requested_deadline_missed_status (reader, &missed) == 0 && missed.total_count_change > 0)
      printf ("missed\n");
    dds_subscription_matched_status_t matched;
    if (dds_get_subscription_matched_status (reader, &matched) == 0 && matched.current_count != writers)
      printf ("matched %u\n", writers = matched.current_count);
    fflush (stdout);
  }
}

int main (int argc, char **argv)
{
  if (argc < 4)
    return 2;
  int writes = strcmp (argv[1], "write") == 0, plain = 0;
  dds_qos_t *qos = dds_create_qos ();
  const char *partition;
  for (int option; (option = getopt (argc - 3, argv + 3, "rdk:e:p:D:l:P")) != -1;)
    switch (option) {
      case 'r': dds_qset_reliability (qos, DDS_RELIABILITY_RELIABLE, DDS_SECS (10)); break;
      case 'd': dds_qset_durability (qos, DDS_DURABILITY_TRANSIENT_LOCAL); break;
      case 'k':
        dds_qset_history (qos, atoi (optarg) ? DDS_HISTORY_KEEP_LAST : DDS_HISTORY_KEEP_ALL, atoi (optarg));
        break;
      case 'e':
        dds_qset_ownership (qos, DDS_OWNERSHIP_EXCLUSIVE);
        dds_qset_ownership_strength (qos, atoi (optarg));
        break;
      case 'p': partition = optarg; dds_qset_partition (qos, 1, &partition); break;
      case 'D': dds_qset_deadline (qos, DDS_MSECS (atoi (optarg))); break;
      case 'l': dds_qset_lifespan (qos, DDS_MSECS (atoi (optarg))); break;
      case 'P': plain = 1; break;
      default: return 2;
    }
  dds_entity_t participant = dds_create_participant ((dds_domainid_t) atoi (argv[2]), NULL, NULL);
  must (participant, "participant");
  dds_entity_t topic = dds_create_topic (participant, plain ? &shapes_Plain_desc : &shapes_Shape_desc, argv[3], NULL, NULL);
  must (topic, "topic");
  dds_entity_t endpoint = writes ? dds_create_writer (participant, topic, qos, NULL) : dds_create_reader (participant, topic, qos, NULL);
  must (endpoint, "endpoint");
  if (writes)
    run_writer (endpoint, plain);
  else
    run_reader (participant, endpoint, plain);
  (void) dds_delete (participant);
  return 0;
}
