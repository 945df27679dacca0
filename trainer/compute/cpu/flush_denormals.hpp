// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SSE2__)
#include <pmmintrin.h>
#endif

namespace muster::compute::cpu {

/// Treats denormal numbers as zero on all threads of the pool: they affect no result and cost a hundred times
/// an ordinary operation.
inline void flush_denormals([[maybe_unused]] int threads) {
#if defined(__SSE2__)
#pragma omp parallel num_threads(threads)
  {
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
  }
#endif
}

}  // namespace muster::compute::cpu
