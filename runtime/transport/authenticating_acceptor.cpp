// SPDX-License-Identifier: Apache-2.0
#include "transport/authenticating_acceptor.hpp"

#include <algorithm>

namespace muster::control {
namespace {

constexpr std::size_t strangers_kept = 256;
constexpr std::uint8_t welcome_byte = 1;

}  // namespace

struct AuthenticatingAcceptor::Handshake {
  explicit Handshake(std::shared_ptr<Acceptor::PendingConnection> with) : visitor(std::move(with)) {}
  std::shared_ptr<Acceptor::PendingConnection> visitor;
  HandshakeTranscript introduction;
  std::array<std::uint8_t, greeting_bytes> greeting{};
  std::array<std::uint8_t, answer_bytes> answer{};
  Mac proof{};
};

AuthenticatingAcceptor::AuthenticatingAcceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports) : door_(io, ports) {}
AuthenticatingAcceptor::AuthenticatingAcceptor(asio::io_context& io, const std::string& name) : door_(io, name) {}

void AuthenticatingAcceptor::open(int ranks, Admits admits, const Key& key, OnRank on_rank) {
  admits_ = std::move(admits);
  key_ = key;
  on_rank_ = std::move(on_rank);
  door_.open(
      static_cast<std::size_t>(ranks) + strangers_kept,
      [this](const std::shared_ptr<Acceptor::PendingConnection>& visitor) { greet(std::make_shared<Handshake>(visitor)); });
}

void AuthenticatingAcceptor::close() { door_.close(); }

void AuthenticatingAcceptor::greet(const std::shared_ptr<Handshake>& handshake) {
  asio::async_read(handshake->visitor->socket, asio::buffer(handshake->greeting),
                   [this, handshake](const asio::error_code& error, std::size_t) {
                     if (handshake->visitor->gone) return;
                     auto const introduction = error ? std::nullopt : read_greeting(handshake->greeting);
                     if (!introduction || !admits_(introduction->rank)) return door_.drop(handshake->visitor);
                     handshake->introduction = *introduction;
                     answer(handshake);
                   });
}

void AuthenticatingAcceptor::answer(const std::shared_ptr<Handshake>& handshake) {
  auto& introduction = handshake->introduction;
  introduction.of_leader = random_nonce();
  auto const proof = leader_proof(key_, introduction);
  auto const at =
      std::copy(introduction.of_leader.begin(), introduction.of_leader.end(), handshake->answer.begin());
  std::copy(proof.begin(), proof.end(), at);
  asio::async_write(handshake->visitor->socket, asio::buffer(handshake->answer),
                    [this, handshake](const asio::error_code& error, std::size_t) {
                      if (handshake->visitor->gone) return;
                      if (error) return door_.drop(handshake->visitor);
                      check(handshake);
                    });
}

void AuthenticatingAcceptor::check(const std::shared_ptr<Handshake>& handshake) {
  asio::async_read(handshake->visitor->socket, asio::buffer(handshake->proof),
                   [this, handshake](const asio::error_code& error, std::size_t) {
                     if (handshake->visitor->gone) return;
                     if (error || !equal(handshake->proof, rank_proof(key_, handshake->introduction))) {
                       if (on_unproven_) on_unproven_(static_cast<int>(handshake->introduction.rank));
                       return door_.drop(handshake->visitor);
                     }
                     welcome(handshake);
                   });
}

// Until the welcome a rank does not know that it is in, and comes again when it is cut off.
void AuthenticatingAcceptor::welcome(const std::shared_ptr<Handshake>& handshake) {
  door_.forget(*handshake->visitor);
  asio::async_write(handshake->visitor->socket, asio::buffer(&welcome_byte, 1),
                    [this, handshake](const asio::error_code& error, std::size_t) {
                      if (error || !door_.is_open()) return;
                      on_rank_(static_cast<int>(handshake->introduction.rank),
                               std::move(handshake->visitor->socket),
                               leader_keys(key_, handshake->introduction));
                    });
}

}  // namespace muster::control
