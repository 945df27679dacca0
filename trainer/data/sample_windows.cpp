// SPDX-License-Identifier: Apache-2.0
#include "data/sample_windows.hpp"

#include <algorithm>
#include <string>

#include "muster/error.hpp"
#include "muster/philox.hpp"

namespace muster::data {
namespace {

// A stream of the seed's generator. Initial weights use small stream numbers (one per tensor).
constexpr std::uint64_t offset_stream = std::uint64_t{1} << 62;

std::uint64_t windows_in(std::uint64_t tokens, std::uint64_t context) {
  if (tokens < context + 1) {
    throw Error(ErrorCode::usage, "there are " + std::to_string(tokens) +
                                      " tokens (bytes of a text) to train on, but one sample needs " +
                                      std::to_string(context + 1) +
                                      " (--context plus one): give more data or a smaller --context");
  }
  const std::uint64_t windows = (tokens - 1) / context;
  return windows > 1 ? windows - 1 : 1;  // one window less leaves room for every offset
}

}  // namespace

SampleWindows::SampleWindows(std::uint64_t tokens, int context, std::uint64_t seed)
    : context_(static_cast<std::uint64_t>(context)),
      seed_(seed),
      order_(windows_in(tokens, context_), seed),
      offsets_(std::min(tokens - order_.count() * context_, context_)) {}

std::uint64_t SampleWindows::start(std::uint64_t sample) const noexcept {
  const std::uint64_t epoch = sample / per_epoch();
  const std::uint64_t offset = uniform_bits(seed_, offset_stream, epoch) % offsets_;
  return offset + order_.at(epoch, sample % per_epoch()) * context_;
}

}  // namespace muster::data
