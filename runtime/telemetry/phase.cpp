// SPDX-License-Identifier: Apache-2.0
#include "telemetry/phase.hpp"

#include "log.hpp"

namespace muster::observe {

Phase::~Phase() {
  auto const end = now();
  event_log().add_phase(name_, begin_, end);
  std::chrono::duration<double, std::nano> const took(static_cast<double>(end - begin_));
  into_ += took;
  log::debug("{}: {:.3f} ms", name_, took.count() / 1e6);
}

void log_join_timings(int rank, const Timings& timings) {
  log::info(
      "rank {}: join took {:.1f} ms: finding the job {:.1f}, GPU {:.1f}, exchange of hellos {:.1f}, "
      "control plane {:.1f}",
      rank, timings.join.count(), timings.bootstrap.count(), timings.gpu.count(), timings.exchange.count(),
      timings.plane.count());
}

void log_world_timings(int rank, const Timings& timings) {
  log::info(
      "rank {}: world communicator took {:.1f} ms: NCCL id {:.1f}, NCCL initialisation {:.1f}, "
      "first collective {:.1f}",
      rank, timings.world.count(), timings.nccl_id.count(), timings.nccl_init.count(),
      timings.first_collective.count());
}

}  // namespace muster::observe
