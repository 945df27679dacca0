/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: which samples of a data set each rank has. Nothing here communicates, and a job is not
 * needed. */
#ifndef MUSTER_SAMPLER_H
#define MUSTER_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets [*begin, *end) to the part of `total` items that belongs to `rank` of `size`: contiguous, sizes differ
 * by at most one, lower ranks have the larger ones. MUSTER_USAGE when `rank` is not in [0, size).
 * Thread-safe. */
MUSTER_API int muster_share_of(uint64_t total, int rank, int size, uint64_t* begin, uint64_t* end);

/* As muster::SamplerPosition: all that a checkpoint needs to keep of a sampler. These three for ever: it has
 * no `size`. */
typedef struct muster_sampler_position {
  uint64_t seed;   /* of the order */
  uint64_t epoch;  /* passes over the data that are done */
  uint64_t offset; /* samples of this pass that are taken, by all ranks together */
} muster_sampler_position;

/* As muster::Sampler: in each epoch every sample goes to exactly one rank, in an order that the seed and the
 * epoch decide and the number of ranks does not. Every rank has a sampler of the same data set and position
 * and asks it for the same global batches. */
typedef struct muster_sampler muster_sampler;
/* Of `samples` samples, at most 2^62. `position` may be NULL: zeros. `shuffle` is 1, or 0 for the samples'
 * own order. MUSTER_USAGE when there are no samples or too many, `rank` is not in [0, size), or the
 * position's offset is above `samples`. */
MUSTER_API int muster_sampler_new(uint64_t samples, int rank, int size,
                                  const muster_sampler_position* position, int shuffle,
                                  muster_sampler** sampler);
/* NULL is fine. */
MUSTER_API void muster_sampler_free(muster_sampler* sampler);

/* As muster::Sampler::Batch. */
typedef struct muster_batch {
  size_t size;                   /* sizeof(muster_batch), set by the caller */
  const uint64_t* samples;       /* this rank's, each below the number of samples; until the next call of
                                    muster_sampler_next() or muster_sampler_free() with this sampler */
  size_t count;                  /* of them; may be 0: the rank takes part in the step all the same */
  uint64_t global;               /* samples of all ranks in this batch: the weight of an average */
  muster_sampler_position begin; /* of the batch's first sample */
} muster_batch;
/* Fills *batch with the next `global` samples, at least 1, or with what is left of the epoch. */
MUSTER_API int muster_sampler_next(muster_sampler* sampler, uint64_t global, muster_batch* batch);
/* Sets *position to where the next batch begins; at an epoch's end to its end. */
MUSTER_API int muster_sampler_tell(const muster_sampler* sampler, muster_sampler_position* position);
/* Sets *sample to the one at place `offset`, below the number of samples, of the order of `epoch`, below
 * 2^62; else MUSTER_USAGE. */
MUSTER_API int muster_sampler_at(const muster_sampler* sampler, uint64_t epoch, uint64_t offset,
                                 uint64_t* sample);

#ifdef __cplusplus
}
#endif

#endif
