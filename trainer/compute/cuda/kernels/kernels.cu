// SPDX-License-Identifier: Apache-2.0
// All kernels of the trainer, compiled into one fat binary that is loaded through the driver. The tests
// compile the same sources for their fake GPU.
#include "compute/cuda/kernels/attention_backward.cuh"
#include "compute/cuda/kernels/attention_forward.cuh"
#include "compute/cuda/kernels/batch_norm.cuh"
#include "compute/cuda/kernels/column_sum.cuh"
#include "compute/cuda/kernels/cross_entropy.cuh"
#include "compute/cuda/kernels/decode.cuh"
#include "compute/cuda/kernels/elements.cuh"
#include "compute/cuda/kernels/embedding.cuh"
#include "compute/cuda/kernels/image.cuh"
#include "compute/cuda/kernels/layer_norm.cuh"
#include "compute/cuda/kernels/llama.cuh"
#include "compute/cuda/kernels/update.cuh"
