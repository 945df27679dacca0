/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: the job's key-value store, as muster::Store. */
#ifndef MUSTER_STORE_H
#define MUSTER_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "muster/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limit of a value, so also the `capacity` that is always enough. Keys have 250 bytes at most. */
#define MUSTER_STORE_VALUE_BYTES 65536

/* These functions may be called by several threads at once, but not while muster_shrink() or muster_leave()
 * runs. Each fails with the job's failure as soon as there is one: MUSTER_TEMPORARY, with the lost rank. */

/* Stores `bytes` bytes under a key; they replace an earlier value. */
MUSTER_API int muster_store_put(muster_job* job, const char* key, const void* value, size_t bytes);
/* Waits until a rank puts the value: MUSTER_TEMPORARY when none does so within timeout_ms. Writes at most
 * `capacity` bytes of it and sets *bytes to its length. */
MUSTER_API int muster_store_get(muster_job* job, const char* key, void* value, size_t capacity, size_t* bytes,
                                int64_t timeout_ms);
/* Adds to a counter, which is 0 at first and stored as decimal text, and sets *sum. MUSTER_USAGE when the
 * value is not an integer of 64 bits, or the sum is none. */
MUSTER_API int muster_store_add(muster_job* job, const char* key, int64_t amount, int64_t* sum);
/* Adds bytes at the end of the value. */
MUSTER_API int muster_store_append(muster_job* job, const char* key, const void* value, size_t bytes);
/* Stores `desired` if the value is `expected`, or if there is none and `expected` is empty. Sets *found to 1
 * and writes the value that is stored then, as muster_store_get(); 0 when there is none. */
MUSTER_API int muster_store_compare_set(muster_job* job, const char* key, const void* expected,
                                        size_t expected_bytes, const void* desired, size_t desired_bytes,
                                        void* value, size_t capacity, size_t* bytes, int* found);
/* Sets *found to 1 when there is a value, else to 0. */
MUSTER_API int muster_store_check(muster_job* job, const char* key, int* found);
/* Removes a value. Sets *found to 1 when there was one, else to 0. */
MUSTER_API int muster_store_delete_key(muster_job* job, const char* key, int* found);
MUSTER_API int muster_store_num_keys(muster_job* job, size_t* count);

#ifdef __cplusplus
}
#endif

#endif
