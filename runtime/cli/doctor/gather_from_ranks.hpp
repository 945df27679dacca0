// SPDX-License-Identifier: Apache-2.0
// Exchanges the results of several ranks.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <type_traits>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "job/job_internals.hpp"
#include "muster/error.hpp"

namespace muster::cli::doctor {

inline std::vector<int> all_ranks(const Job& job) {
  std::vector<int> ranks;
  for (const auto& hello : job.roster()) ranks.push_back(hello.rank);
  return ranks;
}

/// The values of all `ranks`, in their order; every rank passes the same `ranks`. Collective over them.
/// @throws Error, also for a value of another length: the preflight only lets ranks of one release get here.
template <typename Found>
std::vector<Found> gather_from_ranks(Job& job, const char* name, const std::vector<int>& ranks,
                                     const Found& mine) {
  static_assert(std::is_trivially_copyable_v<Found>);
  auto const plane = detail::JobInternals::plane(job);
  if (plane == nullptr) return {mine};
  control::Blob blob(sizeof mine);
  std::memcpy(blob.data(), &mine, sizeof mine);
  std::vector<Found> all;
  for (const auto& one : plane->gather(name, ranks, blob, std::chrono::seconds(60))) {
    if (one.size() != sizeof(Found))
      throw Error(ErrorCode::system,
                  fmt::format("{}: received {} bytes instead of {}", name, one.size(), sizeof(Found)));
    std::memcpy(&all.emplace_back(), one.data(), sizeof(Found));
  }
  return all;
}

}  // namespace muster::cli::doctor
