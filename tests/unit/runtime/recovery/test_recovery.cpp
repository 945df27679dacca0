// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "catch.hpp"
#include "recovery/recovery.hpp"
#include "soon.hpp"

using namespace muster;
using namespace muster::control;

namespace {

// A network on which no other process answers.
class SilentNetwork final : public SurvivorNetwork {
 public:
  Connection connect(int rank, const Deadline&) override {
    tried.push_back(rank);
    return {nullptr, ProcessState::unknown};
  }
  void accept(OnConnect) override {}
  void watch(int rank, OnState on_state) override {
    watched.push_back(rank);
    on_state(ProcessState::unknown);
  }
  void unwatch(int) override {}
  void run_until(Clock::time_point, const std::function<bool()>& done) override { CHECK(done()); }
  void close() override {}
  void flush() override {}

  std::vector<int> tried, watched;
};

}  // namespace

TEST_CASE("in a recovery, an unreachable host is tried once") {
  RecoveryConfig config;
  config.rank = 3;
  for (int rank = 0; rank < 4; ++rank) {
    config.names.push_back("rank " + std::to_string(rank));
    config.hosts.push_back(rank < 3 ? "n0" : "n1");
  }
  config.silent = {0};
  SilentNetwork network;
  // One rank of four is too few.
  CHECK_THROWS_AS(run_recovery(network, config, {}, Deadline(soon)), Error);
  CHECK(network.tried == std::vector{1});
  CHECK(network.watched.empty());
}
