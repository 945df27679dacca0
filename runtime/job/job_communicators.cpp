// SPDX-License-Identifier: Apache-2.0
#include "job/job_communicators.hpp"

#include "communicator/control_plane/control_plane_communicator.hpp"
#include "log.hpp"
#include "roster/roster.hpp"
#include "telemetry/phase.hpp"

namespace muster::detail {

Communicator JobCommunicators::world() {
  if (!gpu || options_.cpu_ranks > 0) return host_world();
  if (!world_) {
    world_ = make_gpu_world();
    observe::log_world_timings(context_->rank, *context_->timings);
  }
  return Communicator(world_);
}

std::shared_ptr<CommunicatorBackend> JobCommunicators::make_gpu_world() {
  observe::Phase const whole("world communicator", context_->timings->world);
  Deadline const deadline(options_.deadline);
  auto const& plane = context_->plane;
  if (plane) plane->barrier("world communicator", deadline.length());
  if (plane) plane->enter_phase("setting up NCCL");
  auto made = gpu->world(CommunicatorGroup(context_, "world"), deadline);
  if (plane) plane->enter_phase("running");
  return made;
}

Communicator JobCommunicators::host_world() {
  if (!host_world_) {
    host_world_ = make_host_world();
    log::debug("host communicator: {}", host_world_->backend());
  }
  return Communicator(host_world_);
}

std::shared_ptr<CommunicatorBackend> JobCommunicators::make_host_world() {
  observe::Phase const phase("host communicator", context_->timings->host_world);
  if (context_->roster.size() == 1) return make_single_rank();
  Deadline const deadline(options_.deadline);
  auto& plane = *context_->plane;
  // MPI_Init waits for every rank without a deadline. This barrier before it names missing ranks.
  plane.barrier("host communicator", deadline.length());
  bool const over_mpi = !options_.tolerate_rank_loss && can_start_mpi();
  if (!over_mpi) return make_host_world_without_mpi();
  plane.enter_phase("setting up Open MPI");
  mpi_ = start_mpi(*context_, deadline);
  // Under Slurm the fence at the end of MPI_Init can hold back the ranks of only one node (runtime of
  // Slurm 22.05 below TreeWidth), and a message to a rank that is still inside MPI_Init crashes it: 5 of
  // 60 jobs.
  plane.barrier("Open MPI", deadline.length());
  auto made = mpi_->world(CommunicatorGroup(context_, "host"));
  plane.enter_phase("running");
  return made;
}

std::shared_ptr<CommunicatorBackend> JobCommunicators::make_host_world_without_mpi() {
  CommunicatorGroup group(context_, "host");
  if (context_->rank == 0 && !options_.tolerate_rank_loss &&
      !bootstrap::is_one_host(context_->roster, group.members()))
    log::warn(
        "collectives on host memory go over the control plane, which is slow above some kilobytes: Open MPI "
        "starts through PMIx only; add --mpi=pmix to srun, or start the program with mpirun");
  return std::make_shared<ControlPlaneCommunicator>(std::move(group));
}

Communicator JobCommunicators::intra_node(int host_index) {
  return split(intra_node_, host_index, "node communicator", context_->timings->intra_node);
}

Communicator JobCommunicators::inter_node(int local_rank) {
  return split(inter_node_, local_rank, "communicator across nodes", context_->timings->inter_node);
}

Communicator JobCommunicators::split(std::optional<Communicator>& made, int color, const char* phase,
                                     Timings::Milliseconds& time) {
  if (!made) {
    auto const all = world();
    observe::Phase const timed(phase, time);
    made = all.split(color);
  }
  return *made;
}

void JobCommunicators::drop() {
  world_ = host_world_ = nullptr;
  intra_node_ = inter_node_ = std::nullopt;
}

void JobCommunicators::finalize(const Deadline& deadline) {
  if (gpu) gpu->finalize(deadline);
  if (mpi_) mpi_->finalize(*context_, deadline);
}

}  // namespace muster::detail
