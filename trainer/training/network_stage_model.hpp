// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compute/compute.hpp"
#include "models/memory_segment.hpp"
#include "training/network_workload.hpp"
#include "training/stage_model.hpp"

namespace muster {

/// One stage of a network on images. The first stage and the last one both read the images:
/// which of them can be used decides about the labels, too. The workload outlives the model.
std::unique_ptr<StageModel> build_network_stage(const NetworkWorkload& workload,
                                                compute::Compute<float>& compute,
                                                const StageSettings& settings);
std::unique_ptr<StageModel> build_network_stage(const NetworkWorkload& workload,
                                                compute::Compute<bfloat16>& compute,
                                                const StageSettings& settings);

/// The exact memory that build_network_stage() allocates.
MemorySegments network_stage_memory(const NetworkWorkload& workload, const StageSettings& settings,
                                    std::size_t real_bytes);

}  // namespace muster
