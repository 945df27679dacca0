// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <memory>
#include <thread>

#include "deadline.hpp"
#include "rendezvous/key_server.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::bootstrap {

/// Who says that rank 0 cannot be met, when several hosts notice: the first host, in the step's order, on
/// which a rank came. From its deadline on one rank a host listens at the job's ports, which rank 0 needs no
/// longer, so that those of later hosts can see that it is there. Where the hosts are not known they speak
/// one after the other, and the launcher may end them before.
class Deputies {
 public:
  /// Listens, in a thread of its own, on the first of the ports that is free.
  explicit Deputies(const RendezvousConfig& plan);
  ~Deputies();
  Deputies(const Deputies&) = delete;
  Deputies& operator=(const Deputies&) = delete;

  /// Asks the hosts before this one, then waits a while for those after it to ask. `at_once`: all hosts
  /// noticed at the same moment, and not each when its own deadline passed.
  bool is_to_speak(bool at_once);

 private:
  bool is_there(const std::string& host) const;

  const RendezvousConfig& plan_;
  asio::io_context io_;
  std::unique_ptr<KeyServer> desk_;        // with a seal
  std::unique_ptr<control::AuthenticatingAcceptor> gate_;  // with a key that all know
  std::thread thread_;
};

}  // namespace muster::bootstrap
