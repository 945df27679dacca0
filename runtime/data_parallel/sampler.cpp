// SPDX-License-Identifier: Apache-2.0
#include "muster/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "muster/error.hpp"
#include "muster/philox.hpp"

namespace muster {
namespace {

// The stream of the seed's generator for orders. Programs that draw from the same seed use streams below
// 2^62.
constexpr std::uint64_t order_stream = std::uint64_t{1} << 63;
constexpr std::uint64_t max_samples = std::uint64_t{1} << 62;

}  // namespace

Share share_of(std::uint64_t total, int rank, int size) noexcept {
  auto const r = static_cast<std::uint64_t>(rank);
  auto const n = static_cast<std::uint64_t>(size);
  std::uint64_t const each = total / n;
  std::uint64_t const larger = total % n;
  std::uint64_t const begin = r * each + std::min(r, larger);
  return {begin, begin + each + (r < larger ? 1 : 0)};
}

Permutation::Permutation(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {
  if (count == 0) throw Error(ErrorCode::usage, "sampler: there are no samples");
  if (count > max_samples)
    throw Error(ErrorCode::usage, fmt::format("sampler: {} samples are more than 2^62", count));
  half_bits_ = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
}

std::uint64_t Permutation::at(std::uint64_t epoch, std::uint64_t index) const noexcept {
  std::uint64_t const mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      std::uint64_t const next =
          left ^ (uniform_bits(seed_, order_stream | epoch, round << 32 | right) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= count_);
  return index;
}

Sampler::Sampler(std::uint64_t samples, int rank, int size, const SamplerPosition& position, bool shuffle)
    : order_(samples, position.seed), rank_(rank), size_(size), position_(position), shuffle_(shuffle) {
  if (size < 1 || rank < 0 || rank >= size)
    throw Error(ErrorCode::usage, fmt::format("sampler: rank {} is not in 0 … {}", rank, size - 1));
  if (position.offset > samples) {
    throw Error(ErrorCode::usage,
                fmt::format("sampler: position {} of an epoch of {} samples: was it made with "
                            "another data set?",
                            position.offset, samples));
  }
}

std::uint64_t Sampler::at(std::uint64_t epoch, std::uint64_t offset) const noexcept {
  return shuffle_ ? order_.at(epoch, offset) : offset;
}

Sampler::Batch Sampler::next(std::uint64_t global) {
  if (global == 0) throw Error(ErrorCode::usage, "sampler: a batch of 0 samples");
  if (position_.offset == samples()) position_ = {position_.seed, position_.epoch + 1, 0};
  Batch batch{{}, std::min(global, samples() - position_.offset), position_};
  Share const share = share_of(batch.global, rank_, size_);
  batch.samples.reserve(share.count());
  for (std::uint64_t i = share.begin; i < share.end; ++i)
    batch.samples.push_back(at(position_.epoch, position_.offset + i));
  position_.offset += batch.global;
  return batch;
}

}  // namespace muster
