// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "communicator/nccl/nccl_library.hpp"
#include "cuda/cuda_library.hpp"
#include "deadline.hpp"

namespace muster::detail {

class NcclComm;
class NcclWatchdog;

/// The longest wait for the end of a communicator, which then goes on in the background.
inline constexpr std::chrono::milliseconds nccl_abort_wait{5000};

/// State that the NCCL communicators of a process share.
struct NcclState {
  CudaLibrary cuda;
  NcclLibrary nccl;
  CUcontext context = nullptr;  ///< the context of this rank's GPU
  bool open = true;             ///< false after the job was left
  std::mutex mutex;             ///< protects `all` and `window_slots`
  std::vector<NcclComm*> all;   ///< all that exist, to end them together
  /// Memory into which NCCL writes new communicators. NCCL's thread may write late, even after a failure, so
  /// it is never freed before this state.
  std::vector<std::shared_ptr<ncclComm_t>> slots;
  /// The same for windows.
  std::vector<std::shared_ptr<void*>> window_slots;
  /// Set once a communicator has several ranks.
  std::unique_ptr<NcclWatchdog> watchdog;

  NcclState();
  ~NcclState();
  std::vector<NcclComm*> open_communicators();

  /// Finalizes all communicators in order; their waits for other ranks run at the same time.
  void finalize_all(const Deadline& deadline) noexcept;
  /// Aborts these communicators at the same time, because the abort of one can wait for another's (nccl#549),
  /// and waits for all of them.
  void abort(const std::vector<NcclComm*>& which) noexcept;
};

}  // namespace muster::detail
