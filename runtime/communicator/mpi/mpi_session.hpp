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
  /// The communicator of all ranks on host memory. Collective; to be called once.
  virtual std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group) = 0;
  /// Finalizes MPI if the session initialised it. Its communicators then throw on use. Collective.
  virtual void finalize(const JobContext& job, const Deadline& deadline) = 0;
};

/// Whether start_mpi() can work: this library was built with Open MPI, and PMIx can start it or the program
/// has initialised it. The same on all ranks of a job that one launcher started.
bool can_start_mpi();

/// Initialises MPI unless the program did. Collective over the job's ranks, which must have passed a barrier
/// right before: MPI_Init waits for all of them.
/// @throws Error: environment (MPI was finalized before, or its ranks differ from the job's), deadline,
/// system.
std::shared_ptr<MpiSession> start_mpi(const JobContext& job, const Deadline& deadline);

}  // namespace muster::detail
