// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <optional>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "rendezvous/host_leader.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/endpoint.hpp"

namespace muster::bootstrap {

/// Connects a rank to rank 0 without PMIx. Not thread-safe; runs the io_context itself.
class Rank0Connector {
 public:
  struct AuthenticatedConnection {
    Connection connection;
    control::Key key;
  };

  Rank0Connector(asio::io_context& io, const RendezvousConfig& config) : io_(io), config_(config) {}

  /// Tries all endpoints once, side by side; nothing when rank 0 answered at none.
  std::optional<AuthenticatedConnection> try_connect(const Deadline& deadline);
  /// Error of the last failed attempt.
  const std::string& last_error() const { return last_error_; }

 private:
  const std::vector<control::Endpoint>& endpoints(const Deadline& deadline);
  std::optional<AuthenticatedConnection> try_endpoints(const std::vector<control::Endpoint>& some,
                                                       const Deadline& deadline);
  AuthenticatedConnection authenticate(const std::vector<control::Endpoint>& endpoints,
                                       const control::Key& key, const Deadline& deadline);

  asio::io_context& io_;
  const RendezvousConfig& config_;
  std::vector<control::Endpoint> endpoints_;
  bool includes_other_hosts_ = false;  // endpoints_ has those of other_hosts too
  int passes_ = 0;
  std::string last_error_ = "it gave no address";
  bool refused_ = false;
};

}  // namespace muster::bootstrap
