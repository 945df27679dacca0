/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: the same state on all ranks, and averages over them. */
#ifndef MUSTER_STATE_H
#define MUSTER_STATE_H

#include <stddef.h>

#include "muster/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a program wants to be equal on all ranks, as muster::State: references to its tensors, counters and
 * texts, which muster_broadcast_state() fills in. They outlive the handle's last use. */
typedef struct muster_state muster_state;
MUSTER_API int muster_state_new(muster_state** state);
/* `bytes` bytes, as many on every rank; on an NCCL communicator GPU memory. MUSTER_USAGE when `data` is NULL
 * and `bytes` is not 0. */
MUSTER_API int muster_state_add(muster_state* state, void* data, size_t bytes);
/* Memory that gets rank 0's length, for texts and lists; not on an NCCL communicator. *data is NULL or from
 * malloc() and *bytes long. The broadcast gives the other ranks' memory rank 0's length by realloc(), and a
 * null byte behind it that *bytes does not count; both places are written then. The program frees *data. */
MUSTER_API int muster_state_add_sized(muster_state* state, void** data, size_t* bytes);
/* NULL is fine. */
MUSTER_API void muster_state_free(muster_state* state);

/* Copies rank 0's state to every rank, to the bit, as muster::broadcast_state(): on an NCCL communicator it
 * is enqueued on `stream`, else it is there when the call returns. Collective. MUSTER_USAGE on every rank
 * when one has other parts than rank 0; MUSTER_USAGE for sized parts on NCCL; MUSTER_SYSTEM on a rank that
 * has no memory for rank 0's length: the others have their copies, and the communicator can be used on. */
MUSTER_API int muster_broadcast_state(muster_communicator* communicator, muster_state* state, void* stream);

/* A weighted mean in the making, as muster::Average. A value v of weight w is added by sum += v * w and
 * weight += w. Two numbers for ever, since programs have arrays of it: it has no `size`. */
typedef struct muster_average {
  double sum;
  double weight;
} muster_average;
/* Adds up sums and weights over all ranks, the same bits on every one: sum / weight is the mean over them
 * then. One all-reduce for all `count` of them. Collective over `host`, a communicator on host memory:
 * MUSTER_USAGE on "nccl". */
MUSTER_API int muster_average_over_ranks(muster_communicator* host, muster_average* averages, size_t count);
/* Sets *mean to the mean over ranks of `value`, weighted with each rank's `weight` (samples, tokens): not a
 * number when all weights are 0. Collective as muster_average_over_ranks(). */
MUSTER_API int muster_weighted_average(muster_communicator* host, double value, double weight, double* mean);

#ifdef __cplusplus
}
#endif

#endif
