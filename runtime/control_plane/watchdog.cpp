// SPDX-License-Identifier: Apache-2.0
// Ends this process when its program does not observe the job's failure, and watches the launcher.
#include <fmt/format.h>
#include <unistd.h>

#include "control_plane/control_plane.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::control {

using std::chrono::milliseconds;

namespace {

// stderr may be a full pipe, so printing must not block.
constexpr milliseconds print_timeout{1000};

}  // namespace

void ControlPlane::fail(const Failure& failure) {
  if (!mailbox_.fail(failure) || mailbox_.leaving() || options_.abort_grace.count() == 0) return;
  auto wait = options_.abort_grace;
  if (mailbox_.has_on_loss() && failure.code == ErrorCode::lost_rank)
    wait = std::max(wait, on_loss_time_.load());
  // The reporter ends first: some launchers end a job with its first process.
  if (failure.reporter != rank_) wait += milliseconds{300};
  abort_timer_.expires_after(wait);
  abort_timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !mailbox_.failure_observed() && !mailbox_.leaving()) terminate_unresponsive();
  });
}

// The program computes, or waits outside Muster: only this ends its process.
void ControlPlane::terminate_unresponsive() {
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

void ControlPlane::enter_phase(const char* phase) {
  operation_tracker_.flight_recorder()->enter_phase(phase);
  asio::post(io_, [this] {
    if (coordinator_) coordinator_->send_heartbeat();
    if (channel_) channel_->send_heartbeat();
  });
}

void ControlPlane::on_loss(Mailbox::OnLoss callback, milliseconds wait) {
  on_loss_time_ = wait;
  mailbox_.on_loss(std::move(callback));
}

void ControlPlane::watch_launcher(ProcessHandle launcher, const std::string& name) {
  if (!launcher) return;
  launcher_ = std::move(launcher);
  int const copy = ::dup(launcher_.descriptor());
  if (copy < 0) return;
  close_on_exec(copy);
  asio::post(io_, [this, copy, text = fmt::format("{}, pid {}", name, launcher_.pid())] {
    launcher_exit_.assign(copy);
    auto const ended = [this, text](const asio::error_code& error) {
      if (error || mailbox_.leaving()) return;
      orphaned_ = true;
      post({{"is", "orphaned"}, {"launcher", text}});
    };
    launcher_exit_.async_wait(asio::posix::stream_descriptor::wait_read, ended);
  });
}

}  // namespace muster::control
