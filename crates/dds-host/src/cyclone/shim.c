/* What the bridge needs of Cyclone DDS, in plain C. Samples pass as the bytes that came: their type is never known here.
   Where a key hash came with a sample (every keyed writer is asked for it), it tells instances apart.

   The reader history cache is one of our own, since the usual one would arbitrate between writers, keep the newest of each instance, and
   put several disposals into one. This one keeps nothing: it hands each sample on as it comes. */

#include "dds/dds.h"
#include "dds/ddsc/dds_rhc.h"
#include "dds/ddsi/ddsi_guid.h"
#include "dds/ddsi/ddsi_keyhash.h"
#include "dds/ddsi/ddsi_serdata.h"
#include "dds/ddsi/ddsi_sertype.h"
#include "dds/ddsi/q_protocol.h"
#include "dds/ddsi/q_radmin.h"
#include "dds/ddsrt/heap.h"
#include "dds/version.h"
#include <arpa/inet.h>
#include <string.h>

/* What is read out of other headers here is laid out as in this release. */
#if DDS_VERSION_MAJOR != 0 || DDS_VERSION_MINOR != 10
#error "this bridge is written for Cyclone DDS 0.10 (Debian: cyclonedds-dev)"
#endif

/* The same structures as in cyclone/shim.rs. */

enum { HASH_BYTES = 16, PARTITIONS_MAX = 64 };

struct bridge_qos {
  int64_t max_blocking, deadline, latency_budget, lifespan, lease;
  int32_t reliability, durability, history, depth, service_history, service_depth, liveliness, ownership, strength, order, priority, access;
  uint32_t representations; /* bit r: representation r is offered or taken */
  uint32_t partitions;
  const char *partition[PARTITIONS_MAX];
};

struct bridge_sample {
  uint64_t tap;
  unsigned char writer[16];
  int64_t stamp;
  uint32_t kind;   /* 0 nothing but a key hash, 1 key, 2 data */
  uint32_t status; /* bit 0 disposed, bit 1 unregistered */
  uint32_t has_hash;
  unsigned char hash[HASH_BYTES];
  const unsigned char *bytes;
  uint32_t length;
};

struct bridge_endpoint {
  unsigned char guid[16], participant[16];
  uint32_t alive, is_writer;
  const char *topic, *type;
  const unsigned char *user_data;
  uint32_t user_data_length;
  struct bridge_qos qos;
};

struct bridge_participant {
  unsigned char guid[16];
  uint32_t alive;
  const unsigned char *user_data;
  uint32_t user_data_length;
};

/* Both are called on threads of the library, which wait for them. */
typedef void (*bridge_take) (void *context, const struct bridge_sample *sample);
typedef void (*bridge_wake) (void *context);

/* ---- samples of a type that is not known ---- */

struct blob {
  struct ddsi_serdata c;
  uint32_t has_hash;
  ddsi_keyhash_t key;
  uint32_t length;
  unsigned char bytes[];
};

static struct blob *blob_new (const struct ddsi_sertype *type, enum ddsi_serdata_kind kind, const ddsi_keyhash_t *key, size_t length)
{
  /* What is asked for may go up to a multiple of four. */
  struct blob *d = ddsrt_calloc (1, sizeof (*d) + length + 4);
  ddsi_serdata_init (&d->c, type, kind);
  d->length = (uint32_t) length;
  uint32_t hash = 0;
  if (key) {
    d->has_hash = 1;
    d->key = *key;
    for (int i = 0; i < HASH_BYTES; i++)
      hash = hash * 31 + key->value[i];
  }
  d->c.hash = hash ^ type->serdata_basehash;
  return d;
}

static bool blob_eqkey (const struct ddsi_serdata *a, const struct ddsi_serdata *b)
{
  const struct blob *x = (const struct blob *) a, *y = (const struct blob *) b;
  return x->has_hash == y->has_hash && memcmp (x->key.value, y->key.value, HASH_BYTES) == 0;
}

static uint32_t blob_size (const struct ddsi_serdata *d)
{
  return ((const struct blob *) d)->length;
}

static struct ddsi_serdata *blob_from_ser (const struct ddsi_sertype *type, enum ddsi_serdata_kind kind, const struct nn_rdata *chain, size_t size)
{
  struct blob *d = blob_new (type, kind, type->typekind_no_key ? NULL : ddsi_serdata_keyhash_from_fragchain (chain), size);
  uint32_t at = 0;
  for (; chain; chain = chain->nextfrag) {
    if (chain->maxp1 <= at || chain->maxp1 > size)
      continue;
    const unsigned char *payload = NN_RMSG_PAYLOADOFF (chain->rmsg, NN_RDATA_PAYLOAD_OFF (chain));
    memcpy (d->bytes + at, payload + at - chain->min, chain->maxp1 - at);
    at = chain->maxp1;
  }
  return &d->c;
}

static struct ddsi_serdata *blob_from_ser_iov (const struct ddsi_sertype *type, enum ddsi_serdata_kind kind, ddsrt_msg_iovlen_t niov, const ddsrt_iovec_t *iov, size_t size)
{
  struct blob *d = blob_new (type, kind, NULL, size);
  size_t at = 0;
  for (ddsrt_msg_iovlen_t i = 0; i < niov && at < size; i++) {
    size_t n = iov[i].iov_len < size - at ? iov[i].iov_len : size - at;
    memcpy (d->bytes + at, iov[i].iov_base, n);
    at += n;
  }
  return &d->c;
}

static struct ddsi_serdata *blob_from_keyhash (const struct ddsi_sertype *type, const struct ddsi_keyhash *key)
{
  return type->typekind_no_key ? NULL : &blob_new (type, SDK_KEY, key, 0)->c;
}

static struct ddsi_serdata *blob_from_sample (const struct ddsi_sertype *type, enum ddsi_serdata_kind kind, const void *sample)
{
  (void) type, (void) kind, (void) sample;
  return NULL;
}

static void blob_to_ser (const struct ddsi_serdata *d, size_t off, size_t sz, void *buf)
{
  memcpy (buf, ((const struct blob *) d)->bytes + off, sz);
}

static struct ddsi_serdata *blob_to_ser_ref (const struct ddsi_serdata *d, size_t off, size_t sz, ddsrt_iovec_t *ref)
{
  ref->iov_base = (void *) (((const struct blob *) d)->bytes + off);
  ref->iov_len = (ddsrt_iov_len_t) sz;
  return ddsi_serdata_ref (d);
}

static void blob_to_ser_unref (struct ddsi_serdata *d, const ddsrt_iovec_t *ref)
{
  (void) ref;
  ddsi_serdata_unref (d);
}

static bool blob_to_sample (const struct ddsi_serdata *d, void *sample, void **bufptr, void *buflim)
{
  (void) d, (void) sample, (void) bufptr, (void) buflim;
  return false;
}

static struct ddsi_serdata *blob_to_untyped (const struct ddsi_serdata *serdata)
{
  const struct blob *d = (const struct blob *) serdata;
  struct blob *untyped = blob_new (d->c.type, SDK_KEY, d->has_hash ? &d->key : NULL, 0);
  untyped->c.type = NULL;
  return &untyped->c;
}

static bool blob_untyped_to_sample (const struct ddsi_sertype *type, const struct ddsi_serdata *d, void *sample, void **bufptr, void *buflim)
{
  (void) type, (void) d, (void) sample, (void) bufptr, (void) buflim;
  return false;
}

static void blob_free (struct ddsi_serdata *d)
{
  ddsrt_free (d);
}

static size_t blob_print (const struct ddsi_sertype *type, const struct ddsi_serdata *d, char *buf, size_t size)
{
  (void) type, (void) d;
  static const char text[] = "(bytes)";
  size_t n = sizeof (text) <= size ? sizeof (text) : size;
  memcpy (buf, text, n);
  buf[n - 1] = 0;
  return n - 1;
}

static void blob_keyhash (const struct ddsi_serdata *d, struct ddsi_keyhash *buf, bool force_md5)
{
  (void) force_md5;
  *buf = ((const struct blob *) d)->key;
}

static const struct ddsi_serdata_ops blob_ops = {
  .eqkey = blob_eqkey,
  .get_size = blob_size,
  .from_ser = blob_from_ser,
  .from_ser_iov = blob_from_ser_iov,
  .from_keyhash = blob_from_keyhash,
  .from_sample = blob_from_sample,
  .to_ser = blob_to_ser,
  .to_ser_ref = blob_to_ser_ref,
  .to_ser_unref = blob_to_ser_unref,
  .to_sample = blob_to_sample,
  .to_untyped = blob_to_untyped,
  .untyped_to_sample = blob_untyped_to_sample,
  .free = blob_free,
  .print = blob_print,
  .get_keyhash = blob_keyhash,
};

static void type_free (struct ddsi_sertype *type)
{
  ddsi_sertype_fini (type);
  ddsrt_free (type);
}

static void type_zero (const struct ddsi_sertype *type, void *samples, size_t count)
{
  (void) type, (void) samples, (void) count;
}

static void type_realloc (void **ptrs, const struct ddsi_sertype *type, void *old, size_t oldcount, size_t count)
{
  (void) ptrs, (void) type, (void) old, (void) oldcount, (void) count;
}

static void type_free_samples (const struct ddsi_sertype *type, void **ptrs, size_t count, dds_free_op_t op)
{
  (void) type, (void) ptrs, (void) count, (void) op;
}

static bool type_equal (const struct ddsi_sertype *a, const struct ddsi_sertype *b)
{
  (void) a, (void) b; /* the names have been compared */
  return true;
}

static uint32_t type_hash (const struct ddsi_sertype *type)
{
  (void) type;
  return 0;
}

static const struct ddsi_sertype_ops type_ops = {
  .version = ddsi_sertype_v0,
  .free = type_free,
  .zero_samples = type_zero,
  .realloc_samples = type_realloc,
  .free_samples = type_free_samples,
  .equal = type_equal,
  .hash = type_hash,
};

/* ---- the history cache that keeps nothing ---- */

struct tap {
  struct dds_rhc common;
  uint64_t number;
  bridge_take take;
  void *context;
};

static void guid_bytes (unsigned char out[16], const ddsi_guid_t *guid)
{
  uint32_t words[4] = { htonl (guid->prefix.u[0]), htonl (guid->prefix.u[1]), htonl (guid->prefix.u[2]), htonl (guid->entityid.u) };
  memcpy (out, words, 16);
}

static bool tap_store (struct ddsi_rhc *rhc, const struct ddsi_writer_info *writer, struct ddsi_serdata *serdata, struct ddsi_tkmap_instance *tk)
{
  (void) tk;
  const struct tap *tap = (const struct tap *) rhc;
  const struct blob *d = (const struct blob *) serdata;
  struct bridge_sample sample = {
    .tap = tap->number,
    .stamp = serdata->timestamp.v,
    .kind = d->length == 0 ? 0 : serdata->kind == SDK_DATA ? 2 : 1,
    .status = serdata->statusinfo & NN_STATUSINFO_STANDARDIZED,
    .has_hash = d->has_hash,
    .bytes = d->bytes,
    .length = d->length,
  };
  guid_bytes (sample.writer, &writer->guid);
  memcpy (sample.hash, d->key.value, HASH_BYTES);
  tap->take (tap->context, &sample);
  /* Never refused: the library would offer it again and again, and wait with that when something is deleted. */
  return true;
}

static void tap_unregister (struct ddsi_rhc *rhc, const struct ddsi_writer_info *writer)
{
  (void) rhc, (void) writer; /* discovery tells as well */
}

static void tap_relinquish (struct ddsi_rhc *rhc, const uint64_t writer)
{
  (void) rhc, (void) writer;
}

static void tap_set_qos (struct ddsi_rhc *rhc, const struct dds_qos *qos)
{
  (void) rhc, (void) qos;
}

static void tap_free (struct ddsi_rhc *rhc)
{
  ddsrt_free (rhc);
}

static int32_t tap_read (struct dds_rhc *rhc, bool lock, void **values, dds_sample_info_t *info, uint32_t max, uint32_t mask, dds_instance_handle_t handle, struct dds_readcond *cond)
{
  (void) rhc, (void) lock, (void) values, (void) info, (void) max, (void) mask, (void) handle, (void) cond;
  return 0;
}

static int32_t tap_read_cdr (struct dds_rhc *rhc, bool lock, struct ddsi_serdata **values, dds_sample_info_t *info, uint32_t max, uint32_t sample, uint32_t view, uint32_t instance, dds_instance_handle_t handle)
{
  (void) rhc, (void) lock, (void) values, (void) info, (void) max, (void) sample, (void) view, (void) instance, (void) handle;
  return 0;
}

static bool tap_add_condition (struct dds_rhc *rhc, struct dds_readcond *cond)
{
  (void) rhc, (void) cond;
  return true;
}

static void tap_remove_condition (struct dds_rhc *rhc, struct dds_readcond *cond)
{
  (void) rhc, (void) cond;
}

static uint32_t tap_lock_samples (struct dds_rhc *rhc)
{
  (void) rhc;
  return 0;
}

static dds_return_t tap_associate (struct dds_rhc *rhc, struct dds_reader *reader, const struct ddsi_sertype *type, struct ddsi_tkmap *tkmap)
{
  (void) rhc, (void) reader, (void) type, (void) tkmap;
  return DDS_RETCODE_OK;
}

static const struct dds_rhc_ops tap_ops = {
  .rhc_ops = {
    .store = tap_store,
    .unregister_wr = tap_unregister,
    .relinquish_ownership = tap_relinquish,
    .set_qos = tap_set_qos,
    .free = tap_free,
  },
  .read = tap_read,
  .take = tap_read,
  .readcdr = tap_read_cdr,
  .takecdr = tap_read_cdr,
  .add_readcondition = tap_add_condition,
  .remove_readcondition = tap_remove_condition,
  .lock_samples = tap_lock_samples,
  .associate = tap_associate,
};

/* ---- quality of service ---- */

static void qos_read (struct bridge_qos *out, const dds_qos_t *qos, bool offered, char ***partitions)
{
  memset (out, 0, sizeof (*out));
  out->deadline = out->lifespan = out->lease = DDS_INFINITY;
  out->history = out->service_history = -1;
  *partitions = NULL;
  dds_reliability_kind_t reliability;
  if (dds_qget_reliability (qos, &reliability, &out->max_blocking))
    out->reliability = (int32_t) reliability;
  dds_durability_kind_t durability;
  if (dds_qget_durability (qos, &durability))
    out->durability = (int32_t) durability;
  dds_history_kind_t history;
  if (dds_qget_history (qos, &history, &out->depth))
    out->history = (int32_t) history;
  if (out->durability > 0 && dds_qget_durability_service (qos, NULL, &history, &out->service_depth, NULL, NULL, NULL))
    out->service_history = (int32_t) history;
  (void) dds_qget_deadline (qos, &out->deadline);
  (void) dds_qget_latency_budget (qos, &out->latency_budget);
  (void) dds_qget_lifespan (qos, &out->lifespan);
  dds_liveliness_kind_t liveliness;
  if (dds_qget_liveliness (qos, &liveliness, &out->lease))
    out->liveliness = (int32_t) liveliness;
  dds_ownership_kind_t ownership;
  if (dds_qget_ownership (qos, &ownership))
    out->ownership = (int32_t) ownership;
  (void) dds_qget_ownership_strength (qos, &out->strength);
  dds_destination_order_kind_t order;
  if (dds_qget_destination_order (qos, &order))
    out->order = (int32_t) order;
  (void) dds_qget_transport_priority (qos, &out->priority);
  dds_presentation_access_scope_kind_t access;
  bool coherent, ordered;
  if (dds_qget_presentation (qos, &access, &coherent, &ordered))
    out->access = (int32_t) access | (coherent ? 4 : 0) | (ordered ? 8 : 0);
  uint32_t n = 0;
  dds_data_representation_id_t *representations = NULL;
  if (dds_qget_data_representation (qos, &n, &representations) && n > 0)
    /* Of what a writer lists, it offers the first. */
    for (uint32_t i = 0; i < (offered ? 1 : n); i++)
      if (representations[i] >= 0 && representations[i] < 32)
        out->representations |= 1u << representations[i];
  if (out->representations == 0)
    out->representations = 1u << DDS_DATA_REPRESENTATION_XCDR1;
  dds_free (representations);
  uint32_t count = 0;
  if (dds_qget_partition (qos, &count, partitions))
    for (uint32_t i = 0; i < count && i < PARTITIONS_MAX; i++)
      out->partition[out->partitions++] = (*partitions)[i];
  else
    *partitions = NULL;
  if (*partitions && count > PARTITIONS_MAX) /* those that are left out are freed all the same */
    for (uint32_t i = PARTITIONS_MAX; i < count; i++)
      dds_free ((*partitions)[i]);
}

static void partitions_free (const struct bridge_qos *qos, char **partitions)
{
  for (uint32_t i = 0; i < qos->partitions; i++)
    dds_free ((char *) qos->partition[i]);
  dds_free (partitions);
}

static dds_qos_t *qos_write (const struct bridge_qos *from, const char *mark)
{
  dds_qos_t *qos = dds_create_qos ();
  dds_qset_reliability (qos, (dds_reliability_kind_t) from->reliability, from->max_blocking);
  dds_qset_durability (qos, (dds_durability_kind_t) from->durability);
  dds_qset_history (qos, (dds_history_kind_t) from->history, from->depth);
  if (from->durability > 0)
    dds_qset_durability_service (qos, 0, (dds_history_kind_t) from->service_history, from->service_depth, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED);
  dds_qset_deadline (qos, from->deadline);
  dds_qset_latency_budget (qos, from->latency_budget);
  dds_qset_liveliness (qos, (dds_liveliness_kind_t) from->liveliness, from->lease);
  dds_qset_ownership (qos, (dds_ownership_kind_t) from->ownership);
  dds_qset_destination_order (qos, (dds_destination_order_kind_t) from->order);
  dds_qset_userdata (qos, mark, strlen (mark));
  dds_qset_ignorelocal (qos, DDS_IGNORELOCAL_PARTICIPANT);
  if (from->partitions > 0)
    dds_qset_partition (qos, from->partitions, (const char **) from->partition);
  dds_data_representation_id_t representations[32];
  uint32_t n = 0;
  for (dds_data_representation_id_t i = 0; i < 32; i++)
    if (from->representations >> i & 1)
      representations[n++] = i;
  dds_qset_data_representation (qos, n, representations);
  return qos;
}

/* ---- the interface ---- */

struct bridge {
  dds_entity_t participant, readers[3]; /* participants, writers, readers of others */
  dds_guid_t guid;
  bridge_take take;
  bridge_wake wake;
  void *context;
};

static void on_news (dds_entity_t reader, void *context)
{
  (void) reader;
  struct bridge *bridge = context;
  bridge->wake (bridge->context);
}

void bridge_close (struct bridge *bridge)
{
  if (bridge == NULL)
    return;
  if (bridge->participant > 0)
    (void) dds_delete (bridge->participant);
  ddsrt_free (bridge);
}

struct bridge *bridge_open (uint32_t domain, const char *mark, bridge_take take, bridge_wake wake, void *context, int32_t *error)
{
  struct bridge *bridge = ddsrt_calloc (1, sizeof (*bridge));
  *bridge = (struct bridge) { .take = take, .wake = wake, .context = context };
  dds_qos_t *qos = dds_create_qos ();
  dds_qset_userdata (qos, mark, strlen (mark));
  bridge->participant = dds_create_participant (domain, qos, NULL);
  dds_delete_qos (qos);
  *error = bridge->participant;
  if (bridge->participant > 0)
    *error = dds_get_guid (bridge->participant, &bridge->guid);
  const dds_entity_t topics[3] = { DDS_BUILTIN_TOPIC_DCPSPARTICIPANT, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION };
  dds_listener_t *listener = dds_create_listener (bridge);
  dds_lset_data_available (listener, on_news);
  for (int i = 0; i < 3 && *error >= 0; i++)
    *error = bridge->readers[i] = dds_create_reader (bridge->participant, topics[i], NULL, listener);
  dds_delete_listener (listener);
  if (*error < 0) {
    bridge_close (bridge);
    return NULL;
  }
  return bridge;
}

int32_t bridge_say (struct bridge *bridge, const char *mark)
{
  dds_qos_t *qos = dds_create_qos ();
  dds_qset_userdata (qos, mark, strlen (mark));
  int32_t result = dds_set_qos (bridge->participant, qos);
  dds_delete_qos (qos);
  return result;
}

void bridge_guid (const struct bridge *bridge, unsigned char guid[16])
{
  memcpy (guid, bridge->guid.v, 16);
}

enum { TAKEN = 64 };

/* Tells of participants that have come, changed or gone. */
void bridge_participants (struct bridge *bridge, void (*tell) (void *, const struct bridge_participant *), void *to)
{
  void *samples[TAKEN] = { NULL };
  dds_sample_info_t infos[TAKEN];
  int32_t n;
  while ((n = dds_take (bridge->readers[0], samples, infos, TAKEN, TAKEN)) > 0) {
    for (int32_t i = 0; i < n; i++) {
      const dds_builtintopic_participant_t *from = samples[i];
      struct bridge_participant out = { .alive = infos[i].instance_state == DDS_IST_ALIVE };
      memcpy (out.guid, from->key.v, 16);
      void *user_data = NULL;
      size_t length = 0;
      if (infos[i].valid_data && from->qos && dds_qget_userdata (from->qos, &user_data, &length)) {
        out.user_data = user_data;
        out.user_data_length = (uint32_t) length;
      }
      tell (to, &out);
      dds_free (user_data);
    }
    (void) dds_return_loan (bridge->readers[0], samples, n);
    samples[0] = NULL;
  }
}

/* Tells of readers and writers that have come, changed or gone. */
void bridge_endpoints (struct bridge *bridge, void (*tell) (void *, const struct bridge_endpoint *), void *to)
{
  for (int which = 1; which < 3; which++) {
    void *samples[TAKEN] = { NULL };
    dds_sample_info_t infos[TAKEN];
    int32_t n;
    while ((n = dds_take (bridge->readers[which], samples, infos, TAKEN, TAKEN)) > 0) {
      for (int32_t i = 0; i < n; i++) {
        const dds_builtintopic_endpoint_t *from = samples[i];
        struct bridge_endpoint out = { .alive = infos[i].instance_state == DDS_IST_ALIVE, .is_writer = which == 1 };
        memcpy (out.guid, from->key.v, 16);
        char **partitions = NULL;
        void *user_data = NULL;
        if (infos[i].valid_data) {
          memcpy (out.participant, from->participant_key.v, 16);
          out.topic = from->topic_name;
          out.type = from->type_name;
          size_t length = 0;
          qos_read (&out.qos, from->qos, which == 1, &partitions);
          if (dds_qget_userdata (from->qos, &user_data, &length)) {
            out.user_data = user_data;
            out.user_data_length = (uint32_t) length;
          }
        }
        tell (to, &out);
        partitions_free (&out.qos, partitions);
        dds_free (user_data);
      }
      (void) dds_return_loan (bridge->readers[which], samples, n);
      samples[0] = NULL;
    }
  }
}

static dds_entity_t topic_new (struct bridge *bridge, const char *topic, const char *type, uint32_t keyed, struct ddsi_sertype **sertype)
{
  struct ddsi_sertype *made = ddsrt_calloc (1, sizeof (*made));
  ddsi_sertype_init_flags (made, type, &type_ops, &blob_ops, keyed ? DDSI_SERTYPE_FLAG_REQUEST_KEYHASH : DDSI_SERTYPE_FLAG_TOPICKIND_NO_KEY);
  made->allowed_data_representation = DDS_DATA_REPRESENTATION_FLAG_XCDR1 | DDS_DATA_REPRESENTATION_FLAG_XCDR2;
  dds_entity_t entity = dds_create_topic_sertype (bridge->participant, topic, &made, NULL, NULL, NULL);
  if (entity < 0)
    ddsi_sertype_unref (made);
  else if (sertype)
    *sertype = made;
  return entity;
}

/* A reader whose samples go to `take` with this number. */
int32_t bridge_tap (struct bridge *bridge, uint64_t number, const char *topic, const char *type, uint32_t keyed, const struct bridge_qos *from, const char *mark)
{
  dds_entity_t topic_entity = topic_new (bridge, topic, type, keyed, NULL);
  if (topic_entity < 0)
    return topic_entity;
  struct tap *tap = ddsrt_malloc (sizeof (*tap));
  *tap = (struct tap) { .common = { .common = { .ops = &tap_ops } }, .number = number, .take = bridge->take, .context = bridge->context };
  dds_qos_t *qos = qos_write (from, mark);
  dds_entity_t reader = dds_create_reader_rhc (bridge->participant, topic_entity, qos, NULL, &tap->common);
  dds_delete_qos (qos);
  if (reader < 0)
    ddsrt_free (tap);
  (void) dds_delete (topic_entity); /* the reader holds it */
  return reader;
}

/* A writer. `type` gets what its samples are made with. */
int32_t bridge_writer (struct bridge *bridge, const char *topic, const char *type, uint32_t keyed, const struct bridge_qos *from, const char *mark, struct ddsi_sertype **sertype)
{
  dds_entity_t topic_entity = topic_new (bridge, topic, type, keyed, sertype);
  if (topic_entity < 0)
    return topic_entity;
  dds_qos_t *qos = qos_write (from, mark);
  dds_qset_ownership_strength (qos, from->strength);
  dds_qset_transport_priority (qos, from->priority);
  dds_qset_lifespan (qos, from->lifespan);
  dds_qset_writer_data_lifecycle (qos, false); /* what the writer disposed of, it has said */
  dds_entity_t writer = dds_create_writer (bridge->participant, topic_entity, qos, NULL);
  dds_delete_qos (qos);
  (void) dds_delete (topic_entity);
  return writer;
}

int32_t bridge_write (int32_t writer, const struct ddsi_sertype *type, const struct bridge_sample *from)
{
  ddsi_keyhash_t key;
  memcpy (key.value, from->hash, HASH_BYTES);
  struct blob *d = blob_new (type, from->kind == 2 ? SDK_DATA : SDK_KEY, from->has_hash ? &key : NULL, from->length);
  memcpy (d->bytes, from->bytes, from->length);
  d->c.timestamp.v = from->stamp;
  d->c.statusinfo = from->status & NN_STATUSINFO_STANDARDIZED;
  return dds_forwardcdr (writer, &d->c);
}

/* How many readers have found a writer. */
int32_t bridge_matched (int32_t writer)
{
  dds_publication_matched_status_t status;
  int32_t result = dds_get_publication_matched_status (writer, &status);
  return result < 0 ? result : (int32_t) status.current_count;
}

int32_t bridge_delete (int32_t entity)
{
  return dds_delete (entity);
}

const char *bridge_words (int32_t result)
{
  return dds_strretcode (-result);
}
