// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace muster::detail {

class Arithmetic;

/// Some parameters' gradients that are reduced together.
struct Bucket {
  std::size_t first = 0, last = 0;  ///< parameters [first, last)
  std::size_t count = 0;            ///< elements of all of them
  float* memory = nullptr;          ///< of all of them when they lie side by side in this order, else null
};

/// Cuts parameters of these sizes, from the last one to the first, into buckets of at least `bucket_bytes`
/// (the last bucket, of the first parameters, may be smaller). In the order in which a backward pass fills
/// them.
std::vector<Bucket> cut_buckets(std::span<const std::size_t> sizes, std::size_t bucket_bytes);
/// The same with their memory.
std::vector<Bucket> make_buckets(std::span<const std::span<float>> gradients, std::size_t bucket_bytes);

/// Calls use(span, its offset in the bucket) for each piece of the bucket's memory: all of it when it lies in
/// one, else each parameter's gradient that is not empty.
template <typename Use>
void for_each_piece(const Bucket& bucket, std::span<const std::span<float>> gradients, Use use) {
  if (bucket.memory != nullptr) return use(std::span(bucket.memory, bucket.count), std::size_t{0});
  std::size_t at = 0;
  for (std::size_t i = bucket.first; i < bucket.last; ++i) {
    if (!gradients[i].empty()) use(gradients[i], at);
    at += gradients[i].size();
  }
}

/// Copies the bucket's gradients together, and back.
void copy_out(const Bucket& bucket, std::span<const std::span<float>> gradients, Arithmetic& arithmetic,
              float* to);
void copy_in(const Bucket& bucket, std::span<const std::span<float>> gradients, Arithmetic& arithmetic,
             const float* from);

}  // namespace muster::detail
