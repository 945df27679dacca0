// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <optional>
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
  /// Finds the state of that rank's process within `wait`.
  using Query = std::function<ProcessState(int rank, std::chrono::milliseconds wait)>;

  struct Options {
    /// Ranks notice a silence at different times: a rank that has ended has printed before.
    bool ended_rank_has_printed = false;
    /// Nothing was heard of the reporter since the loss: a host that does not answer may be lost, too.
    bool unknown_rank_is_lost = false;
  };

  ReporterCheck(asio::io_context& io, Mailbox& mailbox, int rank)
      : mailbox_(mailbox), rank_(rank), timer_(io) {}

  /// Asks 0.1 s later, and once more when a host did not answer. Holds the control thread for up to 0.1 s,
  /// then for up to 0.25 s for each host that does not answer. Meanwhile Mailbox::check() waits.
  void start(const Failure& failure, const std::vector<Hello>& roster, Query query, Options options);
  void stop() { timer_.cancel(); }

 private:
  Mailbox& mailbox_;
  int rank_;
  Timer timer_;
};

}  // namespace muster::control
