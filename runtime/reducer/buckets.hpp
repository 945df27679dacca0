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
  std::span<std::byte> memory;      ///< of all gradients, if they are contiguous in this order; else empty
};

/// The memory of each parameter's gradient.
using Gradients = std::span<const std::span<std::byte>>;

/// Cuts parameters of these sizes into buckets of at least `bucket_bytes`, from the last parameter to the
/// first, which is the order in which a backward pass fills them. The last bucket, with the first parameters,
/// may be smaller.
std::vector<Bucket> cut_buckets(std::span<const std::size_t> sizes, std::size_t bucket_bytes,
                                std::size_t element_size);
/// The same, with Bucket::memory set.
std::vector<Bucket> make_buckets(Gradients gradients, std::size_t bucket_bytes, std::size_t element_size);

/// Calls use(elements, the number of elements before them) for each piece of the bucket's memory: once if the
/// memory is contiguous, else for each gradient that is not empty. T: the gradients' type, or std::byte.
template <typename T, typename Use>
void for_each_piece(const Bucket& bucket, Gradients gradients, Use use) {
  std::size_t at = 0;
  auto const use_memory = [&](std::span<std::byte> bytes) {
    std::span const elements(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T));
    if (!elements.empty()) use(elements, at);
    at += elements.size();
  };
  if (!bucket.memory.empty()) return use_memory(bucket.memory);
  for (std::size_t i = bucket.first; i < bucket.last; ++i) use_memory(gradients[i]);
}

/// Copies the bucket's gradients into one buffer, and back.
void flatten(const Bucket& bucket, Gradients gradients, Arithmetic& arithmetic, void* to);
void unflatten(const Bucket& bucket, Gradients gradients, Arithmetic& arithmetic, const void* from);

}  // namespace muster::detail
