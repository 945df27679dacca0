/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of libmuster, for C99, Fortran (iso_c_binding) and ctypes. C++ programs include muster.hpp,
 * whose documentation holds for the operations here too.
 *
 * Functions that can fail return a status: MUSTER_OK, or a value that is fit to be the process's exit code.
 * muster_last_error() then has one line on what happened, where, and what to do about it. No exception leaves
 * the library, and a null handle is MUSTER_USAGE. Plain questions (muster_rank and the like) return their
 * answer, -1 or NULL for a null handle.
 *
 * A handle is used by one thread at a time; the last error belongs to the calling thread. */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_API __attribute__((visibility("default")))

/* Changes when a program built with this header can no longer use another libmuster. Such a program does not
 * start (the symbols carry the version), and where it comes to the library by dlopen, muster_join() refuses
 * it. */
#define MUSTER_ABI_VERSION 1
/* The library's own. */
MUSTER_API int muster_abi_version(void);
/* "0.1.0" */
MUSTER_API const char* muster_version(void);

/* Status: exit codes of BSD's sysexits.h. 75 (EX_TEMPFAIL): a requeue makes sense. */
enum {
  MUSTER_OK = 0,
  MUSTER_USAGE = 64,      /* asked for something that makes no sense: bad rank, null handle, unknown type */
  MUSTER_DEVICE = 69,     /* a GPU was placed but CUDA or NCCL cannot use it */
  MUSTER_SYSTEM = 71,     /* the operating system or a library refused */
  MUSTER_TEMPORARY = 75,  /* a rank did not come before the deadline, or is lost: see muster_last_fault() */
  MUSTER_ENVIRONMENT = 78 /* the job was started in a way that cannot work */
};
/* What muster_last_fault() tells apart. */
enum {
  MUSTER_FAULT_USAGE = 0,
  MUSTER_FAULT_ENVIRONMENT = 1,
  MUSTER_FAULT_DEVICE = 2,
  MUSTER_FAULT_DEADLINE = 3,
  MUSTER_FAULT_LOST_RANK = 4,
  MUSTER_FAULT_SYSTEM = 5
};
/* Of this thread's last call that failed: its line, "" when none has; valid until this thread's next failure.
 */
MUSTER_API const char* muster_last_error(void);
/* One of MUSTER_FAULT_…, -1 when no call has failed. */
MUSTER_API int muster_last_fault(void);
/* 1 when another rank of the job has the same line and was chosen to say it: this one then says nothing. */
MUSTER_API int muster_last_error_repeated(void);

/* Joining. */
enum { MUSTER_DEVICE_AUTOMATIC = 0, MUSTER_DEVICE_CPU = 1, MUSTER_DEVICE_CUDA = 2 };
/* As muster::JoinOptions. Members are only ever added at the end: `size` says which of them the caller knows,
 * and the others have their defaults. */
typedef struct muster_join_options {
  size_t size;                  /* sizeof(muster_join_options) */
  int64_t deadline_ms;          /* of the whole join */
  int64_t operation_timeout_ms; /* of every later operation of a communicator */
  int64_t silence_ms;           /* a process that says nothing for so long is lost; 0: never */
  int32_t device;               /* MUSTER_DEVICE_… */
  int32_t reserved;             /* 0 */
} muster_join_options;
#define MUSTER_JOIN_OPTIONS_DEFAULT \
  { sizeof(muster_join_options), 60000, 600000, 10000, MUSTER_DEVICE_AUTOMATIC, 0 }

typedef struct muster_job muster_job;
typedef struct muster_communicator muster_communicator;

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
/* Fills *hello with what `rank` put up at join. */
MUSTER_API int muster_roster_entry(const muster_job* job, int rank, muster_hello* hello);

/* Every rank arrives, or the missing ones are named. Host side, over the control plane. */
MUSTER_API int muster_barrier(muster_job* job, const char* name, int64_t deadline_ms);

/* Communicators. The first call of muster_world and of muster_host_world is collective, each muster_split
 * too. Each handle is freed by muster_communicator_free before the job is left. */
MUSTER_API int muster_world(muster_job* job, muster_communicator** communicator);
MUSTER_API int muster_host_world(muster_job* job, muster_communicator** communicator);
/* The ranks of this host, and those of all hosts with this one's local rank: split from the world at the first
 * call, which is collective over all ranks of the job. */
MUSTER_API int muster_node(muster_job* job, muster_communicator** communicator);
MUSTER_API int muster_across_nodes(muster_job* job, muster_communicator** communicator);
MUSTER_API int muster_split(muster_communicator* communicator, int color, int key,
                            muster_communicator** part);
MUSTER_API void muster_communicator_free(muster_communicator* communicator);

MUSTER_API int muster_communicator_rank(const muster_communicator* communicator);
MUSTER_API int muster_communicator_size(const muster_communicator* communicator);
/* "nccl", "open-mpi" or "alone". */
MUSTER_API const char* muster_backend(const muster_communicator* communicator);

/* Element types. */
enum {
  MUSTER_FLOAT32 = 0,
  MUSTER_FLOAT64 = 1,
  MUSTER_BFLOAT16 = 2,
  MUSTER_FLOAT16 = 3,
  MUSTER_INT8 = 4,
  MUSTER_UINT8 = 5,
  MUSTER_INT32 = 6,
  MUSTER_UINT32 = 7,
  MUSTER_INT64 = 8,
  MUSTER_UINT64 = 9
};
/* Reductions. */
enum { MUSTER_SUM = 0, MUSTER_AVERAGE = 1, MUSTER_MIN = 2, MUSTER_MAX = 3, MUSTER_PRODUCT = 4 };

/* Collectives, as those of muster::Communicator. Counts are in elements of `type`. `stream` is a cudaStream_t
 * on backend "nccl", where the call returns when the operation is enqueued; otherwise it is ignored. */
/* In place when `in` is `out`; else they are apart. */
MUSTER_API int muster_all_reduce(muster_communicator* communicator, const void* in, void* out, size_t count,
                                 int type, int reduction, void* stream);
/* In place at `root`; the others' buffers stay as they are. */
MUSTER_API int muster_reduce(muster_communicator* communicator, void* buffer, size_t count, int type,
                             int reduction, int root, void* stream);
MUSTER_API int muster_broadcast(muster_communicator* communicator, void* buffer, size_t count, int type,
                                int root, void* stream);
/* `all` has room for size × count elements. */
MUSTER_API int muster_all_gather(muster_communicator* communicator, const void* mine, size_t count, void* all,
                                 int type, void* stream);
/* Shares of different lengths: counts[r] is rank r's, the same `counts` on every rank; `all` has room for
 * their sum. */
MUSTER_API int muster_all_gather_v(muster_communicator* communicator, const void* mine, void* all,
                                   const size_t* counts, int type, void* stream);
/* `all` has size × count elements, `mine` room for `count`. */
MUSTER_API int muster_reduce_scatter(muster_communicator* communicator, const void* all, void* mine,
                                     size_t count, int type, int reduction, void* stream);
/* `in` has size × count elements, as many as `out` has room for; they are apart. Slice r of `out` is this
 * rank's slice of rank r's `in`. */
MUSTER_API int muster_all_to_all(muster_communicator* communicator, const void* in, void* out, size_t count,
                                 int type, void* stream);
MUSTER_API int muster_send(muster_communicator* communicator, const void* buffer, size_t count, int type,
                           int to, void* stream);
MUSTER_API int muster_recv(muster_communicator* communicator, void* buffer, size_t count, int type, int from,
                           void* stream);
/* Grouped calls, as muster::CallGroup: operations on the communicator from muster_group_begin on are issued
 * together by muster_group_issue, or forgotten by muster_group_drop; both free the group. */
typedef struct muster_group muster_group;
MUSTER_API int muster_group_begin(muster_communicator* communicator, muster_group** group);
MUSTER_API int muster_group_issue(muster_group* group);
MUSTER_API void muster_group_drop(muster_group* group);
MUSTER_API int muster_communicator_barrier(muster_communicator* communicator, void* stream);
/* Waits until what was enqueued on `stream` is done, under the operation timeout. */
MUSTER_API int muster_synchronize(muster_communicator* communicator, void* stream);

/* What is seen of a job: muster::Span and muster::RankMetrics. */

/* A span of this thread's time in the job's timeline (MUSTER_TIMELINE). What it returns is given to
 * muster_span_end, on the same thread; spans that began later end before. */
MUSTER_API int muster_span_begin(const char* name);
MUSTER_API void muster_span_end(int span);
/* A rank's metrics in Prometheus' text format. Of another rank's they are asked for over the control plane,
 * whatever its program does, for at most wait_ms. Writes at most `capacity` bytes with a null at the end, as
 * snprintf does, and sets *length, which may be NULL, to the length of the whole text without it. */
MUSTER_API int muster_metrics_text(const muster_job* job, int rank, int64_t wait_ms, char* text,
                                   size_t capacity, size_t* length);

#ifdef __cplusplus
}
#endif

#endif
