// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/key_server.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/authenticating_acceptor.hpp"
#include "transport/secure_channel.hpp"

namespace muster::bootstrap {

using Connection = std::pair<control::Socket, control::SessionKeys>;

/// The first rank of a host that binds the host's UNIX socket is its leader. The host's other ranks connect
/// to it, and it alone connects to rank 0, so rank 0 holds one connection and decodes one credential per
/// host. All calls but join() on the io_context's thread.
class HostLeader {
 public:
  using OnMessage = std::function<void(int rank, const control::Message& message)>;
  using OnDisconnect = std::function<void(int rank, const std::string& reason)>;

  /// Null when another process of the host leads. No rank is served before open().
  static std::unique_ptr<HostLeader> try_become_leader(asio::io_context& io, const RendezvousConfig& config);
  /// False when the process that holds the host's socket is stopped or belongs to another user, so that no
  /// rank can connect through it.
  static bool leader_is_usable(asio::io_context& io, const RendezvousConfig& config);

  /// Sends the job's key to the ranks of the host and accepts their connections.
  /// @throws Error(ErrorCode::system)
  void open(const control::Key& key, OnMessage on_message, OnDisconnect on_disconnect);
  void broadcast(const control::Message& message);
  /// Sends what is queued, then closes the connections.
  void close();

  /// A rank's side: one attempt to connect to the leader.
  /// @throws Error(ErrorCode::system) with the reason.
  static Connection join(asio::io_context& io, const RendezvousConfig& config, const Deadline& deadline);

 private:
  HostLeader(asio::io_context& io, const RendezvousConfig& config);
  void admit(int rank, control::Socket socket, const control::SessionKeys& keys);

  asio::io_context& io_;
  std::string job_;
  std::string host_socket_;
  int size_;
  std::unique_ptr<control::Acceptor> key_acceptor_;  // until open()
  std::unique_ptr<CredentialCodec> codec_;
  std::unique_ptr<KeyServer> key_server_;
  std::unique_ptr<control::AuthenticatingAcceptor> rank_acceptor_;
  std::vector<std::shared_ptr<control::SecureChannel>> channels_;
  OnMessage on_message_;
  OnDisconnect on_disconnect_;
};

}  // namespace muster::bootstrap
