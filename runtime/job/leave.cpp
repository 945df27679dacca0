// SPDX-License-Identifier: Apache-2.0
// How a process leaves its job: in order, or by closing its connections.
#include <algorithm>

#include "job/job_state.hpp"
#include "log.hpp"

namespace muster {

using std::chrono::milliseconds;

namespace {

// Time limit for rank 0 to gather and write telemetry at the end, unless half the deadline is shorter.
constexpr milliseconds gather_timeout{30'000};

}  // namespace

Job& Job::operator=(Job&& other) noexcept {
  if (this != &other) {
    if (state_) state_->disconnect(state_->unwound());
    state_ = std::move(other.state_);
  }
  return *this;
}

Job::~Job() {
  if (state_) state_->disconnect(state_->unwound());
}

void Job::abort() noexcept { state_->disconnect(true); }

void Job::leave() { state_->leave(); }

void Job::State::leave() {
  if (left) return;
  Deadline const deadline(options.deadline);
  if (context->plane) context->plane->enter_phase("leaving");
  if (telemetry && telemetry->gathers()) {
    telemetry->stop();
    if (context->plane) context->plane->barrier("leave", deadline.length());
    telemetry->gather(std::min(gather_timeout, deadline.length() / 2));
  }
  if (context->plane) context->plane->final_barrier("leave", deadline.length());
  left = true;
  telemetry.reset();
  if (gpu) gpu->finalize(deadline);
  if (mpi) mpi->finalize(*context, deadline);
  if (context->plane) context->plane->leave();
  bootstrap->finalize();
  log::debug("leave: done");
}

void Job::State::disconnect(bool local_error) noexcept {
  if (left) return;
  try {
    if (!local_error && !(context->plane && context->plane->failed())) return leave();
  } catch (...) {
  }
  left = true;
  if (gpu) gpu->abort();
  stop_telemetry();
  if (!context->plane) return;
  if (local_error) {
    context->plane->abort_with_local_error();
  } else {
    context->plane->abort_connections();
  }
}

// After a failure, when the other ranks may not answer any more.
void Job::State::stop_telemetry() noexcept {
  if (telemetry) telemetry->gather_after_failure();
  telemetry.reset();
}

}  // namespace muster
