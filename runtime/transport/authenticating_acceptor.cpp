// SPDX-License-Identifier: Apache-2.0
#include "transport/authenticating_acceptor.hpp"

#include <algorithm>
#include <optional>

#include "muster/error.hpp"

namespace muster::control {
namespace {

constexpr std::size_t max_unauthenticated = 256;
constexpr std::uint8_t accepted_byte = 1;

}  // namespace

struct AuthenticatingAcceptor::Handshake {
  explicit Handshake(std::shared_ptr<Acceptor::PendingConnection> with) : connection(std::move(with)) {}
  std::shared_ptr<Acceptor::PendingConnection> connection;
  std::optional<KeyPair> own;
  HandshakeTranscript transcript;
  std::array<std::uint8_t, client_hello_bytes> client_hello{};
  std::array<std::uint8_t, server_hello_bytes> server_hello{};
  Mac mac{};
  std::optional<SessionKeys> keys;
};

AuthenticatingAcceptor::AuthenticatingAcceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports)
    : acceptor_(io, ports) {}
AuthenticatingAcceptor::AuthenticatingAcceptor(asio::io_context& io, const std::string& name)
    : acceptor_(io, name) {}
AuthenticatingAcceptor::AuthenticatingAcceptor(asio::io_context& io, LocalListener& listener)
    : acceptor_(io, listener) {}

void AuthenticatingAcceptor::open(int ranks, RankFilter rank_filter, const Key& key, OnRank on_rank) {
  rank_filter_ = std::move(rank_filter);
  key_ = key;
  on_rank_ = std::move(on_rank);
  acceptor_.open(static_cast<std::size_t>(ranks) + max_unauthenticated,
                 [this](const std::shared_ptr<Acceptor::PendingConnection>& connection) {
                   read_client_hello(std::make_shared<Handshake>(connection));
                 });
}

void AuthenticatingAcceptor::close() { acceptor_.close(); }

void AuthenticatingAcceptor::stop() { acceptor_.stop(); }

void AuthenticatingAcceptor::read_client_hello(const std::shared_ptr<Handshake>& handshake) {
  asio::async_read(handshake->connection->socket, asio::buffer(handshake->client_hello),
                   [this, handshake](const asio::error_code& error, std::size_t) {
                     if (handshake->connection->released) return;
                     auto const transcript =
                         error ? std::nullopt : parse_client_hello(handshake->client_hello);
                     if (!transcript || !rank_filter_(transcript->rank))
                       return acceptor_.drop(handshake->connection);
                     handshake->transcript = *transcript;
                     send_challenge(handshake);
                   });
}

void AuthenticatingAcceptor::send_challenge(const std::shared_ptr<Handshake>& handshake) {
  auto& transcript = handshake->transcript;
  transcript.server_key = handshake->own.emplace().public_key();
  auto const mac = server_mac(key_, transcript);
  auto const at =
      std::copy(transcript.server_key.begin(), transcript.server_key.end(), handshake->server_hello.begin());
  std::copy(mac.begin(), mac.end(), at);
  asio::async_write(handshake->connection->socket, asio::buffer(handshake->server_hello),
                    [this, handshake](const asio::error_code& error, std::size_t) {
                      if (handshake->connection->released) return;
                      if (error) return acceptor_.drop(handshake->connection);
                      verify(handshake);
                    });
}

void AuthenticatingAcceptor::verify(const std::shared_ptr<Handshake>& handshake) {
  asio::async_read(handshake->connection->socket, asio::buffer(handshake->mac),
                   [this, handshake](const asio::error_code& error, std::size_t) {
                     if (handshake->connection->released) return;
                     if (error || !equal(handshake->mac, client_mac(key_, handshake->transcript))) {
                       if (on_auth_failure_) on_auth_failure_(static_cast<int>(handshake->transcript.rank));
                       return acceptor_.drop(handshake->connection);
                     }
                     try {
                       handshake->keys = server_keys(key_, handshake->transcript, *handshake->own);
                       handshake->own.reset();
                     } catch (const Error&) {
                       return acceptor_.drop(handshake->connection);
                     }
                     accept(handshake);
                   });
}

// Before this byte a rank does not know that it is accepted, and retries when it is disconnected.
void AuthenticatingAcceptor::accept(const std::shared_ptr<Handshake>& handshake) {
  acceptor_.release(*handshake->connection);
  asio::async_write(handshake->connection->socket, asio::buffer(&accepted_byte, 1),
                    [this, handshake](const asio::error_code& error, std::size_t) {
                      if (error || !acceptor_.is_open()) return;
                      on_rank_(static_cast<int>(handshake->transcript.rank),
                               std::move(handshake->connection->socket), *handshake->keys);
                    });
}

}  // namespace muster::control
