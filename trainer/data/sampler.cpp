// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <bit>
#include <string>

#include "data/philox.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

// Streams of the seed's generator; the model's initial weights use small numbers (one per tensor).
constexpr std::uint64_t offset_stream = std::uint64_t{1} << 62;
constexpr std::uint64_t order_stream = std::uint64_t{1} << 63;

}  // namespace

Share share_of(std::uint64_t total, int rank, int size) noexcept {
  const auto r = static_cast<std::uint64_t>(rank), n = static_cast<std::uint64_t>(size);
  const std::uint64_t each = total / n, larger = total % n;
  const std::uint64_t begin = r * each + (r < larger ? r : larger);
  return {begin, begin + each + (r < larger ? 1 : 0)};
}

Sampler::Sampler(std::uint64_t text_bytes, int context, std::uint64_t seed)
    : context_(static_cast<std::uint64_t>(context)), seed_(seed) {
  if (text_bytes < context_ + 1) {
    throw Error(Fault::usage, "the training text has " + std::to_string(text_bytes) +
                                  " bytes, but one sample needs " + std::to_string(context_ + 1) +
                                  " (--context plus one): give more text or a smaller --context");
  }
  const std::uint64_t whole = (text_bytes - 1) / context_;
  windows_ = whole > 1 ? whole - 1 : 1;  // one window less leaves room for every offset
  const std::uint64_t slack = text_bytes - 1 - windows_ * context_;
  offsets_ = slack + 1 < context_ ? slack + 1 : context_;
  const int bits = std::bit_width(windows_ - 1);
  half_bits_ = (bits + 1) / 2;
  if (half_bits_ == 0) half_bits_ = 1;
}

/// A four-round Feistel network over the next power of four, walked until it falls inside the range: a
/// permutation of [0, windows) for each epoch (Black and Rogaway, "Ciphers with arbitrary finite domains",
/// 2002).
std::uint64_t Sampler::permuted(std::uint64_t epoch, std::uint64_t index) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next =
          left ^ (uniform_bits(seed_, order_stream | epoch, round << 32 | right) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= windows_);
  return index;
}

std::uint64_t Sampler::start(std::uint64_t sample) const noexcept {
  const std::uint64_t epoch = sample / windows_;
  const std::uint64_t offset = uniform_bits(seed_, offset_stream, epoch) % offsets_;
  return offset + permuted(epoch, sample % windows_) * context_;
}

}  // namespace muster::data
