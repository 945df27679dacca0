// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "encrypted_frames.hpp"
#include "frames.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::fuzz {

/// A broken leader: accepts any rank with the key, sends the given messages, then nothing. Runs on a thread
/// of its own, for code that blocks the calling thread.
class BrokenLeader {
 public:
  BrokenLeader(const control::Key& key, std::string_view purpose)
      : local_(io_, control::local_name(key)), far_(io_) {
    for (auto* const acceptor : {&local_, &far_})
      acceptor->open(
          4, [](std::uint32_t) { return true; }, control::purpose_key(key, purpose, 0),
          [this](int, control::Socket socket, const control::SessionKeys& keys) {
            serve(std::move(socket), keys);
          });
    std::thread([this] { io_.run(); }).detach();
  }
  std::uint16_t port() const { return far_.port(); }

  /// Messages for the next connection.
  void set_messages(std::vector<Bytes> messages) {
    std::lock_guard const lock(mutex_);
    messages_ = std::move(messages);
  }

 private:
  void serve(control::Socket socket, const control::SessionKeys& keys) {
    auto const connection = std::make_shared<control::Socket>(std::move(socket));
    auto const bytes = std::make_shared<Bytes>();
    FrameEncryptor encryptor(keys.send);
    {
      std::lock_guard const lock(mutex_);
      for (const auto& message : messages_) encryptor.append(*bytes, message);
    }
    asio::async_write(*connection, asio::buffer(*bytes),
                      [this, connection, bytes](const asio::error_code&, std::size_t) {
                        asio::error_code ignored;
                        connection->shutdown(asio::socket_base::shutdown_send, ignored);
                        read(connection);
                      });
  }
  void read(const std::shared_ptr<control::Socket>& connection) {
    auto const received = std::make_shared<std::array<std::uint8_t, 1024>>();
    connection->async_read_some(asio::buffer(*received),
                                [this, connection, received](const asio::error_code& error, std::size_t) {
                                  if (!error) read(connection);
                                });
  }

  asio::io_context io_;
  control::AuthenticatingAcceptor local_;
  control::AuthenticatingAcceptor far_;
  std::mutex mutex_;
  std::vector<Bytes> messages_;
};

}  // namespace muster::fuzz
