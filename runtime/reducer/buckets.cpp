// SPDX-License-Identifier: Apache-2.0
#include "reducer/buckets.hpp"

#include <algorithm>

#include "reducer/arithmetic.hpp"

namespace muster::detail {
namespace {

std::span<std::byte> contiguous_memory(Gradients gradients, const Bucket& bucket) {
  std::span<std::byte> memory;
  for (std::size_t i = bucket.first; i < bucket.last; ++i) {
    auto const gradient = gradients[i];
    if (gradient.empty()) continue;
    if (memory.empty()) memory = gradient.first(0);
    if (gradient.data() != memory.data() + memory.size()) return {};
    memory = {memory.data(), memory.size() + gradient.size()};
  }
  return memory;
}

}  // namespace

std::vector<Bucket> cut_buckets(std::span<const std::size_t> sizes, std::size_t bucket_bytes,
                                std::size_t element_size) {
  auto const min_elements = std::max<std::size_t>(1, bucket_bytes / element_size);
  std::vector<Bucket> buckets;
  Bucket bucket{sizes.size(), sizes.size(), 0, {}};
  for (std::size_t i = sizes.size(); i-- > 0;) {
    bucket.first = i;
    bucket.count += sizes[i];
    if (bucket.count < min_elements && i > 0) continue;
    buckets.push_back(bucket);
    bucket = {i, i, 0, {}};
  }
  return buckets;
}

std::vector<Bucket> make_buckets(Gradients gradients, std::size_t bucket_bytes, std::size_t element_size) {
  std::vector<std::size_t> sizes;
  for (auto const& gradient : gradients) sizes.push_back(gradient.size() / element_size);
  auto buckets = cut_buckets(sizes, bucket_bytes, element_size);
  for (Bucket& bucket : buckets) bucket.memory = contiguous_memory(gradients, bucket);
  return buckets;
}

void flatten(const Bucket& bucket, Gradients gradients, Arithmetic& arithmetic, void* to) {
  for_each_piece<std::byte>(bucket, gradients, [&](std::span<std::byte> piece, std::size_t at) {
    arithmetic.copy(static_cast<std::byte*>(to) + at, piece.data(), piece.size());
  });
}

void unflatten(const Bucket& bucket, Gradients gradients, Arithmetic& arithmetic, const void* from) {
  for_each_piece<std::byte>(bucket, gradients, [&](std::span<std::byte> piece, std::size_t at) {
    arithmetic.copy(piece.data(), static_cast<const std::byte*>(from) + at, piece.size());
  });
}

}  // namespace muster::detail
