// SPDX-License-Identifier: Apache-2.0
// What a rank's control plane does about its own process when the job has failed, and about the launcher.
#include <fmt/format.h>
#include <unistd.h>

#include "control_plane/control_plane.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::control {

using std::chrono::milliseconds;

namespace {

// Nobody may read what this process prints.
constexpr milliseconds say_time{1000};

}  // namespace

void ControlPlane::fail(const Failure& failure) {
  if (!inbox_.fail(failure) || inbox_.leaving() || options_.abort_grace.count() == 0) return;
  auto wait = options_.abort_grace;
  if (inbox_.has_on_loss() && failure.code == ErrorCode::lost_rank)
    wait = std::max(wait, on_loss_time_.load());
  // Who is to speak ends first: some launchers end a job with its first process.
  if (failure.speaker != rank_) wait += milliseconds{300};
  unattended_.expires_after(wait);
  unattended_.async_wait([this](const asio::error_code& error) {
    if (!error && !inbox_.noticed() && !inbox_.leaving()) end_unattended();
  });
}

// The program computes, or waits for something else: nothing but this ends its process.
void ControlPlane::end_unattended() {
  auto const failure = *inbox_.failure();
  if (failure.speaker == rank_)
    run_bounded(
        [text = failure.text] {
          log::say(text);
          return 0;
        },
        Deadline(say_time));
  ::_exit(Error(failure.code, failure.text).exit_code());
}

void ControlPlane::enter_phase(const char* phase) {
  activities_.last_call()->enter_phase(phase);
  asio::post(io_, [this] {
    if (leader_) leader_->send_heartbeat();
    if (channel_) channel_->send_heartbeat();
  });
}

void ControlPlane::on_loss(Mailbox::OnLoss call, milliseconds wait) {
  on_loss_time_ = wait;
  inbox_.on_loss(std::move(call));
}

void ControlPlane::watch_launcher(ProcessHandle launcher, const std::string& name) {
  if (!launcher) return;
  launcher_ = std::move(launcher);
  int const copy = ::dup(launcher_.descriptor());
  if (copy < 0) return;
  close_on_exec(copy);
  asio::post(io_, [this, copy, text = fmt::format("{}, pid {}", name, launcher_.pid())] {
    launcher_end_.assign(copy);
    auto const ended = [this, text](const asio::error_code& error) {
      if (error || inbox_.leaving()) return;
      orphaned_ = true;
      post({{"is", "orphaned"}, {"launcher", text}});
    };
    launcher_end_.async_wait(asio::posix::stream_descriptor::wait_read, ended);
  });
}

}  // namespace muster::control
