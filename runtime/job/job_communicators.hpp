// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "communicator/communicator_group.hpp"
#include "communicator/mpi/mpi_session.hpp"
#include "communicator/nccl/gpu.hpp"
#include "muster/job.hpp"

namespace muster::detail {

/// The job's own communicators, and the GPU and MPI session that they work on. Each is made by its first use,
/// which is collective over the job. Not thread-safe.
class JobCommunicators {
 public:
  /// Both must outlive this object; shrinking the job replaces the context.
  JobCommunicators(const std::shared_ptr<JobContext>& context, const JoinOptions& options)
      : context_(context), options_(options) {}

  /// Null when the world works on host memory. Set while the rank joins.
  std::shared_ptr<Gpu> gpu;

  Communicator world();
  Communicator host_world();
  /// The ranks of this host, and those of this local rank.
  Communicator intra_node(int host_index);
  Communicator inter_node(int local_rank);

  /// Forgets all of them, for a job that goes on after a loss.
  void drop();
  void finalize(const Deadline& deadline);

 private:
  Communicator split(std::optional<Communicator>& made, int color, const char* phase,
                     Timings::Milliseconds& time);
  std::shared_ptr<CommunicatorBackend> make_gpu_world();
  std::shared_ptr<CommunicatorBackend> make_host_world();
  std::shared_ptr<CommunicatorBackend> make_host_world_without_mpi();

  const std::shared_ptr<JobContext>& context_;
  const JoinOptions& options_;
  std::shared_ptr<MpiSession> mpi_;
  std::shared_ptr<CommunicatorBackend> world_, host_world_;
  std::optional<Communicator> intra_node_, inter_node_;
};

}  // namespace muster::detail
