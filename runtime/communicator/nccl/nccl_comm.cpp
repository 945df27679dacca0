// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_comm.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

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

NcclComm::NcclComm(std::shared_ptr<NcclState> state, CommunicatorGroup& group)
    : state_(std::move(state)), group_(group) {
  std::lock_guard const lock(state_->mutex);
  state_->all.push_back(this);
}

NcclComm::~NcclComm() {
  bool const failed = group_.failed() || !state_->open;
  // The program knows of the failure and drops its communicators one by one: abort all of them now.
  if (comm_ != nullptr && failed) state_->abort(state_->open_communicators());
  {
    std::lock_guard const lock(state_->mutex);
    std::erase(state_->all, this);
  }
  if (comm_ != nullptr) {
    if (!failed) {
      begin_finalize();
      await_finalize(Deadline(nccl_abort_wait));
    }
    if (auto const call = failed ? begin_abort() : begin_destroy()) call->wait(Deadline(nccl_abort_wait));
  }
  if (enqueued_ != nullptr) state_->cuda.event_destroy(enqueued_);
}

void NcclComm::require_open() const {
  if (state_->open && comm_ != nullptr) return;
  group_.check();
  throw Error(ErrorCode::usage, "the communicator was used after the job was left or has failed");
}

void NcclComm::make_context_current() {
  require_cuda(state_->cuda.context_set_current(state_->context), "the GPU's context");
}

void NcclComm::require_cuda(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    fail_device(fmt::format("{}: CUDA says: {}", what, state_->cuda.reason(result)));
}

void NcclComm::fail_device(const std::string& reason) { group_.fail(ErrorCode::device, reason); }

void NcclComm::wait_until_ready(ncclComm_t& slot, ncclResult_t result, const Deadline& deadline) {
  comm_ = std::atomic_ref<ncclComm_t>(slot).load();  // NCCL's thread may be writing to it
  if (comm_ == nullptr)
    fail_nccl(result == ncclSuccess || result == ncclInProgress ? ncclInternalError : result);
  wait_while_in_progress(comm_, result, deadline);
  require_cuda(state_->cuda.mem_alloc(&token_, sizeof(float)), "no GPU memory for the barrier");
}

void NcclComm::barrier(Stream stream, const Deadline& deadline) {
  auto* const token = reinterpret_cast<void*>(token_);
  auto const result = state_->nccl.all_reduce(token, token, 1, ncclFloat32, ncclMax, comm_, stream);
  wait_while_in_progress(comm_, result, deadline);
  synchronize(stream, deadline);
}

void* NcclComm::register_memory(void* memory, std::size_t bytes) {
  std::lock_guard const lock(mutex_);
  if (state_->nccl.comm_register == nullptr || comm_ == nullptr) return nullptr;
  void* handle = nullptr;
  ncclResult_t const result = state_->nccl.comm_register(comm_, memory, bytes, &handle);
  if (result == ncclInProgress) wait_while_in_progress(comm_, result, Deadline(group_.timeout()));
  if (result == ncclSuccess || result == ncclInProgress) return handle;
  log::debug("nccl: {} bytes are not registered: {}", bytes, state_->nccl.reason(result, comm_));
  return nullptr;
}

void NcclComm::deregister_memory(void* handle) noexcept {
  std::lock_guard const lock(mutex_);
  if (comm_ != nullptr) state_->nccl.comm_deregister(comm_, handle);
}

bool NcclComm::has_windows() const noexcept {
  const char* const wanted = std::getenv("NCCL_WIN_ENABLE");
  return state_->nccl.window_register != nullptr && (wanted == nullptr || std::string_view(wanted) != "0");
}

void* NcclComm::register_window(void* memory, std::size_t bytes, Stream stream) {
  std::lock_guard const lock(mutex_);
  // Before a communicator's first operation NCCL 2.29 refuses windows (pytorch/pytorch#188567).
  barrier(stream, Deadline(group_.timeout()));
  auto const slot = std::make_shared<void*>(nullptr);
  {
    std::lock_guard const all_lock(state_->mutex);
    state_->window_slots.push_back(slot);
  }
  auto const result = state_->nccl.window_register(comm_, memory, bytes, slot.get(), nccl_symmetric_window);
  wait_while_in_progress(comm_, result, Deadline(group_.timeout()));
  void* const window = std::atomic_ref<void*>(*slot).load();  // NCCL's thread may have written it
  log::debug("nccl: {} bytes {} a symmetric window", bytes, window != nullptr ? "are" : "cannot be");
  return window;
}

void NcclComm::deregister_window(void* window) noexcept {
  std::lock_guard const lock(mutex_);
  if (comm_ != nullptr) state_->nccl.window_deregister(comm_, window);
}

void NcclComm::wait_while_in_progress(ncclComm_t polled, ncclResult_t result, const Deadline& deadline) {
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

// Throws the job's failure or the exception of `why`, after aborting every communicator of this process.
template <typename Throw>
void NcclComm::abort_all(Throw why) {
  try {
    group_.check();
    why();
    std::terminate();  // `why` throws
  } catch (const Error&) {
    state_->abort(state_->open_communicators());
    throw;
  }
}

// Ranks that share a GPU get a clearer text than NCCL's "Duplicate GPU detected : rank 1 and rank 0 both on
// CUDA device 60", where 60 is bus and slot in hexadecimal.
std::string NcclComm::reason(ncclResult_t result) const {
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

milliseconds NcclComm::failure_name_grace(ncclResult_t result) {
  return milliseconds{result == ncclRemoteError || result == ncclSystemError ? 1000 : 0};
}

void NcclComm::fail_nccl(ncclResult_t result) {
  auto const why = reason(result);
  Deadline const grace(failure_name_grace(result));
  while (group_.size() > 1 && !group_.failed() && !grace.passed())
    std::this_thread::sleep_for(milliseconds{1});
  abort_all([&] { group_.fail(ErrorCode::device, why); });
}

void NcclComm::fail_wait(const Deadline& deadline) {
  abort_all([&] { group_.fail_stalled(deadline.length()); });
}

bool NcclComm::is_complete(CUresult state, const Deadline& deadline, std::string_view what) {
  if (state == CUDA_SUCCESS) {
    if (comm_ == nullptr) group_.check();  // the watchdog may have aborted the stream's work
    return true;
  }
  if (state != CUDA_ERROR_NOT_READY)
    abort_all([&] {
      group_.fail(ErrorCode::device, fmt::format("{}{}CUDA says: {}", what, what.empty() ? "" : ": ",
                                                 state_->cuda.reason(state)));
    });
  if (group_.failed() || deadline.passed()) fail_wait(deadline);
  group_.warn_if_stalled(deadline);
  ncclResult_t result = ncclSuccess;
  if (comm_ != nullptr && state_->nccl.comm_get_async_error(comm_, &result) == ncclSuccess &&
      result != ncclSuccess && result != ncclInProgress) {
    fail_nccl(result);
  }
  return false;
}

template <typename Query>
bool NcclComm::wait_for(Query query, const Deadline& deadline, std::string_view what, const Deadline* limit) {
  std::lock_guard const lock(mutex_);
  make_context_current();
  auto const wait_scope = group_.wait_scope();
  auto const goes_on = limit != nullptr ? group_.watch_scope() : nullptr;
  auto const since = Deadline::Clock::now();
  while (!is_complete(query(), deadline, what)) {
    if (limit != nullptr && limit->passed()) return false;
    back_off(since);
  }
  return true;
}

void NcclComm::synchronize(Stream stream, const Deadline& deadline, std::string_view what) {
  wait_for([&] { return state_->cuda.stream_query(stream); }, deadline, what);
}

bool NcclComm::wait(CUevent event, const Deadline& deadline, const Deadline* limit) {
  return wait_for([&] { return state_->cuda.event_query(event); }, deadline, "", limit);
}

bool NcclComm::test(CUevent event, const Deadline& deadline) {
  std::lock_guard const lock(mutex_);
  make_context_current();
  return is_complete(state_->cuda.event_query(event), deadline);
}

bool NcclComm::is_captured(Stream stream) const {
  CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
  return state_->cuda.stream_is_capturing(stream, &captured) != CUDA_SUCCESS ||
         captured != CU_STREAM_CAPTURE_STATUS_NONE;
}

void NcclComm::synchronize(Stream stream) {
  std::lock_guard const lock(mutex_);
  make_context_current();
  bool const runs = pending_ && state_->cuda.event_query(enqueued_) == CUDA_ERROR_NOT_READY;
  synchronize(stream, runs ? pending_->deadline : Deadline(group_.timeout()));
}

void NcclComm::begin_finalize() noexcept {
  if (comm_ != nullptr) finalize_result_ = state_->nccl.comm_finalize(comm_);
}

void NcclComm::await_finalize(const Deadline& deadline) noexcept {
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
std::optional<BackgroundCall> NcclComm::begin_destroy() noexcept {
  return finalize_result_ == ncclSuccess ? begin_close(state_->nccl.comm_destroy) : begin_abort();
}

std::optional<BackgroundCall> NcclComm::poll() {
  std::unique_lock const lock(mutex_, std::try_to_lock);
  if (!lock || comm_ == nullptr || !pending_) return std::nullopt;
  if (!group_.failed()) {
    check_pending();
    return std::nullopt;
  }
  if (!group_.job().plane->has_on_loss()) return std::nullopt;
  log::debug("nccl: '{}' is aborted, since its program waits in CUDA", group_.name());
  pending_.reset();
  return begin_abort();
}

void NcclComm::check_pending() {
  if (state_->cuda.event_query(enqueued_) != CUDA_ERROR_NOT_READY) return pending_.reset();
  if (!pending_->scope) pending_->scope = group_.watch_scope();
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
void NcclComm::hand_to_watchdog(Stream stream) {
  pending_.reset();
  if (!state_->watchdog) return;
  const auto& cuda = state_->cuda;
  if (is_captured(stream)) return;  // it runs later, when the program launches the graph
  if (enqueued_ == nullptr && cuda.event_create(&enqueued_, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return;
  if (cuda.event_record(enqueued_, stream) == CUDA_SUCCESS)
    pending_ = Pending{group_.deadline(), nullptr, std::nullopt};
}

// If another thread is in a call of this communicator, that thread sees the job's failure and aborts it
// itself.
std::optional<BackgroundCall> NcclComm::begin_abort() noexcept {
  std::unique_lock const lock(mutex_, std::try_to_lock);
  return lock ? begin_close(state_->nccl.comm_abort) : std::nullopt;
}

std::optional<BackgroundCall> NcclComm::begin_close(decltype(::ncclCommAbort)* close) noexcept {
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
