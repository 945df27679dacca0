// SPDX-License-Identifier: Apache-2.0
#include "failure/process_watchdog.hpp"

#include <unistd.h>

#include <algorithm>

#include "deadline.hpp"
#include "log.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// Earlier than the other ranks end, half a second after the failure, and than Slurm kills the step, about a
// second after a loss.
constexpr milliseconds print_delay{300};
// stderr may be a full pipe, so printing must not block.
constexpr milliseconds print_timeout{1000};
// The reporter ends first: some launchers end a job with its first process.
constexpr milliseconds reporter_lead{300};

void print_failure_line(const Failure& failure) {
  if (simulation) return simulation->print_line(failure.text);
  run_bounded(
      [text = failure.text] {
        log::print(text);
        return 0;
      },
      Deadline(print_timeout));
}

}  // namespace

void ProcessWatchdog::start(const Failure& failure, milliseconds grace) {
  print_timer_.expires_after(std::min(print_delay, grace));
  print_timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !paused_) print_failure();
  });
  if (mailbox_.has_on_loss() && failure.code == ErrorCode::lost_rank)
    grace = std::max(grace, on_loss_time_.load());
  end_after(failure, grace);
}

void ProcessWatchdog::end_after(const Failure& failure, milliseconds grace) {
  if (failure.reporter != rank_) grace += reporter_lead;
  end_timer_.expires_after(grace);
  end_timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !paused_ && !mailbox_.failure_observed() && !mailbox_.leaving()) end_process();
  });
}

void ProcessWatchdog::stop() {
  print_timer_.cancel();
  end_timer_.cancel();
}

void ProcessWatchdog::print_failure() {
  if (auto const failure = mailbox_.claim_report()) print_failure_line(*failure);
}

bool ProcessWatchdog::print_loss(const Failure& failure) const {
  if (failure.code != ErrorCode::lost_rank || failure.reporter != rank_) return false;
  if (paused_ || mailbox_.failed() || mailbox_.leaving()) return false;
  print_failure_line(failure);
  return true;
}

void ProcessWatchdog::end_process() {
  print_failure();
  auto const failure = *mailbox_.failure();
  auto const exit_code = Error(failure.code, failure.text).exit_code();
  if (simulation) simulation->end_process(exit_code);
  ::_exit(exit_code);
}

}  // namespace muster::control
