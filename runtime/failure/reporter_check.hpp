// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <vector>

#include "failure/failure.hpp"
#include "failure/mailbox.hpp"
#include "timer.hpp"

namespace muster::control {

/// What is known of a rank's process: its host answered for it, or nothing did in time.
enum class ProcessState { running, ended, unknown };

/// Makes this rank the reporter of a loss when the chosen reporter was lost as well, and so was every rank
/// before this one in reporter_order(). Every call on the io_context's thread.
class ReporterCheck {
 public:
  /// Finds the states of these ranks' processes within `wait`, with this many connections to each.
  using Query = std::function<std::vector<ProcessState>(const std::vector<int>& ranks,
                                                        std::chrono::milliseconds wait, int connections)>;

  struct Options {
    /// Ranks notice a silence at different times: a rank that has ended has printed before.
    bool ended_rank_has_printed = false;
    /// Nothing was heard of the reporter since the loss: a host that does not answer may be lost, too.
    bool unknown_rank_is_lost = false;
  };

  ReporterCheck(asio::io_context& io, Mailbox& mailbox, int rank)
      : mailbox_(mailbox), rank_(rank), timer_(io) {}

  /// Asks 0.1 s later, one rank after the other until one runs. Asks all hosts once more, for 0.25 s, when a
  /// host did not answer within 0.1 s. Meanwhile it holds the thread, and Mailbox::check() waits.
  void start(const Failure& failure, const std::vector<Hello>& roster, Query query, Options options);
  void stop();

 private:
  Mailbox& mailbox_;
  int rank_;
  Timer timer_;
};

}  // namespace muster::control
