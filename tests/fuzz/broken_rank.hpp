// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <memory>

#include "frames.hpp"
#include "sealed.hpp"
#include "transport/endpoint.hpp"
#include "transport/handshake.hpp"

namespace muster::fuzz {

/// A rank that has the job's key and then says whatever it likes: the content of frames that are rightly
/// sealed. Then it ends its side of the connection, unless it stays, and reads until it is cut off.
/// Everything on the io_context of what it talks to.
class BrokenRank : public std::enable_shared_from_this<BrokenRank> {
 public:
  BrokenRank(asio::io_context& io, int rank, const control::Key& key, bool stays = false)
      : socket_(io), key_(key), stays_(stays) {
    introduction_.rank = static_cast<std::uint32_t>(rank);
    introduction_.of_rank = control::random_nonce();
    greeting_ = control::make_greeting(introduction_.rank, introduction_.of_rank);
  }

  void add(std::span<const std::uint8_t> message) { messages_.emplace_back(message.begin(), message.end()); }

  void start(const control::Endpoint& endpoint) {
    socket_.connect(endpoint);
    asio::error_code cut_off;  // shows in the next read
    asio::write(socket_, asio::buffer(greeting_), cut_off);
    asio::async_read(
        socket_, asio::buffer(answer_),
        [self = shared_from_this()](const asio::error_code& error, std::size_t) {
          if (error) return self->end();
          std::copy_n(self->answer_.begin(), control::nonce_bytes, self->introduction_.of_leader.begin());
          asio::error_code cut_off;
          asio::write(self->socket_, asio::buffer(control::rank_proof(self->key_, self->introduction_)),
                      cut_off);
          self->wait_for_welcome();
        });
  }
  bool is_in() const { return in_; }
  bool is_over() const { return over_; }

 private:
  void wait_for_welcome() {
    asio::async_read(socket_, asio::buffer(heard_, 1),
                     [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                       if (error) return self->end();
                       self->in_ = true;
                       Sealer sealer(control::rank_keys(self->key_, self->introduction_).send);
                       for (const auto& message : self->messages_) sealer.append(self->said_, message);
                       asio::async_write(self->socket_, asio::buffer(self->said_),
                                         [self](const asio::error_code&, std::size_t) {
                                           asio::error_code ignored;
                                           if (!self->stays_)
                                             self->socket_.shutdown(asio::socket_base::shutdown_send,
                                                                    ignored);
                                         });
                       self->read();
                     });
  }
  void read() {
    socket_.async_read_some(asio::buffer(heard_),
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
  control::HandshakeTranscript introduction_;
  std::array<std::uint8_t, control::greeting_bytes> greeting_{};
  std::array<std::uint8_t, control::answer_bytes> answer_{};
  std::array<std::uint8_t, 4096> heard_{};
  std::vector<Bytes> messages_;
  Bytes said_;
  bool stays_;
  bool in_ = false;
  bool over_ = false;
};

}  // namespace muster::fuzz
