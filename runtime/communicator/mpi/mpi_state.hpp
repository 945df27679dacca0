// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <mutex>
#include <string>

namespace muster::detail {

/// State that all MPI communicators share.
struct MpiState {
  std::atomic<bool> open{true};  ///< false after the job was left: MPI may be finalized
  bool yield = false;            ///< ranks share cores: yield the core while waiting
  /// Held during each call of MPI, because of MPI_THREAD_SERIALIZED. Only MPI_Comm_split waits for other
  /// ranks in a call, so several threads can work, each on a communicator of its own.
  std::mutex mpi_mutex;
  /// Threads that wait for `mpi_mutex`; while there are any, a thread that polls yields to them.
  std::atomic<int> mpi_mutex_waiters{0};
};

/// MPI's text for an error code.
std::string mpi_error_text(int code);

}  // namespace muster::detail
