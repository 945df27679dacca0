// SPDX-License-Identifier: Apache-2.0
#include "reducer/buckets.hpp"

#include "reducer/arithmetic.hpp"

namespace muster::detail {
namespace {

float* contiguous_memory(std::span<const std::span<float>> gradients, const Bucket& bucket) {
  float* next = nullptr;
  float* begin = nullptr;
  for (std::size_t i = bucket.first; i < bucket.last; ++i) {
    if (gradients[i].empty()) continue;
    if (begin == nullptr) begin = gradients[i].data();
    if (next != nullptr && gradients[i].data() != next) return nullptr;
    next = gradients[i].data() + gradients[i].size();
  }
  return begin;
}

}  // namespace

std::vector<Bucket> cut_buckets(std::span<const std::size_t> sizes, std::size_t bucket_bytes) {
  auto const min_elements = std::max<std::size_t>(1, bucket_bytes / sizeof(float));
  std::vector<Bucket> buckets;
  Bucket bucket{sizes.size(), sizes.size(), 0, nullptr};
  for (std::size_t i = sizes.size(); i-- > 0;) {
    bucket.first = i;
    bucket.count += sizes[i];
    if (bucket.count < min_elements && i > 0) continue;
    buckets.push_back(bucket);
    bucket = {i, i, 0, nullptr};
  }
  return buckets;
}

std::vector<Bucket> make_buckets(std::span<const std::span<float>> gradients, std::size_t bucket_bytes) {
  std::vector<std::size_t> sizes;
  for (auto const& gradient : gradients) sizes.push_back(gradient.size());
  auto buckets = cut_buckets(sizes, bucket_bytes);
  for (Bucket& bucket : buckets) bucket.memory = contiguous_memory(gradients, bucket);
  return buckets;
}

void flatten(const Bucket& bucket, std::span<const std::span<float>> gradients, Arithmetic& arithmetic,
             float* to) {
  for_each_piece(bucket, gradients, [&](std::span<float> piece, std::size_t at) {
    arithmetic.copy(to + at, piece.data(), piece.size());
  });
}

void unflatten(const Bucket& bucket, std::span<const std::span<float>> gradients, Arithmetic& arithmetic,
               const float* from) {
  for_each_piece(bucket, gradients, [&](std::span<float> piece, std::size_t at) {
    arithmetic.copy(piece.data(), from + at, piece.size());
  });
}

}  // namespace muster::detail
