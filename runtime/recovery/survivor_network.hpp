// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "deadline.hpp"
#include "failure/reporter_check.hpp"
#include "transport/channel.hpp"

namespace muster::control {

/// How one rank reaches the others during a recovery: SocketSurvivorNetwork, or the network of the tests'
/// simulator.
class SurvivorNetwork {
 public:
  using OnConnect = std::function<void(int rank, std::shared_ptr<Channel> channel)>;
  using OnState = std::function<void(ProcessState state)>;

  /// Before connecting again to a rank that dropped the connection.
  static constexpr std::chrono::milliseconds retry_pause{50};

  /// `channel` is null when the process has ended or cannot be reached (unknown), and at the deadline.
  struct Connection {
    std::shared_ptr<Channel> channel;
    ProcessState state = ProcessState::unknown;
  };

  SurvivorNetwork() = default;
  SurvivorNetwork(const SurvivorNetwork&) = delete;
  SurvivorNetwork& operator=(const SurvivorNetwork&) = delete;
  virtual ~SurvivorNetwork() = default;

  /// Connects to `rank`, which may begin to accept much later.
  virtual Connection connect(int rank, const Deadline& deadline) = 0;
  /// From now on accepts the other ranks, also those that began to connect before.
  virtual void accept(OnConnect on_connect) = 0;
  /// Probes the process of `rank` again and again while it runs. Calls `on_state` once: ended, or unknown
  /// when it cannot be reached.
  virtual void watch(int rank, OnState on_state) = 0;
  virtual void unwatch(int rank) = 0;
  /// Runs the callbacks until done() or `until`.
  virtual void run_until(Clock::time_point until, const std::function<bool()>& done) = 0;
  /// Ends accept() and all watches. A rank that comes too late still finds that this process runs.
  virtual void close() = 0;
  /// Waits until the messages of closed channels are sent.
  virtual void flush() = 0;
};

}  // namespace muster::control
