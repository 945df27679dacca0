// SPDX-License-Identifier: Apache-2.0
#include "data/windows.hpp"

#include <algorithm>
#include <string>

#include "muster/error.hpp"
#include "muster/philox.hpp"

namespace muster::data {
namespace {

// A stream of the seed's generator; the model's initial weights use small numbers (one per tensor).
constexpr std::uint64_t offset_stream = std::uint64_t{1} << 62;

std::uint64_t windows_in(std::uint64_t text_bytes, std::uint64_t context) {
  if (text_bytes < context + 1) {
    throw Error(Fault::usage, "the training text has " + std::to_string(text_bytes) +
                                  " bytes, but one sample needs " + std::to_string(context + 1) +
                                  " (--context plus one): give more text or a smaller --context");
  }
  const std::uint64_t whole = (text_bytes - 1) / context;
  return whole > 1 ? whole - 1 : 1;  // one window less leaves room for every offset
}

}  // namespace

Windows::Windows(std::uint64_t text_bytes, int context, std::uint64_t seed)
    : context_(static_cast<std::uint64_t>(context)),
      seed_(seed),
      order_(windows_in(text_bytes, context_), seed),
      offsets_(std::min(text_bytes - order_.count() * context_, context_)) {}

std::uint64_t Windows::start(std::uint64_t sample) const noexcept {
  const std::uint64_t epoch = sample / per_epoch();
  const std::uint64_t offset = uniform_bits(seed_, offset_stream, epoch) % offsets_;
  return offset + order_.at(epoch, sample % per_epoch()) * context_;
}

}  // namespace muster::data
