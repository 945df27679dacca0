/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: gradients that are reduced while the backward pass goes on. */
#ifndef MUSTER_REDUCER_H
#define MUSTER_REDUCER_H

#include <stddef.h>
#include <stdint.h>

#include "muster/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As muster::ReducerOptions, where each is explained; the same on all ranks. On "nccl" `chunks` and
 * `bfloat16` are MUSTER_USAGE where this library was built without nvcc (`muster check-build`). */
typedef struct muster_reducer_options {
  size_t size;           /* sizeof(muster_reducer_options) */
  uint64_t bucket_bytes; /* gradients of one bucket, at least; 0: from a measurement */
  uint64_t chunks;       /* above 0: the deterministic mode with so many chunks */
  int32_t reduction;     /* MUSTER_AVERAGE or MUSTER_SUM */
  int32_t bfloat16;      /* 1: gradients travel as bfloat16 and are added in float32 */
  int32_t overlap;       /* 0: buckets are reduced one after the other in muster_reducer_finish() */
  int32_t reserved;      /* 0 */
} muster_reducer_options;
#define MUSTER_REDUCER_OPTIONS_DEFAULT \
  { sizeof(muster_reducer_options), 0, 0, MUSTER_AVERAGE, 0, 1, 0 }

/* As muster::Reducer: gradient buckets over a communicator. Parameters are numbered in forward order; the
 * backward pass calls muster_reducer_ready() for each of them, once in a step (in the deterministic mode once
 * for each of this rank's chunks: on GPU memory what is enqueued for the next one after that, on the streams
 * that were given, waits until this one is added), and then muster_reducer_finish(). An error of a reduction
 * is told by the next call; after it the reducer is of no use but to be freed. The communicator can be used
 * at the same time. */
typedef struct muster_reducer muster_reducer;
/* A reducer of `parameters` gradients of float32, the only type that it has: numbers of another one behind
 * these pointers would be added as if they were float32, unseen (muster_all_reduce() takes every type).
 * sizes[i] is the number of elements of the i-th, and gradients[i] where it lies: host memory, or on "nccl"
 * GPU memory, which outlives the reducer. Gradients that lie side by side in forward order are reduced where
 * they are. `gradients` may be NULL: the reducer has such memory of its own, zero at first. `options` may be
 * NULL: the defaults. Sets *reducer, to NULL on failure. Collective. MUSTER_USAGE on every rank when they
 * have different sizes or options, or no parameters. */
MUSTER_API int muster_reducer_new(muster_communicator* communicator, size_t parameters, const size_t* sizes,
                                  float* const* gradients, const muster_reducer_options* options,
                                  muster_reducer** reducer);
/* Waits for what was started and frees the reducer, before the job is left. NULL is fine. */
MUSTER_API void muster_reducer_free(muster_reducer* reducer);
/* The same without waiting, for a program that gives the step up: what was started is cut off, and the
 * gradients' memory may then be written to until the process ends. */
MUSTER_API void muster_reducer_drop(muster_reducer* reducer);

/* Sets *gradient to where this parameter's gradient goes and, after muster_reducer_finish(), comes from, and
 * *count, which may be NULL, to its elements. MUSTER_USAGE when there is no such parameter. */
MUSTER_API int muster_reducer_gradient(const muster_reducer* reducer, size_t parameter, float** gradient,
                                       size_t* count);
/* The gradient of this parameter is complete: on host memory now, on GPU memory once what is enqueued on
 * `stream`, a cudaStream_t, is done. It is not to be touched until muster_reducer_finish(). Does not wait.
 * MUSTER_USAGE when there is no such parameter or it was ready already; what ended the reductions. */
MUSTER_API int muster_reducer_ready(muster_reducer* reducer, size_t parameter, void* stream);
/* Ends the step. On host memory it waits until the gradients are reduced; on GPU memory what is enqueued on
 * `stream` from now on waits: muster_synchronize() tells errors. MUSTER_USAGE when a parameter is not ready;
 * what ended the reductions. */
MUSTER_API int muster_reducer_finish(muster_reducer* reducer, void* stream);

/* Sets [*begin, *end) to this rank's chunks in the deterministic mode, muster_share_of() them, else to one:
 * the rank. */
MUSTER_API int muster_reducer_chunks(const muster_reducer* reducer, uint64_t* begin, uint64_t* end);
/* Numbers of parameters and buckets, and bytes of a bucket, measured or asked for; 0 for a null handle. */
MUSTER_API size_t muster_reducer_parameters(const muster_reducer* reducer);
MUSTER_API size_t muster_reducer_buckets(const muster_reducer* reducer);
MUSTER_API size_t muster_reducer_bucket_bytes(const muster_reducer* reducer);

/* As muster::ReducerStatistics: of one step, on this rank. */
typedef struct muster_reducer_statistics {
  size_t size;                  /* sizeof(muster_reducer_statistics), set by the caller */
  uint64_t step;                /* steps that were finished; the last one is described */
  uint64_t buckets;             /* that were reduced */
  uint64_t bytes;               /* of gradients, in the type in which they travelled */
  double communication_seconds; /* in which buckets were being reduced */
  double exposed_seconds; /* of it, not hidden: how long muster_reducer_finish() waited, or its stream */
} muster_reducer_statistics;
/* Fills *statistics with those of the last step; on GPU memory of the last one whose work is known to be
 * done. */
MUSTER_API int muster_reducer_last_step(const muster_reducer* reducer, muster_reducer_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif
