// SPDX-License-Identifier: Apache-2.0
#include "muster/sampler.hpp"

#include <fmt/format.h>

#include <vector>

#include "c/call.hpp"
#include "c/structures.hpp"

struct muster_sampler {
  muster::Sampler sampler;
  std::vector<std::uint64_t> samples;  // of the last batch
};

namespace {

using muster::Error;
using muster::ErrorCode;
using muster::c::call;
using muster::c::require_not_null;

muster_sampler_position to_c(const muster::SamplerPosition& position) {
  return {position.seed, position.epoch, position.offset};
}

}  // namespace

int muster_share_of(uint64_t total, int rank, int size, uint64_t* begin, uint64_t* end) {
  return call([&] {
    if (rank < 0 || rank >= size)
      throw Error(ErrorCode::usage, fmt::format("muster_share_of: rank {} is not in 0 … {}", rank, size - 1));
    auto const share = muster::share_of(total, rank, size);
    require_not_null(begin, "muster_share_of", "place for the share's begin") = share.begin;
    require_not_null(end, "muster_share_of", "place for the share's end") = share.end;
  });
}

int muster_sampler_new(uint64_t samples, int rank, int size, const muster_sampler_position* position,
                       int shuffle, muster_sampler** sampler) {
  return call([&] {
    require_not_null(sampler, "muster_sampler_new", "place for the sampler") = nullptr;
    muster::SamplerPosition from;
    if (position != nullptr) from = {position->seed, position->epoch, position->offset};
    bool const shuffled = muster::c::parse_flag(shuffle, "muster_sampler_new", "shuffle");
    *sampler = new muster_sampler{muster::Sampler(samples, rank, size, from, shuffled), {}};
  });
}

void muster_sampler_free(muster_sampler* sampler) { delete sampler; }

int muster_sampler_next(muster_sampler* sampler, uint64_t global, muster_batch* batch) {
  return call([&] {
    auto& its = require_not_null(sampler, "muster_sampler_next", "sampler");
    auto& place = require_not_null(batch, "muster_sampler_next", "place for the batch");
    muster::c::require_size(place, "muster_sampler_next", "muster_batch");
    auto next = its.sampler.next(global);
    its.samples = std::move(next.samples);
    muster::c::fill(place,
                    {place.size, its.samples.data(), its.samples.size(), next.global, to_c(next.begin)});
  });
}

int muster_sampler_tell(const muster_sampler* sampler, muster_sampler_position* position) {
  return call([&] {
    auto const& its = require_not_null(sampler, "muster_sampler_tell", "sampler").sampler;
    require_not_null(position, "muster_sampler_tell", "place for the position") = to_c(its.position());
  });
}

int muster_sampler_at(const muster_sampler* sampler, uint64_t epoch, uint64_t offset, uint64_t* sample) {
  return call([&] {
    auto const& its = require_not_null(sampler, "muster_sampler_at", "sampler").sampler;
    auto& place = require_not_null(sample, "muster_sampler_at", "place for the sample");
    if (offset >= its.samples() || epoch >> 62 != 0) {
      throw Error(
          ErrorCode::usage,
          fmt::format("muster_sampler_at: place {} of epoch {} is not among {} samples and 2^62 epochs",
                      offset, epoch, its.samples()));
    }
    place = its.at(epoch, offset);
  });
}
