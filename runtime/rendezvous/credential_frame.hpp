// SPDX-License-Identifier: Apache-2.0
// A credential on a connection: magic, length, credential.
#pragma once

#include <array>
#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/endpoint.hpp"

namespace muster::bootstrap {

struct CredentialFrame {
  std::array<std::uint8_t, 12> header{};
  std::vector<std::uint8_t> credential;
};

/// The bytes of a frame with this credential.
std::vector<std::uint8_t> make_frame(const std::vector<std::uint8_t>& credential);

/// Reads a frame and calls `done` with the error text, empty on success. The socket must live until then.
void read_frame(control::Socket& socket, const std::shared_ptr<CredentialFrame>& frame, std::size_t max_bytes,
                std::function<void(const std::string& error)> done);

}  // namespace muster::bootstrap
