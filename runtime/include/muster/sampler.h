/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: which samples of a data set each rank has. Nothing here communicates, and no job is
 * needed. */
#ifndef MUSTER_SAMPLER_H
#define MUSTER_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets [*begin, *end) to the part of `total` items that belongs to `rank` of `size`. Shares are contiguous,
 * their sizes differ by at most one, and lower ranks have the larger ones. MUSTER_USAGE when `rank` is not in
 * [0, size). Thread-safe. */
MUSTER_API int muster_share_of(uint64_t total, int rank, int size, uint64_t* begin, uint64_t* end);

/* As muster::SamplerPosition: the whole state of a sampler that a checkpoint must store. It has no `size`:
 * no members will be added. */
typedef struct muster_sampler_position {
  uint64_t seed;   /* seed of the order */
  uint64_t epoch;  /* passes over the data before this one */
  uint64_t offset; /* samples of this pass taken by all ranks together */
} muster_sampler_position;

/* As muster::Sampler: in each epoch every sample goes to exactly one rank. The order depends on the seed and
 * the epoch, and not on the number of ranks. Every rank has a sampler of the same data set and position, and
 * requests the same global batches. */
typedef struct muster_sampler muster_sampler;
/* A sampler of `samples` samples, at most 2^62. `position` may be NULL: zeros. `shuffle` is 1, or 0 for the
 * data set's order. MUSTER_USAGE when there are no samples or too many, `rank` is not in [0, size), or the
 * position's offset is above `samples`. */
MUSTER_API int muster_sampler_new(uint64_t samples, int rank, int size,
                                  const muster_sampler_position* position, int shuffle,
                                  muster_sampler** sampler);
/* NULL is allowed. */
MUSTER_API void muster_sampler_free(muster_sampler* sampler);

/* As muster::Sampler::Batch. */
typedef struct muster_batch {
  size_t size;             /* sizeof(muster_batch), set by the caller */
  const uint64_t* samples; /* this rank's, each below the number of samples; valid until the next call of
                              muster_sampler_next() or muster_sampler_free() with this sampler */
  size_t count;            /* length of `samples`; may be 0: the rank still takes part in the step */
  uint64_t global;         /* samples of all ranks in this batch: the weight of an average */
  muster_sampler_position begin; /* position of the batch's first sample */
} muster_batch;
/* Fills *batch with the next `global` samples, at least 1, or with the rest of the epoch. */
MUSTER_API int muster_sampler_next(muster_sampler* sampler, uint64_t global, muster_batch* batch);
/* Sets *position to the beginning of the next batch. After the last batch of an epoch that is this epoch's
 * end: its offset is the number of samples. */
MUSTER_API int muster_sampler_tell(const muster_sampler* sampler, muster_sampler_position* position);
/* Sets *sample to the sample at position `offset`, below the number of samples, in the order of `epoch`,
 * below 2^62; else MUSTER_USAGE. */
MUSTER_API int muster_sampler_at(const muster_sampler* sampler, uint64_t epoch, uint64_t offset,
                                 uint64_t* sample);

#ifdef __cplusplus
}
#endif

#endif
