// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/message.hpp"
#include "recovery/recovery_config.hpp"
#include "recovery/survivor_network.hpp"

namespace muster::control {

/// The lowest survivor's part of a recovery: accepts the other survivors, watches whether missing ranks still
/// run, and closes the list.
class SurvivorCoordinator {
 public:
  SurvivorCoordinator(SurvivorNetwork& network, RecoveryConfig config, const std::vector<std::uint8_t>& mine);
  SurvivorPayloads run(const Deadline& deadline);

 private:
  void admit(int rank, const std::shared_ptr<Channel>& channel);
  void on_message(int rank, const Message& message);
  void watch(int rank);
  bool complete() const;
  bool has_quorum() const;
  std::string describe_missing() const;
  void send_and_close(const Message& message);

  SurvivorNetwork& network_;
  RecoveryConfig config_;
  SurvivorPayloads payloads_;
  std::map<int, std::shared_ptr<Channel>> channels_;
  bool done_ = false;
};

}  // namespace muster::control
