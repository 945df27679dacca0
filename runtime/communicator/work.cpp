// SPDX-License-Identifier: Apache-2.0
#include "muster/work.hpp"

#include <utility>

#include "communicator/backend.hpp"
#include "communicator/pending_work.hpp"
#include "deadline.hpp"
#include "failure/background_errors.hpp"

namespace muster {

Work::Work() noexcept = default;

Work::Work(std::shared_ptr<detail::CommunicatorBackend> collectives,
           std::unique_ptr<detail::PendingWork> pending)
    : collectives_(std::move(collectives)), pending_(std::move(pending)) {}

Work::~Work() { finish(); }

Work::Work(Work&& other) noexcept
    : collectives_(std::move(other.collectives_)), pending_(std::move(other.pending_)) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this == &other) return *this;
  finish();
  pending_ = std::move(other.pending_);
  collectives_ = std::move(other.collectives_);
  return *this;
}

void Work::finish() noexcept {
  if (!pending_) return;
  if (std::uncaught_exceptions() > unwinding_) pending_->abandon();
  control::BackgroundErrors const dropped;
  try {
    wait();
  } catch (...) {  // the communicator throws it again
  }
}

void Work::wait() {
  if (!pending_) return;
  auto const pending = std::move(pending_);
  pending->wait();
}

bool Work::wait_for(std::chrono::milliseconds limit) {
  if (pending_ && !pending_->wait_until(Deadline(limit))) return false;
  pending_.reset();
  return true;
}

bool Work::test() {
  if (pending_ && !pending_->test()) return false;
  pending_.reset();
  return true;
}

}  // namespace muster
