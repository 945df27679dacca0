// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "compute/compute.hpp"
#include "muster/communicator.hpp"
#include "training/stage_model.hpp"
#include "training/workload.hpp"

namespace muster::pipeline {

/// Seconds of a forward and a backward pass of one micro-batch through a single layer of each kind
/// (Workload::layer_kinds()), on one rank; 0 where it is not measured.
using LayerTimes = std::vector<double>;

/// The seconds of a stage with these layers. `kinds`: of all layers of the model.
double stage_seconds(const LayerTimes& times, const models::LayerRange& layers,
                     const std::vector<int>& kinds);

/// What is measured for the stages of one rank.
struct MeasuredLayers {
  bool first = false, last = false;  ///< beside the layers between the first and the last one
  std::uint64_t samples = 1;         ///< of a micro-batch
  std::uint64_t seed = 0;            ///< of the parameters
};

/// Trains one layer of each kind alone on the first samples, for some tenths of a second, and takes the
/// shortest pass. Allocates one layer at a time and frees it, and leaves nothing behind. Not collective.
/// @throws Error when samples cannot be read.
template <typename Real>
LayerTimes measure_layers(const Workload& workload, const MeasuredLayers& measured,
                          compute::Compute<Real>& compute);

/// Of each of the `places` ranks of a pipeline: the slowest of all ranks at that place counts. `place`: of
/// this rank. The same on all ranks. Collective over `world`, the ranks of all pipelines on host memory.
std::vector<LayerTimes> gather_layer_times(const LayerTimes& own, int place, int places, Communicator& world);

}  // namespace muster::pipeline
