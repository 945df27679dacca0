// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace muster::detail {

class Arithmetic;

/// Gradients of several parameters that are reduced together.
struct Bucket {
  std::size_t first = 0, last = 0;  ///< parameters [first, last)
  std::size_t count = 0;            ///< elements of all these parameters
  float* memory = nullptr;          ///< of all gradients, if they are contiguous in this order; else null
};

/// Cuts parameters of these sizes into buckets of at least `bucket_bytes`, from the last parameter to the
/// first, which is the order in which a backward pass fills them. The last bucket, with the first parameters,
/// may be smaller.
std::vector<Bucket> cut_buckets(std::span<const std::size_t> sizes, std::size_t bucket_bytes);
/// The same, with Bucket::memory set.
std::vector<Bucket> make_buckets(std::span<const std::span<float>> gradients, std::size_t bucket_bytes);

/// Calls use(span, its offset in the bucket) for each piece of the bucket's memory: once if the memory is
/// contiguous, else for each gradient that is not empty.
template <typename Use>
void for_each_piece(const Bucket& bucket, std::span<const std::span<float>> gradients, Use use) {
  if (bucket.memory != nullptr) return use(std::span(bucket.memory, bucket.count), std::size_t{0});
  std::size_t at = 0;
  for (std::size_t i = bucket.first; i < bucket.last; ++i) {
    if (!gradients[i].empty()) use(gradients[i], at);
    at += gradients[i].size();
  }
}

/// Copies the bucket's gradients into one buffer, and back.
void flatten(const Bucket& bucket, std::span<const std::span<float>> gradients, Arithmetic& arithmetic,
             float* to);
void unflatten(const Bucket& bucket, std::span<const std::span<float>> gradients, Arithmetic& arithmetic,
               const float* from);

}  // namespace muster::detail
