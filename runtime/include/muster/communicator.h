/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: groups of ranks and their operations. */
#ifndef MUSTER_COMMUNICATOR_H
#define MUSTER_COMMUNICATOR_H

#include <stddef.h>

#include "muster/job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_communicator muster_communicator;

/* Communicators. The first calls of muster_world and muster_host_world are collective, and so is each
 * muster_split. Free each handle by muster_communicator_free before the job is left. */
MUSTER_API int muster_world(muster_job* job, muster_communicator** communicator);
MUSTER_API int muster_host_world(muster_job* job, muster_communicator** communicator);
/* The ranks of this host, and the ranks of all hosts that have this one's local rank. Split from the world by
 * the first call, which is collective over all ranks of the job. */
MUSTER_API int muster_intra_node(muster_job* job, muster_communicator** communicator);
MUSTER_API int muster_inter_node(muster_job* job, muster_communicator** communicator);
MUSTER_API int muster_split(muster_communicator* communicator, int color, int key,
                            muster_communicator** part);
MUSTER_API void muster_communicator_free(muster_communicator* communicator);

MUSTER_API int muster_communicator_rank(const muster_communicator* communicator);
MUSTER_API int muster_communicator_size(const muster_communicator* communicator);
/* "nccl", "open-mpi", "control-plane" or "alone". */
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
enum {
  MUSTER_SUM = 0,
  MUSTER_AVERAGE = 1,
  MUSTER_MIN = 2,
  MUSTER_MAX = 3,
  MUSTER_PRODUCT = 4,
  MUSTER_PREMUL_SUM = 5 /* of operations, not of reducers: see muster_premul_factor */
};
/* The factor of this rank's later operations with MUSTER_PREMUL_SUM on this handle, as muster::premul_sum().
 */
MUSTER_API int muster_premul_factor(muster_communicator* communicator, double factor);

/* Collectives, as those of muster::Communicator. Counts are in elements of `type`. `stream` is a cudaStream_t
 * on backend "nccl", where a call returns when the operation is enqueued; otherwise it is ignored. */
/* In place when `in` is `out`; else the two must not overlap. */
MUSTER_API int muster_all_reduce(muster_communicator* communicator, const void* in, void* out, size_t count,
                                 int type, int reduction, void* stream);
/* In place at `root`; buffers of other ranks stay unchanged. */
MUSTER_API int muster_reduce(muster_communicator* communicator, void* buffer, size_t count, int type,
                             int reduction, int root, void* stream);
MUSTER_API int muster_broadcast(muster_communicator* communicator, void* buffer, size_t count, int type,
                                int root, void* stream);
/* `all` has room for size × count elements. */
MUSTER_API int muster_all_gather(muster_communicator* communicator, const void* mine, size_t count, void* all,
                                 int type, void* stream);
/* Concatenates shares of different lengths: counts[r] is the length of rank r's, with the same `counts` on
 * every rank; `all` has room for their sum. */
MUSTER_API int muster_all_gather_v(muster_communicator* communicator, const void* mine, void* all,
                                   const size_t* counts, int type, void* stream);
/* `all` has size × count elements, `mine` room for `count`. */
MUSTER_API int muster_reduce_scatter(muster_communicator* communicator, const void* all, void* mine,
                                     size_t count, int type, int reduction, void* stream);
/* The same with shares of different lengths, as in muster_all_gather_v. */
MUSTER_API int muster_reduce_scatter_v(muster_communicator* communicator, const void* all, void* mine,
                                       const size_t* counts, int type, int reduction, void* stream);
/* `in` has size × count elements, `out` has room for as many; they must not overlap. Slice r of `out` is this
 * rank's slice of rank r's `in`. */
MUSTER_API int muster_all_to_all(muster_communicator* communicator, const void* in, void* out, size_t count,
                                 int type, void* stream);
/* The same with slices of different lengths: send_counts[r] elements go to rank r and recv_counts[r] come
 * from it. */
MUSTER_API int muster_all_to_all_v(muster_communicator* communicator, const void* in, void* out,
                                   const size_t* send_counts, const size_t* recv_counts, int type,
                                   void* stream);
MUSTER_API int muster_send(muster_communicator* communicator, const void* buffer, size_t count, int type,
                           int to, void* stream);
MUSTER_API int muster_recv(muster_communicator* communicator, void* buffer, size_t count, int type, int from,
                           void* stream);
/* Grouped calls, as muster::CallGroup: operations on the communicator after muster_group_begin are issued
 * together by muster_group_issue, or dropped by muster_group_drop. Both free the group. */
typedef struct muster_group muster_group;
MUSTER_API int muster_group_begin(muster_communicator* communicator, muster_group** group);
MUSTER_API int muster_group_issue(muster_group* group);
MUSTER_API void muster_group_drop(muster_group* group);
/* Asynchronous operations, as muster::Communicator::async(): a group's calls, or one muster_all_reduce. Their
 * buffers must not be used until the work is complete. Free each work before the job is left. */
typedef struct muster_work muster_work;
MUSTER_API int muster_group_issue_async(muster_group* group, muster_work** work);
MUSTER_API int muster_all_reduce_async(muster_communicator* communicator, const void* in, void* out,
                                       size_t count, int type, int reduction, void* stream,
                                       muster_work** work);
/* Returns when the operations have completed, with the status of the one that failed. */
MUSTER_API int muster_work_wait(muster_work* work);
/* *complete is 1 when they have completed within timeout_ms milliseconds, else 0: they go on. */
MUSTER_API int muster_work_wait_for(muster_work* work, int64_t timeout_ms, int* complete);
/* *complete is 1 when they have completed, else 0. Does not wait. */
MUSTER_API int muster_work_test(muster_work* work, int* complete);
/* Waits first. */
MUSTER_API void muster_work_free(muster_work* work);
MUSTER_API int muster_communicator_barrier(muster_communicator* communicator, void* stream);
/* Waits until the operations on `stream` have completed, at most the operation timeout. */
MUSTER_API int muster_synchronize(muster_communicator* communicator, void* stream);

#ifdef __cplusplus
}
#endif

#endif
