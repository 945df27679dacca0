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
  int64_t silence_ms;           /* a process that says nothing for so long is lost; 0: never */
  int32_t device;               /* MUSTER_DEVICE_… */
  int32_t survive_losses;       /* 1: muster_shrink() can go on without lost ranks; the same on all ranks */
  int64_t stall_warning_ms;     /* who waits for so long in an operation is told of on rank 0; 0: never */
  int64_t unattended_ms; /* a process that calls nothing of Muster for so long after the job has failed is
                            ended with the error's status; 0: never */
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
/* Waits for the others (bounded by the join deadline) and ends the membership. The handle stays, for
 * muster_job_free. */
MUSTER_API int muster_leave(muster_job* job);
/* Ends the membership at once because this rank cannot go on for a reason of its own, which the program says:
 * the other ranks learn that it has gone and end without a word. */
MUSTER_API void muster_abandon(muster_job* job);
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

/* As muster::Hello. Texts are never NULL and live as long as the job's handle. */
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
  double node_ms;
  double across_nodes_ms;
  double host_world_ms;
} muster_timings;
/* Fills *timings with what the phases up to here took. */
MUSTER_API int muster_read_timings(const muster_job* job, muster_timings* timings);

/* Every rank arrives, or the missing ones are named. Host side, over the control plane. */
MUSTER_API int muster_barrier(muster_job* job, const char* name, int64_t deadline_ms);

#ifdef __cplusplus
}
#endif

#endif
