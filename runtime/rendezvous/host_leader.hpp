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
#include "transport/secure_channel.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::bootstrap {

using Connection = std::pair<control::Socket, control::SessionKeys>;

/// The ranks of one host meet at whichever of them is first to take the host's UNIX socket, and that one
/// alone goes to rank 0: rank 0 then holds one connection a host and opens one credential a host. Every call
/// but join() on the io_context's thread.
class HostLeader {
 public:
  using Hear = std::function<void(int rank, const control::Message& message)>;
  using Lose = std::function<void(int rank, const std::string& reason)>;

  /// Null where another process of the host was first. Nobody is served before open().
  /// `succession`: 0, and one more for each first that was found stopped.
  static std::unique_ptr<HostLeader> try_first(asio::io_context& io, const RendezvousConfig& plan,
                                                int succession = 0);
  /// The first is there but stopped, so that the others cannot go through it.
  static bool first_is_stopped(asio::io_context& io, const RendezvousConfig& plan, int succession);

  /// Hands the job's key to the ranks of the host, and takes them in.
  /// @throws Error(ErrorCode::system)
  void open(const control::Key& key, Hear hear, Lose lose);
  void tell(const control::Message& message);
  /// After what was sent.
  void close();

  /// A rank's side: one attempt to come in where another process was first.
  /// @throws Error(ErrorCode::system) with the reason why not.
  static Connection join(asio::io_context& io, const RendezvousConfig& plan, int succession,
                         const Deadline& deadline);

 private:
  HostLeader(asio::io_context& io, const RendezvousConfig& plan, int succession);
  void admit(int rank, control::Socket socket, const control::SessionKeys& keys);

  asio::io_context& io_;
  std::string job_;
  std::string host_socket_;
  int size_;
  std::unique_ptr<control::Acceptor> door_;  // until it is open
  std::unique_ptr<CredentialCodec> seal_;
  std::unique_ptr<KeyServer> desk_;
  std::unique_ptr<control::AuthenticatingAcceptor> gate_;
  std::vector<std::shared_ptr<control::SecureChannel>> channels_;
  Hear hear_;
  Lose lose_;
};

}  // namespace muster::bootstrap
