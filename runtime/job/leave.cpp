// SPDX-License-Identifier: Apache-2.0
// How a process's membership in its job ends: in order, or by dropping the connections.
#include <algorithm>

#include "job/job_state.hpp"
#include "log.hpp"

namespace muster {

using std::chrono::milliseconds;

namespace {

// How long rank 0 may write what it gathers at the end, when the deadline is no shorter.
constexpr milliseconds gathering_time{30'000};

}  // namespace

Job& Job::operator=(Job&& other) noexcept {
  if (this != &other) {
    if (state_) state_->drop(state_->unwound());
    state_ = std::move(other.state_);
  }
  return *this;
}

Job::~Job() {
  if (state_) state_->drop(state_->unwound());
}

void Job::abort() noexcept { state_->drop(true); }

void Job::leave() { state_->leave(); }

void Job::State::leave() {
  if (left) return;
  Deadline const deadline(options.deadline);
  if (context->plane) context->plane->enter_phase("leaving");
  if (watch && watch->gathers()) {
    watch->stop();
    if (context->plane) context->plane->barrier("leave", deadline.length());
    watch->gather(std::min(gathering_time, deadline.length() / 2));
  }
  if (context->plane) context->plane->last_barrier("leave", deadline.length());
  left = true;
  watch.reset();
  if (gpu) gpu->finish(deadline);
  if (mpi) mpi->finish(*context, deadline);
  if (context->plane) context->plane->leave();
  bootstrap->finish();
  log::debug("leave: done");
}

void Job::State::drop(bool for_own_reason) noexcept {
  if (left) return;
  try {
    if (!for_own_reason && !(context->plane && context->plane->failed())) return leave();
  } catch (...) {
  }
  left = true;
  if (gpu) gpu->abandon();
  stop_watching();
  if (!context->plane) return;
  if (for_own_reason) {
    context->plane->abandon_for_own_reason();
  } else {
    context->plane->abandon();
  }
}

// After a failure, when the others can no longer be met.
void Job::State::stop_watching() noexcept {
  if (watch) watch->gather_after_failure();
  watch.reset();
}

}  // namespace muster
