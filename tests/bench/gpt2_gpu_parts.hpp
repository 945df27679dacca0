// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/cuda_compute.hpp"
#include "gpu_timing.hpp"
#include "models/gpt.hpp"

/// Times the operations of one layer, of the model's ends and of the update, each by itself on random numbers
/// of the model's sizes. Prints for each its time, its part of a step that takes `step_seconds`, what it
/// reaches, and that beside the roofline: the time that its products at `peaks.flops`, or the least bytes
/// that it must move at `peaks.bandwidth`, would take.
void time_parts(const muster::models::GptConfig& config, int batch, muster::compute::cuda::CudaCompute& on,
                double step_seconds, const Peaks& peaks);
