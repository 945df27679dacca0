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
/* As muster::JoinOptions, where each is explained; times are in milliseconds. */
typedef struct muster_join_options {
  size_t size;                  /* sizeof(muster_join_options) */
  int64_t deadline_ms;          /* of the whole join */
  int64_t operation_timeout_ms; /* of every later operation of a communicator */
  int64_t heartbeat_timeout_ms; /* a process that says nothing for so long is lost; 0: never */
  int32_t device;               /* MUSTER_DEVICE_… */
  int32_t tolerate_rank_loss;   /* 1: muster_shrink() can go on without lost ranks; the same on all ranks */
  int64_t stall_warning_ms;     /* who waits for so long in an operation is told of on rank 0; 0: never */
  int64_t abort_grace_ms; /* after a failure, who calls nothing of Muster for so long is ended; 0: never */
} muster_join_options;
#define MUSTER_JOIN_OPTIONS_DEFAULT \
  { sizeof(muster_join_options), 60000, 600000, 10000, MUSTER_DEVICE_AUTOMATIC, 0, 30000, 1200 }

typedef struct muster_job muster_job;

/* muster_join() with the caller's MUSTER_ABI_VERSION, for languages that do not read this header. */
MUSTER_API int muster_join_abi(int abi_version, const muster_join_options* options, muster_job** job);
/* Joins the job as muster::Job::join(). `options` may be NULL: the defaults. Sets *job, to NULL on failure.
 */
static inline int muster_join(const muster_join_options* options, muster_job** job) {
  return muster_join_abi(MUSTER_ABI_VERSION, options, job);
}
/* Waits for the others (bounded by the join deadline) and ends the bootstrap. The handle stays, for
 * muster_job_free. */
MUSTER_API int muster_leave(muster_job* job);
/* Ends the bootstrap at once because this rank cannot go on for a reason of its own, which the program says:
 * the other ranks learn that it has gone and end without a word. */
MUSTER_API void muster_abort(muster_job* job);
/* Frees the handle, after the communicators'. A job that was neither left nor failed is left first. NULL is
 * fine. */
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

/* As muster::Hello. Texts are never NULL and live as long as the job's handle, or until
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
/* Fills *hello with what `rank` put up at join. MUSTER_USAGE when there is no such rank. */
MUSTER_API int muster_roster_entry(const muster_job* job, int rank, muster_hello* hello);

/* As muster::Timings: what each phase took on this rank, in milliseconds, waiting for other ranks included;
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
/* Fills *timings with what the phases up to here took. */
MUSTER_API int muster_read_timings(const muster_job* job, muster_timings* timings);

/* Every rank arrives, or the missing ones are named. Host side, over the control plane. */
MUSTER_API int muster_barrier(muster_job* job, const char* name, int64_t deadline_ms);

/* Rank 0's part of muster_on_rank_0(): 0 when it is done, else the status of what failed. */
typedef int (*muster_section)(void* context);
/* Runs section(context) on rank 0, on this thread, while the other ranks wait for it: to write a checkpoint,
 * to download data. When it returns something else than 0, the call fails on every rank with one line, which
 * rank 0 says, and the job goes on: the line and status of the last error in the section, when that status is
 * what it returned (muster_set_error() or a call of Muster); else MUSTER_SYSTEM and a line with the number.
 * The section must not call on other ranks. Collective; `name` is the same on all ranks, and neither it nor
 * `section` is NULL on any. MUSTER_TEMPORARY on all ranks when rank 0 is not done after deadline_ms. */
MUSTER_API int muster_on_rank_0(muster_job* job, const char* name, muster_section section, void* context,
                                int64_t deadline_ms);

/* What muster_on_rank_lost() tells, as muster::RankLoss. Valid until the function returns. */
typedef struct muster_loss {
  size_t size;       /* sizeof(muster_loss), set by the library */
  const int* ranks;  /* those that are known to be lost; others may have gone with them */
  size_t rank_count; /* of them; may be 0 */
  const char* what;  /* the job's one line about it */
} muster_loss;
typedef void (*muster_save)(const muster_loss* loss, void* context);
/* save(loss, context) is called once when a rank was lost: by this rank's next call of Muster, or by the one
 * that it waits in, right before the call fails with MUSTER_ERROR_LOST_RANK, on the thread that made it or,
 * where that meets the loss first, a reducer's own. It may do anything but call this job and its
 * communicators. When it has not returned deadline_ms after the loss, the process is ended with
 * MUSTER_TEMPORARY. Replaces the function given before; after muster_shrink() it stands for the next loss.
 * `context` lives as long as the job's handle. */
MUSTER_API int muster_on_rank_lost(muster_job* job, muster_save save, void* context, int64_t deadline_ms);
/* After a call that failed with MUSTER_ERROR_LOST_RANK, in a job joined with tolerate_rank_loss: the ranks
 * that are left become the job, as by muster::Job::shrink(), with new numbers and roster. Old communicators,
 * what was split from them and reducers on them can only be freed then. Collective over the ranks that are
 * left. MUSTER_USAGE without tolerate_rank_loss or when nobody was lost; MUSTER_TEMPORARY when too few are
 * left or not all of them come within deadline_ms. */
MUSTER_API int muster_shrink(muster_job* job, int64_t deadline_ms);

#ifdef __cplusplus
}
#endif

#endif
