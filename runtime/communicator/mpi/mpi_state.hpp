// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>

#include "communicator/mpi/mpi_library.hpp"

namespace muster::detail {

/// State that all MPI communicators share.
struct MpiState {
  const MpiLibrary& mpi = MpiLibrary::get();
  std::atomic<bool> open{true};  ///< false after the job was left: MPI may be finalized
  bool yield = false;            ///< ranks share cores: yield the core while waiting
  /// Held during each call of MPI, because of MPI_THREAD_SERIALIZED. Only MPI_Comm_split waits for other
  /// ranks in a call, so several threads can work, each on a communicator of its own.
  std::mutex mpi_mutex;
  /// Threads that wait for `mpi_mutex`; while there are any, a thread that polls yields to them.
  std::atomic<int> mpi_mutex_waiters{0};
};

}  // namespace muster::detail
