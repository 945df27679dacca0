// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "compute/compute.hpp"
#include "muster/communicator.hpp"
#include "training/stage_model.hpp"
#include "training/workload.hpp"

namespace muster::pipeline {

/// Seconds of a forward and a backward pass of one micro-batch through a single layer, on one rank.
struct LayerTimes {
  double first = 0;  ///< the model's first layer with the embeddings; 0 where it is not measured
  double inner = 0;  ///< a layer between the first and the last one; 0 for a model without one
  double last = 0;   ///< the last layer with the output layer and the loss; 0 where it is not measured
  bool operator==(const LayerTimes&) const = default;
};

/// The seconds of a stage with these layers of `model_layers`, which does not have all of them.
double stage_seconds(const LayerTimes& times, const models::LayerRange& layers, int model_layers);

/// What is measured for the stages of one rank.
struct MeasuredLayers {
  bool first = false, last = false;  ///< beside an inner layer
  std::uint64_t samples = 1;         ///< of a micro-batch
  std::uint64_t seed = 0;            ///< of the parameters
};

/// Trains each kind of layer alone on the first samples, for some tenths of a second, and takes the shortest
/// pass. Allocates one layer at a time and frees it, and leaves nothing behind. Not collective.
/// @throws Error when samples cannot be read.
template <typename Real>
LayerTimes measure_layers(const Workload& workload, const MeasuredLayers& measured,
                          compute::Compute<Real>& compute);

/// Of each rank of a pipeline, by its place in it: the slowest of the `replicas` ranks at the place counts.
/// The same on all ranks. Collective over `world`, the ranks of all pipelines on host memory.
std::vector<LayerTimes> gather_layer_times(const LayerTimes& own, int replicas, Communicator& world);

}  // namespace muster::pipeline
