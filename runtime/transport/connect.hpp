// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "transport/endpoint.hpp"
#include "transport/handshake.hpp"

namespace muster::control {

/// The endpoints of numeric addresses; skips all other text.
std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& addresses, std::uint16_t port);

/// Connects to the endpoints of one leader side by side, once each, and authenticates as `rank` at the first
/// one where a process has the job's key. Strangers may hold the other ones. Runs the io_context itself.
/// @throws Error with the error of the first endpoint: environment for another key, else system.
std::pair<Socket, SessionKeys> connect_once(asio::io_context& io, int rank,
                                            const std::vector<Endpoint>& endpoints, const Key& key,
                                            const Deadline& deadline);

/// The same, again and again until the deadline. Calls `before_retry`, which may throw, after each failure.
/// @throws Error(ErrorCode::deadline) with the error of the last attempt.
std::pair<Socket, SessionKeys> connect_to_leader(asio::io_context& io, int rank,
                                                 const std::vector<Endpoint>& endpoints, const Key& key,
                                                 const Deadline& deadline,
                                                 const std::function<void()>& before_retry = {});

}  // namespace muster::control
