// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "failure/reporter_check.hpp"
#include "transport/endpoint.hpp"

namespace muster::control {

/// Finds out whether a process that listens at these endpoints runs, by several connections to each at once,
/// since a network may lose the packets of some. Not thread-safe.
class ProcessProbe {
 public:
  /// Called once: running, with the endpoint that accepted; ended, when the first endpoint refused; or
  /// unknown, when all connections failed. A process that does not answer at all takes minutes to fail.
  using OnAnswer = std::function<void(ProcessState state, std::size_t endpoint)>;

  /// `endpoints`: the most likely first. Further ones may be those of a bridge that this host has, too.
  ProcessProbe(asio::io_context& io, const std::vector<Endpoint>& endpoints, int connections,
               OnAnswer on_answer);
  /// Ends the connections. `on_answer` is not called any more.
  ~ProcessProbe();
  ProcessProbe(const ProcessProbe&) = delete;
  ProcessProbe& operator=(const ProcessProbe&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::control
