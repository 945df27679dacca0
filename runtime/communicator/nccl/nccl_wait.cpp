// SPDX-License-Identifier: Apache-2.0
// How NCCL's communicators are waited for, fail and end.
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

// How long an abort may take before it is left to go on by itself.
constexpr milliseconds abort_time{5000};
// Within the first moments of a wait the answer is looked for again at once; later the core is given away.
constexpr milliseconds eager{20};

void rest(Deadline::Clock::time_point since) {
  if (Deadline::Clock::now() - since < eager) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(microseconds{50});
  }
}

}  // namespace

NcclCommunicator::~NcclCommunicator() {
  bool const failed = group_.failed() || !state_->open;
  // Whatever told the program of it, which now drops its communicators one by one.
  if (comm_ != nullptr && failed && !state_->survives) state_->abort(state_->living());
  {
    std::lock_guard const lock(state_->mutex);
    std::erase(state_->all, this);
  }
  if (comm_ != nullptr) {
    if (failed) {
      abort();
    } else {
      begin_finish();
      await_finish(Deadline(abort_time));
      if (auto const call = begin_destroy()) call->wait(Deadline(abort_time));
    }
  }
  if (enqueued_ != nullptr) state_->cuda.event_destroy(enqueued_);
}

void NcclCommunicator::accept(ncclComm_t shown_by, ncclResult_t result, const Deadline& deadline) {
  auto const inside = group_.inside();
  auto const since = Deadline::Clock::now();
  while (result == ncclInProgress) {
    rest(since);
    if (group_.failed() || deadline.passed()) give_up_waiting(deadline);
    group_.waiting(deadline);
    ncclResult_t const asked = state_->nccl.comm_get_async_error(shown_by, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result != ncclSuccess) give_up(result);
}

// Throws what `why` throws, with every communicator of this process aborted unless the job may go on with
// them.
template <typename Throw>
void NcclCommunicator::abort_all(Throw why) {
  try {
    group_.check();
    why();
    std::terminate();  // `why` throws
  } catch (const Error&) {
    if (!state_->survives) state_->abort(state_->living());
    throw;
  }
}

// NCCL's own words for it are "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60", where 60
// are bus and slot in hexadecimal.
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
      "{} have one GPU together, which NCCL refuses: start one task for each GPU, or with "
      "--device=cpu the job runs without them",
      bootstrap::describe_ranks(roster, sharing));
}

milliseconds NcclCommunicator::moment_for_names(ncclResult_t result) {
  return milliseconds{result == ncclRemoteError || result == ncclSystemError ? 1000 : 0};
}

void NcclCommunicator::give_up(ncclResult_t result) {
  auto const why = reason(result);
  Deadline const moment(moment_for_names(result));
  while (group_.size() > 1 && !group_.failed() && !moment.passed())
    std::this_thread::sleep_for(milliseconds{1});
  abort_all([&] { group_.broke(ErrorCode::device, why); });
}

void NcclCommunicator::give_up_waiting(const Deadline& deadline) {
  abort_all([&] { group_.stalled(deadline.length()); });
}

void NcclCommunicator::synchronize(Stream stream, const Deadline& deadline) {
  std::lock_guard const lock(in_use_);
  make_context_current();
  auto const inside = group_.inside();
  auto const since = Deadline::Clock::now();
  while (true) {
    CUresult const state = state_->cuda.stream_query(stream);
    if (state == CUDA_SUCCESS) {
      if (comm_ == nullptr) group_.check();  // the watch may have ended what was on the stream
      return;
    }
    if (state != CUDA_ERROR_NOT_READY) {
      abort_all([&] { group_.broke(ErrorCode::device, "CUDA says: " + state_->cuda.reason(state)); });
    }
    if (group_.failed() || deadline.passed()) give_up_waiting(deadline);
    group_.waiting(deadline);
    ncclResult_t result = ncclSuccess;
    if (comm_ != nullptr && state_->nccl.comm_get_async_error(comm_, &result) == ncclSuccess &&
        result != ncclSuccess && result != ncclInProgress) {
      give_up(result);
    }
    rest(since);
  }
}

void NcclCommunicator::begin_finish() noexcept {
  if (comm_ != nullptr) finishing_ = state_->nccl.comm_finalize(comm_);
}

void NcclCommunicator::await_finish(const Deadline& deadline) noexcept {
  if (comm_ == nullptr) return;
  auto const since = Deadline::Clock::now();
  while (finishing_ == ncclInProgress && !deadline.passed() && !group_.failed()) {
    rest(since);
    if (state_->nccl.comm_get_async_error(comm_, &finishing_) != ncclSuccess) finishing_ = ncclInternalError;
  }
  log::debug("nccl: '{}' is finalised", group_.name());
}

// Local after a finished ncclCommFinalize.
std::optional<BackgroundCall> NcclCommunicator::begin_destroy() noexcept {
  return finishing_ == ncclSuccess ? begin_end(state_->nccl.comm_destroy) : begin_abort();
}

void NcclState::finish_all(const Deadline& deadline) noexcept {
  // On every rank in the same order: the youngest first.
  auto youngest_first = living();
  std::reverse(youngest_first.begin(), youngest_first.end());
  for (NcclCommunicator* one : youngest_first) one->begin_finish();
  for (NcclCommunicator* one : youngest_first) one->await_finish(deadline);
  std::vector<BackgroundCall> begun;
  for (NcclCommunicator* one : youngest_first) {
    if (auto call = one->begin_destroy()) begun.push_back(std::move(*call));
  }
  Deadline const bound(abort_time);
  for (const auto& call : begun) call.wait(bound);
  log::debug("nccl: {} communicators ended", begun.size());
}

void NcclState::abort(const std::vector<NcclCommunicator*>& which) noexcept {
  Deadline const deadline(abort_time);
  std::vector<BackgroundCall> begun;
  {
    std::lock_guard const lock(mutex);  // not while the watch looks
    for (NcclCommunicator* one : which) {
      if (std::find(all.begin(), all.end(), one) == all.end()) continue;  // another thread has dropped it
      if (auto call = one->begin_abort()) begun.push_back(std::move(*call));
    }
  }
  for (const auto& call : begun) call.wait(deadline);
}

// Another thread that is in a call of it sees the job's failure there and aborts it itself.
std::optional<BackgroundCall> NcclCommunicator::begin_abort() noexcept {
  std::unique_lock const lock(in_use_, std::try_to_lock);
  return lock ? begin_end(state_->nccl.comm_abort) : std::nullopt;
}

void NcclCommunicator::abort() noexcept {
  if (auto const call = begin_abort()) call->wait(Deadline(abort_time));
}

std::optional<BackgroundCall> NcclCommunicator::begin_end(decltype(::ncclCommAbort)* how) noexcept {
  if (comm_ == nullptr) return std::nullopt;
  auto* const comm = std::exchange(comm_, nullptr);
  auto const token = std::exchange(token_, 0);
  return BackgroundCall([state = state_, comm, token, how] {
    state->cuda.context_set_current(state->context);
    auto const result = how(comm);
    if (token != 0) state->cuda.mem_free(token);
    return static_cast<int>(result);
  });
}

}  // namespace muster::detail
