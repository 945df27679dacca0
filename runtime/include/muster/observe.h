/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: timeline spans and metrics, as muster::Span and muster::RankMetrics. */
#ifndef MUSTER_OBSERVE_H
#define MUSTER_OBSERVE_H

#include <stddef.h>
#include <stdint.h>

#include "muster/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A span of this thread's time in the job's timeline (MUSTER_TIMELINE). Pass the returned value to
 * muster_span_end on the same thread; spans that began later must end before. */
MUSTER_API int muster_span_begin(const char* name);
MUSTER_API void muster_span_end(int span);
/* A rank's metrics in Prometheus' text format. Another rank's are requested over the control plane, whatever
 * its program does, for at most wait_ms. Writes at most `capacity` bytes with a null at the end, as snprintf
 * does. Sets *length, which may be NULL, to the length of the whole text without the null. */
MUSTER_API int muster_metrics_text(const muster_job* job, int rank, int64_t wait_ms, char* text,
                                   size_t capacity, size_t* length);

#ifdef __cplusplus
}
#endif

#endif
