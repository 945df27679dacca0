// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/endpoint.hpp"

namespace muster::fuzz {

/// A client that sends all its bytes, then nothing, and reads until it is disconnected. On the same
/// io_context as its server; run it with run_until_cut_off().
class Client {
 public:
  Client(asio::io_context& io, const control::Endpoint& endpoint, std::span<const std::uint8_t> bytes)
      : socket_(io), bytes_(bytes.begin(), bytes.end()) {
    socket_.connect(endpoint);
    asio::async_write(socket_, asio::buffer(bytes_), [this](const asio::error_code&, std::size_t) {
      asio::error_code ignored;
      socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    });
    read();
  }
  bool is_over() const { return over_; }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(received_), [this](const asio::error_code& error, std::size_t) {
      if (!error) return read();
      over_ = true;
    });
  }

  control::Socket socket_;
  std::vector<std::uint8_t> bytes_;
  std::array<std::uint8_t, 512> received_{};
  bool over_ = false;
};

/// Runs handlers until the client is disconnected. A server that does not disconnect it at the end of the
/// input is a bug.
inline void run_until_cut_off(asio::io_context& io, const Client& client) {
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!client.is_over()) {
    if (std::chrono::steady_clock::now() > until) std::abort();
    io.restart();
    io.run_one_for(std::chrono::milliseconds(100));
  }
}

}  // namespace muster::fuzz
