// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "communicator/communicator_group.hpp"
#include "communicator/nccl/nccl_state.hpp"
#include "deadline.hpp"
#include "muster/types.hpp"

namespace muster::detail {

/// An ncclComm_t, whose waits and end are bounded. It uses NCCL's non-blocking calls. An error aborts all
/// communicators of the process, because NCCL's kernels of one can wait for another's.
class NcclComm {
 public:
  /// `group`, the communicator's ranks, outlives it.
  NcclComm(std::shared_ptr<NcclState> state, CommunicatorGroup& group);
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Creates the communicator. `make` makes one call of NCCL, with the place that NCCL fills and the
  /// configuration, and returns its result.
  template <typename Make>
  void create(const Deadline& deadline, Make make) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    auto const slot = state_->slots.emplace_back(std::make_shared<ncclComm_t>(nullptr));
    ncclResult_t const result = make(slot.get(), &config);
    wait_until_ready(*slot, result, deadline);
  }
  ncclComm_t get() const noexcept { return comm_; }
  /// @throws Error(ErrorCode::usage) when the communicator has ended.
  void require_open() const;
  /// Held during each call of the communicator. The watchdog and abort() leave it alone meanwhile.
  std::recursive_mutex& mutex() noexcept { return mutex_; }

  /// Makes the GPU's context current; the calling thread need not be the one that joined.
  void make_context_current();
  /// Fails the job with `what` and CUDA's reason, unless `result` is success.
  void require_cuda(CUresult result, const char* what);
  /// Fails the job with `reason`.
  [[noreturn]] void fail_device(const std::string& reason);
  /// Returns a handle, or null if NCCL cannot or does not register this memory, which it does not need.
  void* register_memory(void* memory, std::size_t bytes);
  void deregister_memory(void* handle) noexcept;
  /// NCCL has windows, and its variable NCCL_WIN_ENABLE does not switch them off.
  bool has_windows() const noexcept;
  /// Registers memory of ncclMemAlloc, as long on every rank, as a symmetric window. Returns null on all
  /// ranks if NCCL makes no windows between these GPUs. Waits; collective. NCCL's errors fail the job,
  /// because NCCL does not allow memory that is registered on some ranks only.
  void* register_window(void* memory, std::size_t bytes, Stream stream);
  void deregister_window(void* window) noexcept;

  /// After a call: waits until NCCL has enqueued the operation (not until it is complete).
  void wait_while_in_progress(ncclResult_t result) {
    wait_while_in_progress(comm_, result, group_.deadline());
  }
  /// `polled`: the communicator that reports NCCL's progress.
  void wait_while_in_progress(ncclComm_t polled, ncclResult_t result, const Deadline& deadline);
  /// Waits until the work on `stream` is complete. `what`: the last of it, for CUDA's error.
  void synchronize(Stream stream, const Deadline& deadline, std::string_view what = "");
  /// The same until the deadline of the operation that was enqueued last, while that runs.
  void synchronize(Stream stream);
  /// True when the event was reached. Checks for errors and the deadline.
  bool test(CUevent event, const Deadline& deadline);
  /// Waits until the event was reached. False when `limit`, which is no failure, passes first.
  bool wait(CUevent event, const Deadline& deadline, const Deadline* limit = nullptr);
  Deadline operation_deadline() const { return Deadline(group_.timeout()); }
  bool is_captured(Stream stream) const;
  /// Waits until all ranks have entered it.
  void barrier(Stream stream, const Deadline& deadline);
  /// Lets the watchdog monitor the operation that was enqueued last on `stream`.
  void hand_to_watchdog(Stream stream);

  /// Finalizes the communicator while its peers do the same, and aborts it when that takes too long. In three
  /// steps, so that several communicators can do each step at the same time.
  void begin_finalize() noexcept;
  void await_finalize(const Deadline& deadline) noexcept;
  std::optional<BackgroundCall> begin_destroy() noexcept;
  /// Starts to abort the communicator; nothing if it has ended. The caller waits.
  std::optional<BackgroundCall> begin_abort() noexcept;

  /// Called regularly by the watchdog while the program may wait for its operation in CUDA itself: warns of a
  /// stall, and reports NCCL's error or a passed deadline to the job. If the job has failed and the program
  /// has an on_loss callback, aborts, so that the program's wait returns. Does nothing while the program is
  /// in a call of this communicator, which then does all this itself.
  std::optional<BackgroundCall> poll();

 private:
  // The operation that the program enqueued last, if the program does not wait for it in this class.
  struct Pending {
    Deadline deadline;
    std::unique_ptr<CommunicatorGroup::WatchScope> scope;  // set at the first poll that finds it running
    std::optional<Deadline> error_grace;                   // runs since NCCL reported an error
    bool reported = false;
  };

  // `result`: of the call that fills the slot.
  void wait_until_ready(ncclComm_t& slot, ncclResult_t result, const Deadline& deadline);
  void check_pending();
  // True when work is complete, of which CUDA reports `state`. Throws the error that ended it.
  bool is_complete(CUresult state, const Deadline& deadline, std::string_view what = "");
  // Waits for work of which `query` returns CUDA's state. False when `limit` passes first.
  template <typename Query>
  bool wait_for(Query query, const Deadline& deadline, std::string_view what = "",
                const Deadline* limit = nullptr);
  std::string reason(ncclResult_t result) const;
  // How long to wait for the control plane to name the lost rank after this error of NCCL.
  static std::chrono::milliseconds failure_name_grace(ncclResult_t result);
  [[noreturn]] void fail_nccl(ncclResult_t result);
  [[noreturn]] void fail_wait(const Deadline& deadline);
  template <typename Throw>
  [[noreturn]] void abort_all(Throw why);
  // Ends the communicator with `close` on another thread and frees its memory.
  std::optional<BackgroundCall> begin_close(decltype(::ncclCommAbort)* close) noexcept;

  std::shared_ptr<NcclState> state_;
  CommunicatorGroup& group_;
  std::recursive_mutex mutex_;
  ncclComm_t comm_ = nullptr;
  CUevent enqueued_ = nullptr;
  std::optional<Pending> pending_;
  ncclResult_t finalize_result_ = ncclSuccess;
  CUdeviceptr token_ = 0;  // one float for the barrier
};

}  // namespace muster::detail
