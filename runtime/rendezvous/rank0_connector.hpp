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

/// The endpoints of a host under its ports; none, with the reason in `why`, where its name has no address by
/// the deadline.
std::vector<control::Endpoint> endpoints_at(const std::string& host, const std::vector<std::uint16_t>& ports,
                                            const Deadline& deadline, std::string& why);

/// A rank's way to rank 0, without PMIx. Not thread-safe; runs the io_context itself.
class Rank0Connector {
 public:
  struct Arrival {
    Connection connection;
    control::Key key;
  };

  Rank0Connector(asio::io_context& io, const RendezvousConfig& plan) : io_(io), plan_(plan) {}

  /// Tries each endpoint once; nothing when rank 0 was not at any.
  std::optional<Arrival> once(const Deadline& deadline);
  /// Why not, of the last one.
  const std::string& last() const { return last_; }
  /// Tells rank 0's desk, without proof, why this rank cannot take part; false when nobody listens.
  bool decline(AuthFailure obstacle, const Deadline& deadline);
  /// Why rank 0 cannot lead, as somebody on its host says without proof; none when nobody does.
  AuthFailure obstacle_of_rank_0(const Deadline& deadline);

 private:
  const std::vector<control::Endpoint>& endpoints(const Deadline& deadline);
  std::optional<Arrival> try_at(const control::Endpoint& endpoint, const Deadline& deadline);

  asio::io_context& io_;
  const RendezvousConfig& plan_;
  std::vector<control::Endpoint> endpoints_;
  bool everywhere_ = false;  // the other hosts' endpoints are among them
  int passes_ = 0;
  std::string last_ = "it gave no address";
};

}  // namespace muster::bootstrap
