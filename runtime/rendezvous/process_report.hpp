// SPDX-License-Identifier: Apache-2.0
// How the reporter, the one rank that prints the missing ranks, learns which of the job's processes run on
// the other hosts: one rank of each host scans its host and sends the reporter a process report.
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "launcher/rank_processes.hpp"
#include "protocol/messages.hpp"
#include "rendezvous/key_seal.hpp"
#include "roster/join_record.hpp"
#include "transport/acceptor.hpp"

namespace muster::bootstrap {

using Processes = std::map<int, RankProcess>;

/// `host`: of the processes; empty when the receiver knows it.
protocol::ProcessReport make_process_report(const Processes& processes, const std::string& host = "");
/// Leaves out ranks outside of 0 … size - 1 except `unreadable`. Cuts names and replaces control characters.
Processes checked_processes(const protocol::ProcessReport& report, int size);

/// Receives process reports under PMIx, where no rendezvous connects the ranks. They are sealed like the
/// job's key. The constructor listens.
class ProcessReportServer {
 public:
  /// @throws Error(ErrorCode::system)
  ProcessReportServer() : acceptor_(io_, std::vector<std::uint16_t>{0}) {}

  std::uint16_t port() const { return acceptor_.port(); }

  /// Receives reports of the job `job` until the deadline. Returns them by host.
  std::map<std::string, Processes> collect(KeySeal& seal, const std::string& job, int size,
                                           const Deadline& deadline);

 private:
  asio::io_context io_;
  control::Acceptor acceptor_;
};

/// Sends `processes`, of the host of `self`, to the server of `reporter`; does nothing without one.
void send_process_report(KeySeal& seal, const std::string& job, const JoinRecord& reporter,
                         const JoinRecord& self, const Processes& processes, const Deadline& deadline);

}  // namespace muster::bootstrap
