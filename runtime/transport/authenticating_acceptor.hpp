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

/// Where ranks come in: a door behind which each proves that it has the job's key. Strangers cost no more
/// than their connection: nothing they send is kept or interpreted beyond a greeting of fixed length. Every
/// call but the constructors and port() on the io_context's thread.
class AuthenticatingAcceptor {
 public:
  /// The connection is proven to be this rank's.
  using OnRank = std::function<void(int rank, Socket socket, const SessionKeys& keys)>;
  using Admits = std::function<bool(std::uint32_t rank)>;
  /// Somebody said that it is this rank and did not prove that it has the key.
  using OnUnproven = std::function<void(int rank)>;

  /// As Acceptor. @throws Error(ErrorCode::system)
  explicit AuthenticatingAcceptor(asio::io_context& io, const std::vector<std::uint16_t>& ports = {0});
  AuthenticatingAcceptor(asio::io_context& io, const std::string& name);

  std::uint16_t port() const { return door_.port(); }

  /// Lets ranks in that `admits` says true for, at most `ranks` of them at the same time.
  void open(int ranks, Admits admits, const Key& key, OnRank on_rank);
  void close();
  /// From here on.
  void tell_unproven(OnUnproven on_unproven) { on_unproven_ = std::move(on_unproven); }

 private:
  struct Handshake;

  void greet(const std::shared_ptr<Handshake>& handshake);
  void answer(const std::shared_ptr<Handshake>& handshake);
  void check(const std::shared_ptr<Handshake>& handshake);
  void welcome(const std::shared_ptr<Handshake>& handshake);

  Acceptor door_;
  Admits admits_;
  Key key_{};
  OnRank on_rank_;
  OnUnproven on_unproven_;
};

}  // namespace muster::control
