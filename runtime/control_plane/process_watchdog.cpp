// SPDX-License-Identifier: Apache-2.0
#include "control_plane/process_watchdog.hpp"

#include <unistd.h>

#include <algorithm>

#include "deadline.hpp"
#include "log.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// stderr may be a full pipe, so printing must not block.
constexpr milliseconds print_timeout{1000};
// The reporter ends first: some launchers end a job with its first process.
constexpr milliseconds reporter_lead{300};

}  // namespace

void ProcessWatchdog::start(const Failure& failure, milliseconds grace) {
  if (mailbox_.has_on_loss() && failure.code == ErrorCode::lost_rank)
    grace = std::max(grace, on_loss_time_.load());
  if (failure.reporter != rank_) grace += reporter_lead;
  timer_.expires_after(grace);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !mailbox_.failure_observed() && !mailbox_.leaving()) end_process();
  });
}

void ProcessWatchdog::end_process() {
  auto const failure = *mailbox_.failure();
  if (failure.reporter == rank_)
    run_bounded(
        [text = failure.text] {
          log::error(text);
          return 0;
        },
        Deadline(print_timeout));
  ::_exit(Error(failure.code, failure.text).exit_code());
}

}  // namespace muster::control
