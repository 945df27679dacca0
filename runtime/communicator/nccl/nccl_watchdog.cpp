// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_watchdog.hpp"

#include <algorithm>
#include <vector>

#include "communicator/nccl/nccl_comm.hpp"

namespace muster::detail {

using std::chrono::milliseconds;

NcclWatchdog::NcclWatchdog(NcclState& state, milliseconds interval)
    : state_(state), interval_(interval), thread_([this] { run(); }) {}

NcclWatchdog::~NcclWatchdog() {
  {
    std::lock_guard const lock(mutex_);
    ended_ = true;
  }
  ending_.notify_all();
  thread_.join();
}

milliseconds NcclWatchdog::poll_interval(const JobContext& job) {
  milliseconds poll_interval{100};
  for (auto const length : {job.plane->stall_warning(), job.operation_timeout})
    if (length.count() > 0) poll_interval = std::min(poll_interval, length / 4);
  return std::max(poll_interval, milliseconds{5});
}

void NcclWatchdog::run() {
  state_.cuda.context_set_current(state_.context);
  // Without it the queries of this thread would invalidate a capture of the program.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  state_.cuda.exchange_capture_mode(&mode);
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, interval_, [this] { return ended_; })) {
    std::vector<BackgroundCall> calls;  // these go on in the background
    std::lock_guard const all(state_.mutex);
    for (NcclComm* const comm : state_.all)
      if (auto call = comm->poll()) calls.push_back(std::move(*call));
  }
}

}  // namespace muster::detail
