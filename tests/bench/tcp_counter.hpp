// SPDX-License-Identifier: Apache-2.0
// For control_plane_scale: a relay in front of rank 0's port that counts the bytes that pass.
#pragma once

#include <array>
#include <asio.hpp>
#include <atomic>
#include <memory>
#include <thread>

#include "simulated_hosts.hpp"

namespace muster::bench {

class TcpCounter {
 public:
  explicit TcpCounter(std::uint16_t target)
      : target_(asio::ip::address_v4::loopback(), target),
        acceptor_(io_, {asio::ip::address_v4::loopback(), 0}) {
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~TcpCounter() {
    io_.stop();
    thread_.join();
  }
  TcpCounter(const TcpCounter&) = delete;
  TcpCounter& operator=(const TcpCounter&) = delete;

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  /// Bytes only.
  Traffic traffic() const { return {0, 0, in_, out_}; }

 private:
  using tcp = asio::ip::tcp;
  struct Pair {
    explicit Pair(tcp::socket from) : rank(std::move(from)), leader(rank.get_executor()) {}
    tcp::socket rank;
    tcp::socket leader;
    std::array<char, 65536> up{};
    std::array<char, 65536> down{};
  };

  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, tcp::socket socket) {
      if (error) return;
      auto const pair = std::make_shared<Pair>(std::move(socket));
      pair->leader.connect(target_);
      forward_data(pair, pair->rank, pair->leader, pair->up, in_);
      forward_data(pair, pair->leader, pair->rank, pair->down, out_);
      accept();
    });
  }
  void forward_data(const std::shared_ptr<Pair>& pair, tcp::socket& from, tcp::socket& to,
                    std::array<char, 65536>& buffer, std::atomic<std::uint64_t>& count) {
    from.async_read_some(asio::buffer(buffer), [this, pair, &from, &to, &buffer, &count](
                                                   const asio::error_code& error, std::size_t bytes) {
      asio::error_code ignored;
      if (error) return void(to.shutdown(tcp::socket::shutdown_send, ignored));
      count += bytes;
      asio::write(to, asio::buffer(buffer, bytes), ignored);
      forward_data(pair, from, to, buffer, count);
    });
  }

  asio::io_context io_;
  tcp::endpoint target_;
  tcp::acceptor acceptor_;
  std::thread thread_;
  std::atomic<std::uint64_t> in_{0};
  std::atomic<std::uint64_t> out_{0};
};

}  // namespace muster::bench
