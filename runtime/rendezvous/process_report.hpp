// SPDX-License-Identifier: Apache-2.0
// How the one rank that names the missing learns what runs on hosts that are not its own: of each host one
// rank that came looks, and says so.
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "launcher/rank_processes.hpp"
#include "roster/join_record.hpp"
#include "transport/secure_channel.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::bootstrap {

using Processes = std::map<int, RankProcess>;

/// {"is": "seen", "processes": …}
control::Message testimony_of(const Processes& processes);
/// @throws when the message is none. Ranks outside of 0 … size - 1, but for `unreadable`, are left out, names
/// cut and cleaned.
Processes read_testimony(const control::Message& message, int size);

/// Where ranks testify that no meeting connects to each other, under PMIx. Listens from the constructor on.
class ProcessReportServer {
 public:
  /// @throws Error(ErrorCode::system)
  explicit ProcessReportServer(int size);

  std::uint16_t port() const { return gate_.port(); }
  const control::Key& key() const { return key_; }

  /// What the ranks say until the deadline, by the host that they say it of.
  std::map<std::string, Processes> hear(const Deadline& deadline);

 private:
  int size_;
  control::Key key_;
  asio::io_context io_;
  control::AuthenticatingAcceptor gate_;
  std::vector<std::shared_ptr<control::SecureChannel>> channels_;
  std::map<std::string, Processes> seen_;
};

/// Tells the stand of `speaker` what `self` sees on its host. Nothing happens when nobody listens there.
void testify(const JoinRecord& speaker, const JoinRecord& self, const Processes& processes, const Deadline& deadline);

}  // namespace muster::bootstrap
