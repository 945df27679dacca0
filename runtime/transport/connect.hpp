// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <string>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "transport/endpoint.hpp"
#include "transport/handshake.hpp"

namespace muster::control {

/// The endpoints of numeric addresses; skips all other text.
std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& addresses, std::uint16_t port);

/// One attempt to connect to a leader and to authenticate as `rank`. Runs the io_context itself.
/// @throws Error(ErrorCode::system) with the reason.
std::pair<Socket, SessionKeys> connect_once(asio::io_context& io, int rank, const Endpoint& endpoint,
                                            const Key& key, const Deadline& deadline);

/// Connects to the leader at one of its endpoints and authenticates as `rank`. Tries the endpoints in turn,
/// until the deadline, and skips a process without the job's key. Runs the io_context itself.
/// @throws Error(ErrorCode::deadline) with the error of the last attempt.
std::pair<Socket, SessionKeys> connect_to_leader(asio::io_context& io, int rank,
                                                 const std::vector<Endpoint>& endpoints, const Key& key,
                                                 const Deadline& deadline);

}  // namespace muster::control
