// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_watchdog.hpp"

#include <algorithm>
#include <vector>

#include "log.hpp"

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
    for (NcclCommunicator* const communicator : state_.all)
      if (auto call = communicator->poll()) calls.push_back(std::move(*call));
  }
}

std::optional<BackgroundCall> NcclCommunicator::poll() {
  std::unique_lock const lock(call_mutex_, std::try_to_lock);
  if (!lock || comm_ == nullptr || !pending_) return std::nullopt;
  if (!group_.failed()) {
    check_pending();
    return std::nullopt;
  }
  if (state_->keep_on_failure || !group_.job().plane->has_on_loss()) return std::nullopt;
  log::debug("nccl: '{}' is aborted, since its program waits in CUDA", group_.name());
  pending_.reset();
  return begin_abort();
}

void NcclCommunicator::check_pending() {
  if (state_->cuda.event_query(enqueued_) != CUDA_ERROR_NOT_READY) return pending_.reset();
  if (!pending_->wait_scope)  // NOLINTNEXTLINE(modernize-make-unique): a WaitScope cannot be moved
    pending_->wait_scope.reset(new CommunicatorGroup::WaitScope(group_.wait_scope()));
  if (pending_->reported) return;
  group_.warn_if_stalled(pending_->deadline);
  ncclResult_t result = ncclSuccess;
  ncclResult_t const query_result = state_->nccl.comm_get_async_error(comm_, &result);
  if (query_result != ncclSuccess) result = query_result;
  if (result != ncclSuccess && result != ncclInProgress) {
    if (!pending_->error_grace) pending_->error_grace.emplace(failure_name_grace(result));
    if (!pending_->error_grace->passed()) return;
    group_.report_failure(ErrorCode::device, reason(result));
    pending_->reported = true;
  } else if (pending_->deadline.passed()) {
    group_.report_stalled(pending_->deadline.length());
    pending_->reported = true;
  }
}

// Records an event of its own, so that the program may do anything with its stream meanwhile.
void NcclCommunicator::hand_to_watchdog(Stream stream) {
  pending_.reset();
  if (!state_->watchdog) return;
  const auto& cuda = state_->cuda;
  CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
  // A captured operation runs later, when the program launches the graph.
  if (cuda.stream_is_capturing(stream, &captured) != CUDA_SUCCESS ||
      captured != CU_STREAM_CAPTURE_STATUS_NONE)
    return;
  if (enqueued_ == nullptr && cuda.event_create(&enqueued_, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return;
  if (cuda.event_record(enqueued_, stream) == CUDA_SUCCESS)
    pending_ = Pending{Deadline(group_.timeout()), nullptr, std::nullopt};
}

NcclState::NcclState() = default;
NcclState::~NcclState() = default;

std::vector<NcclCommunicator*> NcclState::open_communicators() {
  std::lock_guard const lock(mutex);
  return all;
}

}  // namespace muster::detail
