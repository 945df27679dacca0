// SPDX-License-Identifier: Apache-2.0
#include "control/gate.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <chrono>

#include "log.hpp"
#include "muster/error.hpp"

namespace muster::control {
namespace {

using asio::ip::tcp;

constexpr std::chrono::seconds proof_time{3};
constexpr std::size_t strangers_kept = 256;
constexpr std::uint8_t welcome_byte = 1;

}  // namespace

struct Gate::Visitor {
  explicit Visitor(tcp::socket connected) : socket(std::move(connected)), timer(socket.get_executor()) {}
  tcp::socket socket;
  asio::steady_timer timer;
  Introduction introduction;
  std::array<std::uint8_t, greeting_bytes> greeting{};
  std::array<std::uint8_t, answer_bytes> answer{};
  Proof proof{};
  std::size_t place = 0;
  bool gone = false;
};

Gate::Gate(asio::io_context& io) : io_(io), acceptor_(io), pause_(io) {
  asio::error_code error;
  try {
    listen(tcp::v6());
  } catch (const asio::system_error&) {
    acceptor_.close(error);
    try {
      listen(tcp::v4());  // a kernel without IPv6
    } catch (const asio::system_error& refused) {
      throw Error(Fault::system,
                  fmt::format("rank 0 cannot listen for the other ranks: {}", refused.code().message()));
    }
  }
}

Gate::~Gate() = default;

void Gate::listen(tcp protocol) {
  acceptor_.open(protocol);
  if (protocol == tcp::v6()) acceptor_.set_option(asio::ip::v6_only(false));
  acceptor_.bind(tcp::endpoint(protocol, 0));
  acceptor_.listen(asio::socket_base::max_listen_connections);
  port_ = acceptor_.local_endpoint().port();
}

void Gate::open(int ranks, const Key& key, OnRank on_rank) {
  ranks_ = ranks;
  visitor_limit_ = static_cast<std::size_t>(ranks) + strangers_kept;
  key_ = key;
  on_rank_ = std::move(on_rank);
  accept();
}

void Gate::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  while (!visitors_.empty()) drop(visitors_.front());
}

void Gate::accept() {
  acceptor_.async_accept([this](const asio::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (error) {
      // Out of descriptors, most likely: a stranger makes room, and a short rest keeps this from
      // spinning.
      if (!visitors_.empty()) drop_any();
      pause_.expires_after(std::chrono::milliseconds(20));
      pause_.async_wait([this](const asio::error_code& stopped) {
        if (!stopped) accept();
      });
      return;
    }
    if (visitors_.size() >= visitor_limit_) drop_any();
    auto visitor = std::make_shared<Visitor>(std::move(socket));
    visitor->place = visitors_.size();
    visitors_.push_back(visitor);
    greet(visitor);
    accept();
  });
}

void Gate::greet(const std::shared_ptr<Visitor>& visitor) {
  visitor->timer.expires_after(proof_time);
  visitor->timer.async_wait([this, visitor](const asio::error_code& error) {
    if (!error && !visitor->gone) drop(visitor);
  });
  asio::async_read(visitor->socket, asio::buffer(visitor->greeting),
                   [this, visitor](const asio::error_code& error, std::size_t) {
                     if (visitor->gone) return;
                     auto const introduction = error ? std::nullopt : read_greeting(visitor->greeting);
                     if (!introduction || introduction->rank < 1 ||
                         introduction->rank >= static_cast<std::uint32_t>(ranks_))
                       return drop(visitor);
                     visitor->introduction = *introduction;
                     answer(visitor);
                   });
}

void Gate::answer(const std::shared_ptr<Visitor>& visitor) {
  visitor->introduction.of_leader = random_nonce();
  auto const proof = leader_proof(key_, visitor->introduction);
  auto const at = std::copy(visitor->introduction.of_leader.begin(), visitor->introduction.of_leader.end(),
                            visitor->answer.begin());
  std::copy(proof.begin(), proof.end(), at);
  asio::async_write(visitor->socket, asio::buffer(visitor->answer),
                    [this, visitor](const asio::error_code& error, std::size_t) {
                      if (visitor->gone) return;
                      if (error) return drop(visitor);
                      check(visitor);
                    });
}

void Gate::check(const std::shared_ptr<Visitor>& visitor) {
  asio::async_read(visitor->socket, asio::buffer(visitor->proof),
                   [this, visitor](const asio::error_code& error, std::size_t) {
                     if (visitor->gone) return;
                     if (error || !equal(visitor->proof, rank_proof(key_, visitor->introduction)))
                       return drop(visitor);
                     welcome(visitor);
                   });
}

// Until the welcome a rank does not know that it is in, and comes again when it is cut off.
void Gate::welcome(const std::shared_ptr<Visitor>& visitor) {
  forget(*visitor);
  asio::async_write(visitor->socket, asio::buffer(&welcome_byte, 1),
                    [this, visitor](const asio::error_code& error, std::size_t) {
                      if (error || !acceptor_.is_open()) return;
                      on_rank_(static_cast<int>(visitor->introduction.rank), std::move(visitor->socket),
                               leader_keys(key_, visitor->introduction));
                    });
}

void Gate::forget(Visitor& visitor) {
  visitor.gone = true;
  visitor.timer.cancel();
  auto const place = visitor.place;
  if (place + 1 != visitors_.size()) {
    visitors_[place] = std::move(visitors_.back());
    visitors_[place]->place = place;
  }
  visitors_.pop_back();
}

void Gate::drop(const std::shared_ptr<Visitor>& given) {
  auto const visitor = given;  // `given` may be the list's own
  if (visitor->gone) return;
  forget(*visitor);
  asio::error_code ignored;
  visitor->socket.close(ignored);
}

void Gate::drop_any() { drop(visitors_[randombytes_uniform(static_cast<std::uint32_t>(visitors_.size()))]); }

}  // namespace muster::control
