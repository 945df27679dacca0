/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: the same state on all ranks, and averages over them. */
#ifndef MUSTER_STATE_H
#define MUSTER_STATE_H

#include <stddef.h>

#include "muster/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As muster::State: references to a program's tensors, counters and texts that must be equal on all ranks.
 * muster_broadcast_state() fills them in. They must outlive the handle's last use. */
typedef struct muster_state muster_state;
MUSTER_API int muster_state_new(muster_state** state);
/* Adds `bytes` bytes, the same number on every rank; on an NCCL communicator GPU memory. MUSTER_USAGE when
 * `data` is NULL and `bytes` is not 0. */
MUSTER_API int muster_state_add(muster_state* state, void* data, size_t bytes);
/* Adds memory that gets rank 0's length, for texts and lists; not on an NCCL communicator. *data is NULL or
 * from malloc() and *bytes long. On the other ranks the broadcast reallocates it to rank 0's length, plus a
 * null byte that *bytes does not count, and sets *data and *bytes. The program frees *data. */
MUSTER_API int muster_state_add_sized(muster_state* state, void** data, size_t* bytes);
/* NULL is allowed. */
MUSTER_API void muster_state_free(muster_state* state);

/* Copies rank 0's state to every rank, bit for bit, as muster::broadcast_state(). On an NCCL communicator the
 * copy is enqueued on `stream`; else it is complete when the call returns. Collective. MUSTER_USAGE on every
 * rank when one has other parts than rank 0; MUSTER_USAGE for sized parts on NCCL; MUSTER_SYSTEM on a rank
 * that cannot allocate rank 0's length: the other ranks have their copies, and the communicator stays usable.
 */
MUSTER_API int muster_broadcast_state(muster_communicator* communicator, muster_state* state, void* stream);

/* A weighted mean that is still being summed, as muster::Average. Add a value v of weight w by
 * sum += v * w and weight += w. It has no `size`, since programs have arrays of it: no members will be added.
 */
typedef struct muster_average {
  double sum;
  double weight;
} muster_average;
/* Adds sums and weights over all ranks, with the same bits on every rank: sum / weight is then the mean over
 * all ranks. One all-reduce for all `count` averages. Collective over `host`, a communicator on host memory:
 * MUSTER_USAGE on "nccl". */
MUSTER_API int muster_average_over_ranks(muster_communicator* host, muster_average* averages, size_t count);
/* Sets *mean to the mean over ranks of `value`, weighted with each rank's `weight` (samples, tokens); not a
 * number when all weights are 0. Collective, as muster_average_over_ranks(). */
MUSTER_API int muster_weighted_average(muster_communicator* host, double value, double weight, double* mean);

#ifdef __cplusplus
}
#endif

#endif
