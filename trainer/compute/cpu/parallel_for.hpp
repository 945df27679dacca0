// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

namespace muster::compute::cpu {

/// Below this many elements a parallel region costs more than it saves.
inline constexpr std::size_t parallel_threshold = 1 << 13;

/// Calls f(begin, end) for parts of [0, count) that start at multiples of `grain`, each part on its own
/// thread. `work`: elements touched in all.
template <typename F>
void parallel_for(int threads, std::size_t count, std::size_t grain, std::size_t work, F&& f) {
  const std::size_t pieces = (count + grain - 1) / grain;
  const int used = work < parallel_threshold ? 1 : static_cast<int>(std::min<std::size_t>(threads, pieces));
  if (used <= 1) {
    if (count > 0) f(std::size_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(used)
  {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const auto team = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t begin = pieces * thread / team * grain;
    const std::size_t end = std::min(count, pieces * (thread + 1) / team * grain);
    if (begin < end) f(begin, end);
  }
}

}  // namespace muster::compute::cpu
