// SPDX-License-Identifier: Apache-2.0
// Waits, failure and end of NCCL communicators.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "communicator/nccl/nccl_communicator.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The longest wait for an abort, which then goes on in the background.
constexpr milliseconds abort_wait{5000};
// At the start of a wait polls only yield the core; after this time they sleep.
constexpr milliseconds yield_time{20};

void back_off(Deadline::Clock::time_point since) {
  if (Deadline::Clock::now() - since < yield_time) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(microseconds{50});
  }
}

}  // namespace

NcclCommunicator::~NcclCommunicator() {
  bool const failed = group_.failed() || !state_->open;
  // The program knows of the failure and drops its communicators one by one: abort all of them now.
  if (comm_ != nullptr && failed && !state_->keep_on_failure) state_->abort(state_->open_communicators());
  {
    std::lock_guard const lock(state_->mutex);
    std::erase(state_->all, this);
  }
  if (comm_ != nullptr) {
    if (failed) {
      abort();
    } else {
      begin_finalize();
      await_finalize(Deadline(abort_wait));
      if (auto const call = begin_destroy()) call->wait(Deadline(abort_wait));
    }
  }
  if (enqueued_ != nullptr) state_->cuda.event_destroy(enqueued_);
}

void NcclCommunicator::wait_while_in_progress(ncclComm_t polled, ncclResult_t result,
                                              const Deadline& deadline) {
  auto const wait_scope = group_.wait_scope();
  auto const since = Deadline::Clock::now();
  while (result == ncclInProgress) {
    back_off(since);
    if (group_.failed() || deadline.passed()) fail_wait(deadline);
    group_.warn_if_stalled(deadline);
    ncclResult_t const query_result = state_->nccl.comm_get_async_error(polled, &result);
    if (query_result != ncclSuccess) result = query_result;
  }
  if (result != ncclSuccess) fail_nccl(result);
}

// Throws the job's failure or the exception of `why`, after aborting every communicator of this process,
// unless the job may go on with them.
template <typename Throw>
void NcclCommunicator::abort_all(Throw why) {
  try {
    group_.check();
    why();
    std::terminate();  // `why` throws
  } catch (const Error&) {
    if (!state_->keep_on_failure) state_->abort(state_->open_communicators());
    throw;
  }
}

// Ranks that share a GPU get a clearer text than NCCL's "Duplicate GPU detected : rank 1 and rank 0 both on
// CUDA device 60", where 60 is bus and slot in hexadecimal.
std::string NcclCommunicator::reason(ncclResult_t result) const {
  const auto& roster = group_.job().roster;
  const Hello& self = roster[static_cast<std::size_t>(group_.job().rank)];
  std::vector<int> sharing;
  for (int const rank : group_.members()) {
    const Hello& other = roster[static_cast<std::size_t>(rank)];
    if (other.host == self.host && other.boot_id == self.boot_id && other.gpu == self.gpu)
      sharing.push_back(rank);
  }
  if (result != ncclInvalidUsage || sharing.size() < 2) return state_->nccl.reason(result, comm_);
  return fmt::format(
      "{} share one GPU, which NCCL refuses: start one task for each GPU, or with "
      "--device=cpu the job runs without them",
      bootstrap::describe_ranks(roster, sharing));
}

milliseconds NcclCommunicator::failure_name_grace(ncclResult_t result) {
  return milliseconds{result == ncclRemoteError || result == ncclSystemError ? 1000 : 0};
}

void NcclCommunicator::fail_nccl(ncclResult_t result) {
  auto const why = reason(result);
  Deadline const grace(failure_name_grace(result));
  while (group_.size() > 1 && !group_.failed() && !grace.passed())
    std::this_thread::sleep_for(milliseconds{1});
  abort_all([&] { group_.fail(ErrorCode::device, why); });
}

void NcclCommunicator::fail_wait(const Deadline& deadline) {
  abort_all([&] { group_.fail_stalled(deadline.length()); });
}

void NcclCommunicator::synchronize(Stream stream, const Deadline& deadline) {
  std::lock_guard const lock(call_mutex_);
  make_context_current();
  auto const wait_scope = group_.wait_scope();
  auto const since = Deadline::Clock::now();
  while (true) {
    CUresult const state = state_->cuda.stream_query(stream);
    if (state == CUDA_SUCCESS) {
      if (comm_ == nullptr) group_.check();  // the watchdog may have aborted the stream's work
      return;
    }
    if (state != CUDA_ERROR_NOT_READY) {
      abort_all([&] { group_.fail(ErrorCode::device, "CUDA says: " + state_->cuda.reason(state)); });
    }
    if (group_.failed() || deadline.passed()) fail_wait(deadline);
    group_.warn_if_stalled(deadline);
    ncclResult_t result = ncclSuccess;
    if (comm_ != nullptr && state_->nccl.comm_get_async_error(comm_, &result) == ncclSuccess &&
        result != ncclSuccess && result != ncclInProgress) {
      fail_nccl(result);
    }
    back_off(since);
  }
}

void NcclCommunicator::begin_finalize() noexcept {
  if (comm_ != nullptr) finalize_result_ = state_->nccl.comm_finalize(comm_);
}

void NcclCommunicator::await_finalize(const Deadline& deadline) noexcept {
  if (comm_ == nullptr) return;
  auto const since = Deadline::Clock::now();
  while (finalize_result_ == ncclInProgress && !deadline.passed() && !group_.failed()) {
    back_off(since);
    if (state_->nccl.comm_get_async_error(comm_, &finalize_result_) != ncclSuccess)
      finalize_result_ = ncclInternalError;
  }
  log::debug("nccl: '{}' is finalised", group_.name());
}

// ncclCommDestroy is local after a completed ncclCommFinalize.
std::optional<BackgroundCall> NcclCommunicator::begin_destroy() noexcept {
  return finalize_result_ == ncclSuccess ? begin_close(state_->nccl.comm_destroy) : begin_abort();
}

void NcclState::finalize_all(const Deadline& deadline) noexcept {
  // In the same order on every rank: the newest first.
  auto youngest_first = open_communicators();
  std::reverse(youngest_first.begin(), youngest_first.end());
  for (NcclCommunicator* communicator : youngest_first) communicator->begin_finalize();
  for (NcclCommunicator* communicator : youngest_first) communicator->await_finalize(deadline);
  std::vector<BackgroundCall> calls;
  for (NcclCommunicator* communicator : youngest_first) {
    if (auto call = communicator->begin_destroy()) calls.push_back(std::move(*call));
  }
  Deadline const bound(abort_wait);
  for (const auto& call : calls) call.wait(bound);
  log::debug("nccl: {} communicators ended", calls.size());
}

void NcclState::abort(const std::vector<NcclCommunicator*>& which) noexcept {
  Deadline const deadline(abort_wait);
  std::vector<BackgroundCall> calls;
  {
    std::lock_guard const lock(mutex);  // not during a poll of the watchdog
    for (NcclCommunicator* communicator : which) {
      if (std::find(all.begin(), all.end(), communicator) == all.end())
        continue;  // another thread has destroyed it
      if (auto call = communicator->begin_abort()) calls.push_back(std::move(*call));
    }
  }
  for (const auto& call : calls) call.wait(deadline);
}

// If another thread is in a call of this communicator, that thread sees the job's failure and aborts it
// itself.
std::optional<BackgroundCall> NcclCommunicator::begin_abort() noexcept {
  std::unique_lock const lock(call_mutex_, std::try_to_lock);
  return lock ? begin_close(state_->nccl.comm_abort) : std::nullopt;
}

void NcclCommunicator::abort() noexcept {
  if (auto const call = begin_abort()) call->wait(Deadline(abort_wait));
}

std::optional<BackgroundCall> NcclCommunicator::begin_close(decltype(::ncclCommAbort)* close) noexcept {
  if (comm_ == nullptr) return std::nullopt;
  auto* const comm = std::exchange(comm_, nullptr);
  auto const token = std::exchange(token_, 0);
  return BackgroundCall([state = state_, comm, token, close] {
    state->cuda.context_set_current(state->context);
    auto const result = close(comm);
    if (token != 0) state->cuda.mem_free(token);
    return static_cast<int>(result);
  });
}

}  // namespace muster::detail
