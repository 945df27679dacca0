// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/auth_failure_server.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>

#include "log.hpp"
#include "muster/error.hpp"
#include "transport/acceptor.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::array<std::uint8_t, 8> magic{'m', 'u', 's', 't', 'w', 'h', 'y', 1};
constexpr std::size_t query_bytes = magic.size() + 4;
constexpr std::size_t reply_bytes = magic.size() + 1;
constexpr std::size_t extra_auth_connections = 256;

using Query = std::array<std::uint8_t, query_bytes>;
using Reply = std::array<std::uint8_t, reply_bytes>;

Query make_query(int rank) {
  Query query{};
  auto at = std::copy(magic.begin(), magic.end(), query.begin());
  for (int i = 0; i < 4; ++i) *at++ = static_cast<std::uint8_t>(rank >> (8 * i));
  return query;
}

// -1 if the bytes are not a query.
int parse_rank(const Query& query) {
  if (!std::equal(magic.begin(), magic.end(), query.begin())) return -1;
  std::uint32_t rank = 0;
  for (std::size_t i = 4; i > 0; --i) rank = (rank << 8) | query[magic.size() + i - 1];
  return rank <= 0x7fffffffu ? static_cast<int>(rank) : -1;
}

class AuthFailureServer {
 public:
  explicit AuthFailureServer(const RendezvousConfig& config) : config_(config), acceptor_(io_, config.ports) {
    auto const at = std::copy(magic.begin(), magic.end(), reply_.begin());
    *at = static_cast<std::uint8_t>(config.auth_failure);
    if (static_cast<int>(config.host_of.size()) == config.size)
      uninformed_hosts_.insert(config.host_of.begin(), config.host_of.end());
    uninformed_hosts_.erase(config.rank0_host);
    acceptor_.open(static_cast<std::size_t>(config.size) + extra_auth_connections,
                   [this](const std::shared_ptr<control::Acceptor::PendingConnection>& connection) {
                     read(connection);
                   });
  }

  void run(const Deadline& deadline) {
    log::debug("join: {}: answering at port {} that rank 0 cannot authenticate", config_.name,
               acceptor_.port());
    bool const hosts_are_known = !uninformed_hosts_.empty();
    while (!deadline.passed() && !(hosts_are_known && uninformed_hosts_.empty()))
      io_.run_one_until(deadline.when());
    acceptor_.close();
    io_.restart();
    io_.run();  // runs the cancelled handlers
  }

 private:
  void read(const std::shared_ptr<control::Acceptor::PendingConnection>& connection) {
    auto const query = std::make_shared<Query>();
    asio::async_read(connection->socket, asio::buffer(*query),
                     [this, connection, query](const asio::error_code& error, std::size_t) {
                       if (connection->released) return;
                       int const rank = error ? -1 : parse_rank(*query);
                       if (rank < 1 || rank >= config_.size) return acceptor_.drop(connection);
                       answer(connection, rank);
                     });
  }

  void answer(const std::shared_ptr<control::Acceptor::PendingConnection>& connection, int rank) {
    asio::async_write(connection->socket, asio::buffer(reply_),
                      [this, connection, rank](const asio::error_code& error, std::size_t) {
                        if (connection->released) return;
                        acceptor_.drop(connection);
                        auto const index = static_cast<std::size_t>(rank);
                        if (!error && index < config_.host_of.size())
                          uninformed_hosts_.erase(config_.host_of[index]);
                      });
  }

  const RendezvousConfig& config_;
  asio::io_context io_;
  control::Acceptor acceptor_;
  Reply reply_{};
  std::set<std::string> uninformed_hosts_;  // hosts from which no rank has queried yet
};

}  // namespace

void serve_auth_failure(const RendezvousConfig& config, const Deadline& deadline) {
  try {
    AuthFailureServer(config).run(deadline);
  } catch (const Error& error) {
    log::debug("join: {}: {}", config.name, error.what());  // other hosts then report the failure too
  }
}

AuthFailure query_auth_failure(asio::io_context& io, const control::Endpoint& endpoint, int rank,
                               const Deadline& deadline) {
  auto const query = make_query(rank);
  Reply reply{};
  bool received = false;
  control::Socket socket(io);
  socket.async_connect(endpoint, [&](const asio::error_code& error) {
    if (error || !control::is_own_user(socket)) return;
    asio::async_write(socket, asio::buffer(query), [&](const asio::error_code& failed, std::size_t) {
      if (failed) return;
      asio::async_read(socket, asio::buffer(reply),
                       [&](const asio::error_code& cut, std::size_t) { received = !cut; });
    });
  });
  io.restart();
  io.run_until(deadline.when());
  asio::error_code ignored;
  socket.close(ignored);
  io.restart();
  io.run();  // runs the cancelled handlers
  if (!received || !std::equal(magic.begin(), magic.end(), reply.begin())) return AuthFailure::none;
  auto const auth_failure = static_cast<AuthFailure>(reply.back());
  return auth_failure == AuthFailure::no_munge_library || auth_failure == AuthFailure::no_munged
             ? auth_failure
             : AuthFailure::none;
}

}  // namespace muster::bootstrap
