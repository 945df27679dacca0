// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "communicator/backend.hpp"
#include "communicator/communicator_group.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// MPI in this process, from the first host communicator to the end of the job.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  /// All ranks on host memory. Collective, once.
  virtual std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group) = 0;
  /// Finalizes MPI if the session initialised it. Communicators of it then refuse to work. Collective.
  virtual void finish(const JobContext& job, const Deadline& deadline) = 0;
};

/// Whether start_mpi() can be tried: this library has Open MPI, and PMIx starts it here or the program has.
/// The same on all ranks of a job that was started as one.
bool can_start_mpi();

/// Initialises MPI unless the program did. Collective over the job's ranks, which must have met right before:
/// MPI_Init waits for all.
/// @throws Error: environment (MPI was finalized before, or counts other ranks), deadline, system.
std::shared_ptr<MpiSession> start_mpi(const JobContext& job, const Deadline& deadline);

}  // namespace muster::detail
