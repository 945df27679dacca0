/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: joining the job, and its ranks. */
#ifndef MUSTER_JOB_H
#define MUSTER_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Joining. */
enum { MUSTER_DEVICE_AUTOMATIC = 0, MUSTER_DEVICE_CPU = 1, MUSTER_DEVICE_CUDA = 2 };
/* As muster::JoinOptions, which explains each member. Times are in milliseconds. */
typedef struct muster_join_options {
  size_t size;                  /* sizeof(muster_join_options) */
  int64_t deadline_ms;          /* limit of the whole join */
  int64_t operation_timeout_ms; /* limit of every later operation of a communicator */
  int64_t heartbeat_timeout_ms; /* a process that sends nothing for so long is lost; 0: never */
  int32_t device;               /* MUSTER_DEVICE_… */
  int32_t tolerate_rank_loss;   /* 1: muster_shrink() can continue the job; equal on all ranks */
  int64_t stall_warning_ms;     /* rank 0 warns of a longer wait in an operation; 0: never */
  int64_t abort_grace_ms;       /* a process that ignores a failure for so long is ended; 0: never */
  int64_t cpu_ranks;            /* the first so many ranks use no GPU; equal on all ranks */
} muster_join_options;
#define MUSTER_JOIN_OPTIONS_DEFAULT \
  { sizeof(muster_join_options), 60000, 600000, 10000, MUSTER_DEVICE_AUTOMATIC, 0, 30000, 1200, 0 }

typedef struct muster_job muster_job;

/* muster_join() with the caller's MUSTER_ABI_VERSION, for languages that cannot read this header. */
MUSTER_API int muster_join_abi(int abi_version, const muster_join_options* options, muster_job** job);
/* Joins the job as muster::Job::join(). `options` may be NULL: the defaults. Sets *job, to NULL on failure.
 */
static inline int muster_join(const muster_join_options* options, muster_job** job) {
  return muster_join_abi(MUSTER_ABI_VERSION, options, job);
}
/* Leaves the job as muster::Job::leave(), which has the limits of its waits. The handle stays valid until
 * muster_job_free. */
MUSTER_API int muster_leave(muster_job* job);
/* Disconnects at once because this rank cannot continue for a reason of its own, which the program prints.
 * The other ranks notice the disconnect and end without a message. */
MUSTER_API void muster_abort(muster_job* job);
/* Frees the handle; the communicators' handles must be freed before. A job that was neither left nor failed
 * is left first. NULL is allowed. */
MUSTER_API void muster_job_free(muster_job* job);

MUSTER_API int muster_rank(const muster_job* job);
MUSTER_API int muster_size(const muster_job* job);
MUSTER_API int muster_local_rank(const muster_job* job);
MUSTER_API int muster_local_size(const muster_job* job);
MUSTER_API int muster_host_index(const muster_job* job);
MUSTER_API int muster_host_count(const muster_job* job);
/* 1 when muster_world() works on GPU memory. */
MUSTER_API int muster_on_gpu(const muster_job* job);
/* "pmix", "slurm", "address" or "alone". */
MUSTER_API const char* muster_bootstrap(const muster_job* job);

/* As muster::Hello. Texts are never NULL. They stay valid as long as the job's handle, or until
 * muster_shrink(). */
typedef struct muster_hello {
  size_t size; /* sizeof(muster_hello), set by the caller */
  int32_t rank;
  int32_t local_rank;
  int64_t pid;
  const char* host;
  const char* boot_id;
  const char* address;
  const char* gpu;
  const char* gpu_uuid;
  const char* cpus;
  const char* muster_version;
  const char* plugin_version;
  const char* nccl_version;
} muster_hello;
/* Fills *hello with the hello of `rank`. MUSTER_USAGE when there is no such rank. */
MUSTER_API int muster_roster_entry(const muster_job* job, int rank, muster_hello* hello);

/* As muster::Timings: the time of each phase on this rank in milliseconds, including waits for other ranks.
 * 0: not done (yet), or not needed. */
typedef struct muster_timings {
  size_t size; /* sizeof(muster_timings), set by the caller */
  double join_ms;
  double bootstrap_ms;
  double gpu_ms;
  double exchange_ms;
  double plane_ms;
  double world_ms;
  double nccl_id_ms;
  double nccl_init_ms;
  double first_collective_ms;
  double intra_node_ms;
  double inter_node_ms;
  double host_world_ms;
} muster_timings;
/* Fills *timings with the times of the phases so far. */
MUSTER_API int muster_read_timings(const muster_job* job, muster_timings* timings);

/* Returns when every rank has called it, or fails and names the missing ranks. On the host side, over the
 * control plane. */
MUSTER_API int muster_barrier(muster_job* job, const char* name, int64_t deadline_ms);

/* Rank 0's part of muster_on_rank_0(). Returns 0 on success, else the status of the failure. */
typedef int (*muster_section)(void* context);
/* Runs section(context) on rank 0, on this thread, while the other ranks wait, for example to write a
 * checkpoint or download data. When it returns another value than 0, the call fails on every rank with one
 * line, which rank 0 prints, and the job goes on. If the returned value is the status of the last error in
 * the section (by muster_set_error() or a call of Muster), the call has that line and status; else
 * MUSTER_SYSTEM and a line with the number. The section must not communicate with other ranks. Collective.
 * `name` is the same on all ranks; neither it nor `section` is NULL on any. MUSTER_TEMPORARY on all ranks
 * when rank 0 does not finish within deadline_ms. */
MUSTER_API int muster_on_rank_0(muster_job* job, const char* name, muster_section section, void* context,
                                int64_t deadline_ms);

/* The argument of muster_on_rank_lost()'s function, as muster::RankLoss. Valid until the function returns. */
typedef struct muster_loss {
  size_t size;       /* sizeof(muster_loss), set by the library */
  const int* ranks;  /* the ranks known to be lost; others may be lost too */
  size_t rank_count; /* length of `ranks`; may be 0 */
  const char* what;  /* the job's one line about it */
} muster_loss;
typedef void (*muster_save)(const muster_loss* loss, void* context);
/* save(loss, context) is called once after a rank was lost: by this rank's next call of Muster, or by the
 * call in which it waits, right before the call fails with MUSTER_ERROR_LOST_RANK. It runs on that call's
 * thread. It may do anything except call this job and its communicators. If it does not return within
 * deadline_ms after the loss (with abort_grace_ms 0 after its call), the process ends with MUSTER_TEMPORARY.
 * A later call replaces the function. After muster_shrink() it is called again for the next loss. `context`
 * must stay valid as long as the job's handle. */
MUSTER_API int muster_on_rank_lost(muster_job* job, muster_save save, void* context, int64_t deadline_ms);
/* From now on the loss of one of these ranks does not end the job, as muster::Job::survive_loss_of().
 * Collective. MUSTER_USAGE without tolerate_rank_loss, for rank 0 and for ranks that do not exist. */
MUSTER_API int muster_survive_loss_of(muster_job* job, const int* ranks, size_t count, int64_t deadline_ms);
/* Writes the first `capacity` of the ranks that were lost since, in increasing order, and sets *count to the
 * number of all of them. */
MUSTER_API int muster_lost_ranks(const muster_job* job, int* ranks, size_t capacity, size_t* count);
/* After a call that failed with MUSTER_ERROR_LOST_RANK, in a job joined with tolerate_rank_loss: continues
 * the job with the remaining ranks, as muster::Job::shrink(), with new numbers and roster. Old communicators,
 * those split from them and reducers on them can then only be freed. Collective over the remaining ranks.
 * MUSTER_USAGE without tolerate_rank_loss or when no rank is lost; MUSTER_TEMPORARY when too few ranks remain
 * or not all of them arrive within deadline_ms. */
MUSTER_API int muster_shrink(muster_job* job, int64_t deadline_ms);

#ifdef __cplusplus
}
#endif

#endif
