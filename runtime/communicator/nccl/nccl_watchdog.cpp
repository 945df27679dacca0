// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_watchdog.hpp"

#include <algorithm>
#include <vector>

#include "log.hpp"

namespace muster::detail {

using std::chrono::milliseconds;

NcclWatchdog::NcclWatchdog(NcclState& state, milliseconds every)
    : state_(state), every_(every), thread_([this] { watch(); }) {}

NcclWatchdog::~NcclWatchdog() {
  {
    std::lock_guard const lock(mutex_);
    ended_ = true;
  }
  ending_.notify_all();
  thread_.join();
}

milliseconds NcclWatchdog::pace(const JobContext& job) {
  milliseconds pace{100};
  for (auto const length : {job.plane->stall_warning(), job.operation_timeout})
    if (length.count() > 0) pace = std::min(pace, length / 4);
  return std::max(pace, milliseconds{5});
}

void NcclWatchdog::watch() {
  state_.cuda.context_set_current(state_.context);
  // Else what is asked here would end a capture of the program's.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  state_.cuda.exchange_capture_mode(&mode);
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, every_, [this] { return ended_; })) {
    std::vector<BackgroundCall> begun;  // go on by themselves
    std::lock_guard const all(state_.mutex);
    for (NcclCommunicator* const one : state_.all)
      if (auto call = one->look_after()) begun.push_back(std::move(*call));
  }
}

std::optional<BackgroundCall> NcclCommunicator::look_after() {
  std::unique_lock const lock(in_use_, std::try_to_lock);
  if (!lock || comm_ == nullptr || !pending_) return std::nullopt;
  if (!group_.failed()) {
    look_at_pending();
    return std::nullopt;
  }
  if (state_->survives || !group_.job().plane->has_on_loss()) return std::nullopt;
  log::debug("nccl: '{}' is aborted, since its program waits in CUDA", group_.name());
  pending_.reset();
  return begin_abort();
}

void NcclCommunicator::look_at_pending() {
  if (state_->cuda.event_query(enqueued_) != CUDA_ERROR_NOT_READY) return pending_.reset();
  if (!pending_->inside) pending_->inside.reset(new CommunicatorGroup::Inside(group_.inside()));
  if (pending_->told) return;
  group_.waiting(pending_->deadline);
  ncclResult_t result = ncclSuccess;
  ncclResult_t const asked = state_->nccl.comm_get_async_error(comm_, &result);
  if (asked != ncclSuccess) result = asked;
  if (result != ncclSuccess && result != ncclInProgress) {
    if (!pending_->wrong) pending_->wrong.emplace(moment_for_names(result));
    if (!pending_->wrong->passed()) return;
    group_.report_broken(ErrorCode::device, reason(result));
    pending_->told = true;
  } else if (pending_->deadline.passed()) {
    group_.report_stalled(pending_->deadline.length());
    pending_->told = true;
  }
}

// The event is ours, whatever the program does with its stream meanwhile.
void NcclCommunicator::leave_to_watch(Stream stream) {
  pending_.reset();
  if (!state_->watch) return;
  const auto& cuda = state_->cuda;
  CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
  // What is captured runs when the program says so.
  if (cuda.stream_is_capturing(stream, &captured) != CUDA_SUCCESS ||
      captured != CU_STREAM_CAPTURE_STATUS_NONE)
    return;
  if (enqueued_ == nullptr && cuda.event_create(&enqueued_, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return;
  if (cuda.event_record(enqueued_, stream) == CUDA_SUCCESS) pending_.emplace(Deadline(group_.timeout()));
}

NcclState::NcclState() = default;
NcclState::~NcclState() = default;

std::vector<NcclCommunicator*> NcclState::living() {
  std::lock_guard const lock(mutex);
  return all;
}

}  // namespace muster::detail
