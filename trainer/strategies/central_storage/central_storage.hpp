// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "models/memory_segment.hpp"
#include "strategies/central_storage/node_tensors.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/offload/offloaded_model.hpp"

namespace muster {

/// Data parallelism in which the ranks of a node share one copy of the parameters and of the optimizer's
/// moments, as TensorFlow's CentralStorageStrategy. Each rank computes gradients with the shared parameters,
/// in memory of its own, where they are reduced. Then each rank updates a part of the node's copy. With
/// several nodes, every node has a copy and updates all of it.
///
/// A rank updates only after all ranks' gradients are reduced, and so after all have read the parameters for
/// the last time in a step. It reads them again after its node's barrier. All bits are those of data
/// parallelism.
///
/// A rank with a GPU has the rounded parameters there (OffloadedModel). Gradients are reduced on the host,
/// and the update is that of the CPU (ZeRO-Offload, Ren et al., arXiv 2101.06840).
class CentralStorage final : private NodeTensors, private HostUpdates, public Replica {
 public:
  struct Settings {
    int host_index = 0;  ///< of this rank's node
    std::string host;    ///< its name
    /// Above 0, the rank computes gradients on a device, and so many threads update the shared tensors on the
    /// host (optimizer offload). 0: the rank computes on the host.
    int update_threads = 0;
  };

  /// `training`: without shard_optimizer and on_device. Collective; otherwise as Replica's.
  /// @throws Error as NodeMemory.
  template <typename Real>
  CentralStorage(const Settings& settings, const Replica::Settings& training, const Workload& workload,
                 compute::Compute<Real>& compute, Communicator world);

  /// The memory that `rank` of `ranks` allocates for training, with that which it shares.
  static MemorySegments estimate_memory(const Workload& workload, const Settings& settings,
                                        const Replica::Settings& training, int rank, int ranks);

  void broadcast() override;
  void scatter_state(const TrainingTensors& whole) override;
  void gather_state(const TrainingTensors& whole) override;
  /// Of this rank's node.
  TrainingTensors tensors() noexcept { return {Replica::tensors().parameters, moment1(), moment2(), {}}; }
  using NodeTensors::shared_bytes;

 private:
  void exchange_parts(StepResult& result) override;
};

}  // namespace muster
