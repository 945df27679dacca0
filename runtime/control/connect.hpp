// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <string>
#include <utility>
#include <vector>

#include "control/handshake.hpp"
#include "deadline.hpp"

namespace muster::control {

/// Connects to rank 0 at one of its addresses, in turn and again until the deadline, and proves to it that
/// this is `rank`. Who answers there without the job's key is taken for a stranger and passed over.
/// @throws Error(Fault::deadline), with the last reason.
std::pair<asio::ip::tcp::socket, SessionKeys> connect_to_leader(asio::io_context& io, int rank,
                                                                const std::vector<std::string>& addresses,
                                                                std::uint16_t port, const Key& key,
                                                                const Deadline& deadline);

}  // namespace muster::control
