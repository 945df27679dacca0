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

/// The endpoints of numeric addresses; those that are none are left out.
std::vector<Endpoint> endpoints_of(const std::vector<std::string>& addresses, std::uint16_t port);

/// One attempt to connect to a leader and to prove to it that this is `rank`. Runs the io_context itself.
/// @throws Error(ErrorCode::system) with the reason why not.
std::pair<Socket, SessionKeys> connect_once(asio::io_context& io, int rank, const Endpoint& endpoint,
                                            const Key& key, const Deadline& deadline);

/// Connects to the leader at one of its endpoints, in turn and again until the deadline, and proves to it
/// that this is `rank`. Who answers there without the job's key is taken for a stranger and passed over. Runs
/// the io_context itself.
/// @throws Error(ErrorCode::deadline), with the last reason.
std::pair<Socket, SessionKeys> connect_to_leader(asio::io_context& io, int rank,
                                                 const std::vector<Endpoint>& endpoints, const Key& key,
                                                 const Deadline& deadline);

}  // namespace muster::control
