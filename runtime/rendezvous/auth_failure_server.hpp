// SPDX-License-Identifier: Apache-2.0
// How a rank 0 that cannot authenticate itself reports the reason, unauthenticated:
//
//   rank → rank 0   magic, rank
//   rank 0 → rank   magic, AuthFailure
#pragma once

#include <asio.hpp>

#include "deadline.hpp"
#include "rendezvous/auth_failure.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/endpoint.hpp"

namespace muster::bootstrap {

/// Rank 0's part of the rendezvous when it cannot authenticate itself: sends the reason to every process that
/// queries at the config's ports, until a rank of each other host has queried or the deadline has passed.
/// Rank 0 then prints the job's one line.
void serve_auth_failure(const RendezvousConfig& config, const Deadline& deadline);

/// Queries one endpoint for rank 0's reason; AuthFailure::none when nothing answers.
AuthFailure query_auth_failure(asio::io_context& io, const control::Endpoint& endpoint, int rank,
                               const Deadline& deadline);

}  // namespace muster::bootstrap
