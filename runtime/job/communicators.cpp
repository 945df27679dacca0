// SPDX-License-Identifier: Apache-2.0
// The job's own communicators; each is made on first use.
#include "communicator/control_plane/control_plane_communicator.hpp"
#include "job/job_state.hpp"
#include "log.hpp"
#include "telemetry/phase.hpp"

namespace muster {

Communicator Job::world() {
  state_->require_joined("world");
  if (!on_gpu()) return host_world();
  if (!state_->world) {
    state_->world = state_->make_gpu_world();
    observe::log_world_timings(rank(), *state_->context->timings);
  }
  return Communicator(state_->world);
}

std::shared_ptr<detail::CommunicatorBackend> Job::State::make_gpu_world() {
  observe::Phase const whole("world communicator", context->timings->world);
  Deadline const deadline(options.deadline);
  auto const& plane = context->plane;
  if (plane) plane->barrier("world communicator", deadline.length());
  if (plane) plane->enter_phase("setting up NCCL");
  auto made = gpu->world(detail::CommunicatorGroup(context, "world"), deadline);
  if (plane) plane->enter_phase("running");
  return made;
}

Communicator Job::host_world() {
  state_->require_joined("host_world");
  if (!state_->host_world) {
    state_->host_world = state_->make_host_world();
    log::debug("host communicator: {}", state_->host_world->backend());
  }
  return Communicator(state_->host_world);
}

std::shared_ptr<detail::CommunicatorBackend> Job::State::make_host_world() {
  observe::Phase const phase("host communicator", context->timings->host_world);
  if (size() == 1) return detail::make_single_rank();
  Deadline const deadline(options.deadline);
  auto& plane = *context->plane;
  // MPI_Init waits for every rank without a deadline. This barrier before it names missing ranks.
  plane.barrier("host communicator", deadline.length());
  bool const over_mpi = !options.tolerate_rank_loss && detail::can_start_mpi();
  if (!over_mpi && !options.tolerate_rank_loss && context->rank == 0)
    log::warn(
        "collectives on host memory go over the control plane, which is slow above some kilobytes: Open MPI "
        "starts through PMIx only; add --mpi=pmix to srun, or start the program with mpirun");
  if (!over_mpi)
    return std::make_shared<detail::ControlPlaneCommunicator>(detail::CommunicatorGroup(context, "host"));
  plane.enter_phase("setting up Open MPI");
  mpi = detail::start_mpi(*context, deadline);
  // Under Slurm the fence at the end of MPI_Init can hold back the ranks of only one node (runtime of
  // Slurm 22.05 below TreeWidth), and a message to a rank that is still inside MPI_Init crashes it: 5 of
  // 60 jobs.
  plane.barrier("Open MPI", deadline.length());
  auto made = mpi->world(detail::CommunicatorGroup(context, "host"));
  plane.enter_phase("running");
  return made;
}

Communicator Job::intra_node() {
  state_->require_joined("intra_node");
  if (!state_->intra_node) {
    auto const all = world();
    observe::Phase const phase("node communicator", state_->context->timings->intra_node);
    state_->intra_node = all.split(host_index());
  }
  return *state_->intra_node;
}

Communicator Job::inter_node() {
  state_->require_joined("inter_node");
  if (!state_->inter_node) {
    auto const all = world();
    observe::Phase const phase("communicator across nodes", state_->context->timings->inter_node);
    state_->inter_node = all.split(local_rank());
  }
  return *state_->inter_node;
}

}  // namespace muster
