// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <memory>

#include "encrypted_frames.hpp"
#include "frames.hpp"
#include "transport/endpoint.hpp"
#include "transport/handshake.hpp"

namespace muster::fuzz {

/// A rank that has the job's key and sends arbitrary messages in correctly encrypted frames. Then it shuts
/// down its side of the connection, unless `keep_open`, and reads until it is disconnected. Everything on the
/// io_context of its peer.
class BrokenRank : public std::enable_shared_from_this<BrokenRank> {
 public:
  BrokenRank(asio::io_context& io, int rank, const control::Key& key, bool keep_open = false)
      : socket_(io), key_(key), keep_open_(keep_open) {
    transcript_.rank = static_cast<std::uint32_t>(rank);
    transcript_.client_key = own_.public_key();
    client_hello_ = control::make_client_hello(transcript_.rank, transcript_.client_key);
  }

  void add(std::span<const std::uint8_t> message) { messages_.emplace_back(message.begin(), message.end()); }

  void start(const control::Endpoint& endpoint) {
    socket_.connect(endpoint);
    asio::error_code cut_off;  // shows in the next read
    asio::write(socket_, asio::buffer(client_hello_), cut_off);
    asio::async_read(socket_, asio::buffer(server_hello_),
                     [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                       if (error) return self->end();
                       std::copy_n(self->server_hello_.begin(), control::public_key_bytes,
                                   self->transcript_.server_key.begin());
                       asio::error_code cut_off;
                       asio::write(self->socket_,
                                   asio::buffer(control::client_mac(self->key_, self->transcript_)), cut_off);
                       self->read_accepted_byte();
                     });
  }
  bool is_authenticated() const { return authenticated_; }
  bool is_over() const { return over_; }

 private:
  void read_accepted_byte() {
    asio::async_read(
        socket_, asio::buffer(received_, 1),
        [self = shared_from_this()](const asio::error_code& error, std::size_t) {
          if (error) return self->end();
          self->authenticated_ = true;
          FrameEncryptor encryptor(control::client_keys(self->key_, self->transcript_, self->own_).send);
          for (const auto& message : self->messages_) encryptor.append(self->sent_, message);
          asio::async_write(self->socket_, asio::buffer(self->sent_),
                            [self](const asio::error_code&, std::size_t) {
                              asio::error_code ignored;
                              if (!self->keep_open_)
                                self->socket_.shutdown(asio::socket_base::shutdown_send, ignored);
                            });
          self->read();
        });
  }
  void read() {
    socket_.async_read_some(asio::buffer(received_),
                            [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                              if (error) return self->end();
                              self->read();
                            });
  }
  void end() {
    over_ = true;
    asio::error_code ignored;
    socket_.close(ignored);
  }

  control::Socket socket_;
  control::Key key_;
  control::KeyPair own_;
  control::HandshakeTranscript transcript_;
  std::array<std::uint8_t, control::client_hello_bytes> client_hello_{};
  std::array<std::uint8_t, control::server_hello_bytes> server_hello_{};
  std::array<std::uint8_t, 4096> received_{};
  std::vector<Bytes> messages_;
  Bytes sent_;
  bool keep_open_;
  bool authenticated_ = false;
  bool over_ = false;
};

}  // namespace muster::fuzz
