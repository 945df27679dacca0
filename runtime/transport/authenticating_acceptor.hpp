// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/acceptor.hpp"
#include "transport/handshake.hpp"

namespace muster::control {

/// Accepts ranks: an Acceptor with a handshake, in which each rank proves that it has the job's key. An
/// unauthenticated peer costs no more than its connection: only a client hello of fixed length is kept and
/// parsed. Every call but the constructors and port() on the io_context's thread.
class AuthenticatingAcceptor {
 public:
  /// Called with the authenticated connection of `rank`.
  using OnRank = std::function<void(int rank, Socket socket, const SessionKeys& keys)>;
  using RankFilter = std::function<bool(std::uint32_t rank)>;
  /// Called when a peer claims to be `rank` but does not prove that it has the key.
  using OnAuthFailure = std::function<void(int rank)>;

  /// As Acceptor. @throws Error(ErrorCode::system)
  explicit AuthenticatingAcceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports = {0});
  AuthenticatingAcceptor(asio::io_context& io, const std::string& name);
  AuthenticatingAcceptor(asio::io_context& io, LocalListener& listener);

  std::uint16_t port() const { return acceptor_.port(); }

  /// Accepts ranks for which `rank_filter` returns true. `ranks` sizes the table of pending connections.
  void open(int ranks, RankFilter rank_filter, const Key& key, OnRank on_rank);
  void close();
  /// As Acceptor::stop().
  void stop();
  void set_on_auth_failure(OnAuthFailure on_auth_failure) { on_auth_failure_ = std::move(on_auth_failure); }

 private:
  struct Handshake;

  void read_client_hello(const std::shared_ptr<Handshake>& handshake);
  void send_challenge(const std::shared_ptr<Handshake>& handshake);
  void verify(const std::shared_ptr<Handshake>& handshake);
  void accept(const std::shared_ptr<Handshake>& handshake);

  Acceptor acceptor_;
  RankFilter rank_filter_;
  Key key_{};
  OnRank on_rank_;
  OnAuthFailure on_auth_failure_;
};

}  // namespace muster::control
