// SPDX-License-Identifier: Apache-2.0
// Job contexts of communicators, for ranks that are threads of one process.
#pragma once

#include "communicator/communicator_group.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"

/// Rank 0 of several ranks. The others never join: a test sees the calls into a library, not their results.
inline std::shared_ptr<muster::detail::JobContext> make_context(
    int ranks, std::chrono::milliseconds timeout = std::chrono::seconds(2)) {
  auto context = std::make_shared<muster::detail::JobContext>();
  context->roster = ControlPlaneFixture::make_roster(ranks);
  context->operation_timeout = timeout;
  return context;
}

inline std::shared_ptr<muster::detail::JobContext> make_single_rank_context(
    std::chrono::milliseconds timeout = std::chrono::seconds(3)) {
  return make_context(1, timeout);
}

inline std::shared_ptr<muster::detail::JobContext> make_connected_context(const ControlPlaneFixture& fixture,
                                                                          int rank,
                                                                          std::chrono::milliseconds timeout) {
  auto context = make_context(static_cast<int>(fixture.options.roster.size()), timeout);
  context->rank = rank;
  context->plane = fixture.planes[static_cast<std::size_t>(rank)];
  return context;
}
