// SPDX-License-Identifier: Apache-2.0
// How a rank 0 that cannot authenticate itself says so, without proof:
//
//   rank → rank 0   magic, rank
//   rank 0 → rank   magic, obstacle
#pragma once

#include <asio.hpp>

#include "deadline.hpp"
#include "rendezvous/rendezvous.hpp"
#include "rendezvous/auth_failure.hpp"
#include "transport/endpoint.hpp"

namespace muster::bootstrap {

/// Rank 0's part of a meeting that it cannot lead: tells whoever asks at the plan's ports why, until a rank
/// of each other host has asked or the deadline passed. The job's one line is then rank 0's.
void serve_auth_failure(const RendezvousConfig& plan, const Deadline& deadline);

/// Asks at one endpoint why nobody leads the meeting there; none when nobody says so.
AuthFailure query_auth_failure(asio::io_context& io, const control::Endpoint& endpoint, int rank, const Deadline& deadline);

}  // namespace muster::bootstrap
