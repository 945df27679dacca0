// SPDX-License-Identifier: Apache-2.0
#include "strategies/central_storage/central_storage.hpp"

#include <algorithm>
#include <chrono>

#include "strategies/data_parallel/replica_memory.hpp"

namespace muster {
namespace {

NodeTensors::Shape shape_of(const Workload& workload, const Replica::Settings& training) {
  return {workload.table().arena_size, Optimizer<float>::moment_count(training.optimizer.kind),
          training.real_bytes < sizeof(float)};
}

std::span<float> part_of(std::span<float> moment, const Share& part) {
  return moment.empty() ? moment : moment.subspan(part.begin, part.count());
}

}  // namespace

template <typename Real>
CentralStorage::CentralStorage(const Settings& settings, const Replica::Settings& training,
                               const Workload& workload, compute::Compute<Real>& compute, Communicator world)
    : NodeTensors(shape_of(workload, training), world, settings.host_index, settings.host),
      HostUpdates(settings.update_threads),
      Replica(training, workload, choose(compute),
              build(workload, compute, samples_at_once(training, world.rank(), world.size()), extra_scalars,
                    parameter_memory()),
              world, world,
              Storage{parameter_memory(), part(), {part_of(moment1(), part()), part_of(moment2(), part())}}) {
  compute.set_label_smoothing(training.label_smoothing);
}

template CentralStorage::CentralStorage(const Settings&, const Replica::Settings&, const Workload&,
                                        compute::Compute<float>&, Communicator);
template CentralStorage::CentralStorage(const Settings&, const Replica::Settings&, const Workload&,
                                        compute::Compute<bfloat16>&, Communicator);

MemorySegments CentralStorage::estimate_memory(const Workload& workload, const Settings& settings,
                                               const Replica::Settings& training, int rank, int ranks) {
  MemorySegments segments = NodeTensors::estimate_memory(shape_of(workload, training));
  const bool offloads = settings.update_threads > 0;
  for (MemorySegment& segment : segments) segment.is_offloaded = offloads;
  MemorySegments own = muster::estimate_memory(workload, training, rank, ranks);
  if (offloads) own = estimate_offloaded_model(workload, own);
  for (MemorySegment& segment : own) {
    const std::string& name = segment.name;
    if (name == "moments") continue;
    if (!offloads && (name == "parameters" || name == "rounded parameters")) continue;
    if (name == "sums of chunks" || name == "sums of micro-batches" || name == "copy for checkpoints")
      segment.is_offloaded = offloads;
    segments.push_back(segment);
  }
  return segments;
}

void CentralStorage::broadcast() {
  if (is_leader()) {
    NodeTensors::broadcast(tensors().parameters);
    round_parameters();
  }
  barrier();
  upload({0, table().arena_size});
}

void CentralStorage::scatter_state(const TrainingTensors& whole) {
  finish_upload();
  barrier();  // no rank's device reads the parameters any more
  const TrainingTensors own = tensors();
  if (is_rank0()) {
    std::copy(whole.parameters.begin(), whole.parameters.end(), own.parameters.begin());
    std::copy_n(whole.moment1.begin(), own.moment1.size(), own.moment1.begin());
    std::copy_n(whole.moment2.begin(), own.moment2.size(), own.moment2.begin());
  }
  if (is_leader()) {
    NodeTensors::broadcast(own.moment1);
    NodeTensors::broadcast(own.moment2);
  }
  broadcast();
}

// No step is in flight, and the next update needs rank 0, so nobody writes meanwhile.
void CentralStorage::gather_state(const TrainingTensors& whole) {
  if (!is_rank0()) return;
  const TrainingTensors own = tensors();
  std::copy(own.parameters.begin(), own.parameters.end(), whole.parameters.begin());
  std::copy(own.moment1.begin(), own.moment1.end(), whole.moment1.begin());
  std::copy(own.moment2.begin(), own.moment2.end(), whole.moment2.begin());
}

// The device gets this rank's part while other ranks update theirs, and all parts while the host prepares the
// next step. They do not change before all ranks have reduced the gradients that are computed with them.
void CentralStorage::exchange_parts(StepResult& result) {
  const auto from = std::chrono::steady_clock::now();
  upload(part());
  barrier();
  upload({0, part().begin});
  upload({part().end, table().arena_size});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  result.exposed += seconds;
  result.communication += seconds;
}

}  // namespace muster
