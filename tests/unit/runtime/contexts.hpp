// SPDX-License-Identifier: Apache-2.0
// What a communicator knows of its job, for ranks that live in one process.
#pragma once

#include "communicator/communicator_group.hpp"
#include "control_plane_fixture.hpp"

/// Rank 0 of several, the others of which never come: what a library is told can be seen, not what comes of
/// it.
inline std::shared_ptr<muster::detail::JobContext> context_among(
    int ranks, std::chrono::milliseconds timeout = std::chrono::seconds(2)) {
  auto context = std::make_shared<muster::detail::JobContext>();
  context->roster = Star::roster_of(ranks);
  context->operation_timeout = timeout;
  return context;
}

inline std::shared_ptr<muster::detail::JobContext> context_alone(
    std::chrono::milliseconds timeout = std::chrono::seconds(3)) {
  return context_among(1, timeout);
}

inline std::shared_ptr<muster::detail::JobContext> context_of(const Star& star, int rank,
                                                              std::chrono::milliseconds timeout) {
  auto context = context_among(static_cast<int>(star.options.roster.size()), timeout);
  context->rank = rank;
  context->plane = star.planes[static_cast<std::size_t>(rank)];
  return context;
}
