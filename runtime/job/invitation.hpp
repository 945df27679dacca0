// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "roster/bootstrap.hpp"
#include "transport/handshake.hpp"

namespace muster::detail {

/// How the ranks of a job that grows, and the processes that join it, find each other: all connect to rank 0.
struct Invitation {
  int rank = 0;                        ///< of the process that has it; rank 0 has one, too
  int size = 0;                        ///< of the grown job
  std::vector<std::string> addresses;  ///< rank 0's, numeric, the most likely first
  std::uint16_t port = 0;              ///< where rank 0 listens
  control::Key key{};                  ///< of this growth

  /// One line of text without spaces at its ends. It has the key: keep it secret.
  std::string encode() const;
  /// @throws Error(ErrorCode::usage) for text that encode() cannot have written.
  static Invitation decode(const std::string& text);
};

/// On rank 0, right before the others connect: a port that is free.
/// @throws Error(ErrorCode::system)
std::uint16_t find_free_port();

/// `interrupted` ends the exchange with an error soon after it returns true.
std::unique_ptr<bootstrap::Bootstrap> make_bootstrap(const Invitation& invitation,
                                                     std::function<bool()> interrupted = {});

}  // namespace muster::detail
