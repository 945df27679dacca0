// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "control_plane/control_plane_options.hpp"
#include "deadline.hpp"
#include "transport/endpoint.hpp"

namespace muster::control {

/// Connects a rank other than 0 to its leader: a host leader to rank 0 at one of `addresses`, with `key`;
/// another rank to its host leader over a UNIX socket, with the host's key. Waits and throws as
/// connect_to_leader() does.
/// @throws EndedRankError when `options` say to watch ended ranks, and the host leader or rank 0 has ended.
std::pair<Socket, SessionKeys> connect_to_own_leader(asio::io_context& io, int rank,
                                                     const ControlPlaneOptions& options,
                                                     const std::vector<std::string>& addresses,
                                                     std::uint16_t port, const Key& key,
                                                     const Deadline& deadline);

}  // namespace muster::control
