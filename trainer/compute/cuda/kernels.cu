// SPDX-License-Identifier: Apache-2.0
// All kernels of the trainer, compiled into one fat binary that is loaded through the driver. The tests
// compile the same sources for their fake GPU.
#include "compute/cuda/adamw.cuh"
#include "compute/cuda/attention_backward.cuh"
#include "compute/cuda/attention_forward.cuh"
#include "compute/cuda/column_sum.cuh"
#include "compute/cuda/cross_entropy.cuh"
#include "compute/cuda/elements.cuh"
#include "compute/cuda/embedding.cuh"
#include "compute/cuda/layer_norm.cuh"
