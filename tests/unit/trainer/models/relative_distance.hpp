// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

/// |a - b| / |b| of two vectors.
inline double relative_distance(const double* a, const double* b, std::size_t count) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < count; ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}
