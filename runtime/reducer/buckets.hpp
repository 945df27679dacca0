// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace muster::detail {

/// Some parameters' gradients that are reduced together.
struct Bucket {
  std::size_t first = 0, last = 0;  ///< parameters [first, last)
  std::size_t count = 0;            ///< elements of all of them
  float* memory = nullptr;          ///< of all of them when they lie side by side in this order, else null
};

/// Cuts the parameters, from the last one to the first, into buckets of at least `bucket_bytes` (the last
/// bucket, of the first parameters, may be smaller). In the order in which a backward pass fills them.
std::vector<Bucket> make_buckets(std::span<const std::span<float>> gradients, std::size_t bucket_bytes);

/// Calls use(span of one parameter's gradient, its offset in the bucket) for each parameter of the bucket.
template <typename Use>
void for_each_gradient(const Bucket& bucket, std::span<const std::span<float>> gradients, Use use) {
  std::size_t at = 0;
  for (std::size_t i = bucket.first; i < bucket.last; ++i) {
    use(gradients[i], at);
    at += gradients[i].size();
  }
}

/// Copies the bucket's gradients together on host memory, and back.
void copy_out(const Bucket& bucket, std::span<const std::span<float>> gradients, float* to);
void copy_in(const Bucket& bucket, std::span<const std::span<float>> gradients, const float* from);

}  // namespace muster::detail
