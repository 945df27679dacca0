// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "communicator/mpi/mpi_types.hpp"

namespace muster::detail {

/// What the communicators on MPI share.
struct MpiState {
  std::unique_ptr<MpiTypes> types;
  std::atomic<bool> open{true};  ///< false once the job was left: MPI may be finalized
  bool yield = false;            ///< ranks share cores: give the core away while waiting
  /// MPI_THREAD_SERIALIZED: held for each call of MPI, none of which waits for another rank but
  /// MPI_Comm_split. So several threads can work, each on a communicator of its own.
  std::mutex calls;
  std::atomic<int> wanting_calls{0};  ///< threads that wait for `calls`: who looks again and again makes room
};

/// MPI's text for an error code.
std::string mpi_reason(int code);

}  // namespace muster::detail
