/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: gradients that are reduced during the backward pass. */
#ifndef MUSTER_REDUCER_H
#define MUSTER_REDUCER_H

#include <stddef.h>
#include <stdint.h>

#include "muster/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As muster::ReducerOptions, which explains each member; equal on all ranks. On "nccl", `chunks` and
 * `bfloat16` give MUSTER_USAGE when this library was built without nvcc (`muster check-build`). */
typedef struct muster_reducer_options {
  size_t size;           /* sizeof(muster_reducer_options) */
  uint64_t bucket_bytes; /* minimum size of one bucket; 0: from a measurement */
  uint64_t chunks;       /* above 0: the deterministic mode with this number of chunks */
  int32_t reduction;     /* MUSTER_AVERAGE or MUSTER_SUM */
  int32_t bfloat16;      /* 1: gradients are sent as bfloat16 and added in float32; not in shared memory */
  int32_t overlap;       /* 0: buckets are reduced one after the other in muster_reducer_finish() */
  int32_t type;          /* of all gradients: MUSTER_FLOAT32, MUSTER_FLOAT64 or MUSTER_BFLOAT16 */
} muster_reducer_options;
#define MUSTER_REDUCER_OPTIONS_DEFAULT \
  { sizeof(muster_reducer_options), 0, 0, MUSTER_AVERAGE, 0, 1, MUSTER_FLOAT32 }

/* As muster::Reducer: gradient buckets over a communicator. Parameters are numbered in forward order. In each
 * step the backward pass calls muster_reducer_ready() once for each of them, and then
 * muster_reducer_finish(). In the deterministic mode it calls muster_reducer_ready() once for each of this
 * rank's chunks; on GPU memory, work enqueued after that for the next chunk, on the streams that were given,
 * waits until this chunk is added. The next call returns the error of a reduction; after it the reducer can
 * only be freed. The communicator can be used at the same time. */
typedef struct muster_reducer muster_reducer;
/* A reducer of `parameters` gradients of options->type. sizes[i] is the number of elements of gradient i, and
 * gradients[i] points to it: host memory, or GPU memory on "nccl", which must outlive the reducer. Gradients
 * that lie side by side in forward order are reduced in place. `gradients` may be NULL: the reducer then
 * allocates them, zero at first. `options` may be NULL: the defaults. Sets *reducer, to NULL on failure.
 * Collective. MUSTER_USAGE on every rank when they have different sizes or options, or no parameters. */
MUSTER_API int muster_reducer_new(muster_communicator* communicator, size_t parameters, const size_t* sizes,
                                  void* const* gradients, const muster_reducer_options* options,
                                  muster_reducer** reducer);
/* Waits for running reductions and frees the reducer; to be called before the job is left. NULL is allowed.
 */
MUSTER_API void muster_reducer_free(muster_reducer* reducer);
/* The same without waiting, for a program that gives up the step. Running reductions are aborted, and the
 * gradients' memory may then be written to until the process ends. */
MUSTER_API void muster_reducer_drop(muster_reducer* reducer);

/* Sets *gradient to this parameter's gradient, an array of options->type, which holds the result after
 * muster_reducer_finish(), and *count, which may be NULL, to its number of elements. MUSTER_USAGE when there
 * is no such parameter. */
MUSTER_API int muster_reducer_gradient(const muster_reducer* reducer, size_t parameter, void** gradient,
                                       size_t* count);
/* Marks the gradient of this parameter as complete: on host memory now, on GPU memory once the work enqueued
 * on `stream`, a cudaStream_t, is done. It must not be touched until muster_reducer_finish(). Does not wait.
 * MUSTER_USAGE when there is no such parameter or it was ready already; the error that ended the reductions.
 */
MUSTER_API int muster_reducer_ready(muster_reducer* reducer, size_t parameter, void* stream);
/* Ends the step. On host memory it waits until the gradients are reduced. On GPU memory only work enqueued on
 * `stream` after this call waits: muster_synchronize() returns the errors. MUSTER_USAGE when a parameter is
 * not ready; the error that ended the reductions. */
MUSTER_API int muster_reducer_finish(muster_reducer* reducer, void* stream);

/* Sets [*begin, *end) to this rank's chunks: in the deterministic mode by muster_share_of(), else
 * [rank, rank + 1). */
MUSTER_API int muster_reducer_chunks(const muster_reducer* reducer, uint64_t* begin, uint64_t* end);
/* Number of parameters, number of buckets, and size of a bucket, measured or given; 0 for a null handle. */
MUSTER_API size_t muster_reducer_parameters(const muster_reducer* reducer);
MUSTER_API size_t muster_reducer_buckets(const muster_reducer* reducer);
MUSTER_API size_t muster_reducer_bucket_bytes(const muster_reducer* reducer);

/* As muster::ReducerStatistics: statistics of one step on this rank. */
typedef struct muster_reducer_statistics {
  size_t size;                  /* sizeof(muster_reducer_statistics), set by the caller */
  uint64_t step;                /* number of finished steps; the rest describes the last */
  uint64_t buckets;             /* number of reduced buckets */
  uint64_t bytes;               /* bytes of gradients, in the type in which they were sent */
  double communication_seconds; /* time in which buckets were being reduced */
  double exposed_seconds;       /* of that, not hidden: wait of muster_reducer_finish() or its stream */
} muster_reducer_statistics;
/* Fills *statistics for the last step; on GPU memory, for the last step that is known to be complete. */
MUSTER_API int muster_reducer_last_step(const muster_reducer* reducer, muster_reducer_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif
