// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "protocol/messages.hpp"
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

// A coordinator that drops the first connection, because it was slow, and answers on the next one.
class DroppingNetwork final : public SurvivorNetwork {
 public:
  Connection connect(int, const Deadline&) override {
    return {std::make_shared<Line>(++connections > 1), ProcessState::running};
  }
  void accept(OnConnect) override {}
  void watch(int, OnState on_state) override { on_state(ProcessState::unknown); }
  void unwatch(int) override {}
  void run_until(Clock::time_point, const std::function<bool()>& done) override { pauses += done() ? 0 : 1; }
  void close() override {}
  void flush() override {}

  int connections = 0, pauses = 0;

 private:
  struct Line final : Channel {
    explicit Line(bool will_answer) : answers(will_answer) {}
    void start(OnMessage on_message, OnDisconnect on_disconnect, std::chrono::milliseconds) override {
      if (answers) return on_message(encode(protocol::Survivors{{{0, {10}}, {1, {11}}}}));
      on_disconnect("End of file");
    }
    void send(const Message&) override {}
    void send_heartbeat() override {}
    void close() override {}
    DisconnectCause disconnect_cause(const std::string&) const override { return {}; }
    bool answers;
  };
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

TEST_CASE("in a recovery, a rank whose connection was dropped pauses and connects again") {
  RecoveryConfig config;
  config.rank = 1;
  config.names = {"rank 0", "rank 1"};
  config.hosts = {"n0", "n1"};
  DroppingNetwork network;
  CHECK(run_recovery(network, config, {}, Deadline(soon)) == SurvivorPayloads{{0, {10}}, {1, {11}}});
  CHECK(network.connections == 2);
  CHECK(network.pauses == 1);
}
