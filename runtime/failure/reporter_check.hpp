// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <functional>
#include <vector>

#include "failure/failure.hpp"
#include "failure/mailbox.hpp"

namespace muster::control {

/// Makes this rank the reporter of a loss when the chosen reporter was lost as well, and so was every rank
/// before this one in reporter_order(). Every call on the io_context's thread.
class ReporterCheck {
 public:
  /// True when the process of that rank has certainly ended.
  using ExitQuery = std::function<bool(int rank)>;

  ReporterCheck(asio::io_context& io, Mailbox& mailbox, int rank)
      : mailbox_(mailbox), rank_(rank), timer_(io) {}

  /// Checks 0.1 s later. The reporter is there for half a second, as Mailbox::check() describes.
  void start(const Failure& failure, const std::vector<Hello>& roster, ExitQuery has_ended);
  void stop() { timer_.cancel(); }

 private:
  Mailbox& mailbox_;
  int rank_;
  asio::steady_timer timer_;
};

}  // namespace muster::control
