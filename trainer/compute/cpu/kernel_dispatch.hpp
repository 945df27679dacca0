// SPDX-License-Identifier: Apache-2.0
// The symbols that one compilation of the kernel sources exports. The build defines MUSTER_KERNEL_SET as
// their namespace.
#pragma once

#include "compute/cpu/kernels.hpp"

#define MUSTER_DECLARE_KERNEL_SET(set)                         \
  namespace muster::compute::cpu::set {                        \
  extern const RowKernels<float> float_rows;                   \
  extern const RowKernels<double> double_rows;                 \
  extern const RowKernels<bfloat16> bfloat16_rows;             \
  extern const AttentionKernels<float> float_attention;        \
  extern const AttentionKernels<double> double_attention;      \
  extern const AttentionKernels<bfloat16> bfloat16_attention;  \
  extern const DecodeKernels<float> float_decode;              \
  extern const DecodeKernels<double> double_decode;            \
  extern const DecodeKernels<bfloat16> bfloat16_decode;        \
  extern const LlamaKernels<float> float_llama;                \
  extern const LlamaKernels<double> double_llama;              \
  extern const LlamaKernels<bfloat16> bfloat16_llama;          \
  extern const BatchNormKernels<float> float_batch_norm;       \
  extern const BatchNormKernels<double> double_batch_norm;     \
  extern const BatchNormKernels<bfloat16> bfloat16_batch_norm; \
  extern const DepthwiseKernels<float> float_depthwise;        \
  extern const DepthwiseKernels<double> double_depthwise;      \
  extern const DepthwiseKernels<bfloat16> bfloat16_depthwise;  \
  extern const PoolKernels<float> float_pool;                  \
  extern const PoolKernels<double> double_pool;                \
  extern const PoolKernels<bfloat16> bfloat16_pool;            \
  extern const ReluKernels<float> float_relu;                  \
  extern const ReluKernels<double> double_relu;                \
  extern const ReluKernels<bfloat16> bfloat16_relu;            \
  extern const MatmulKernels<float> float_matmul;              \
  extern const MatmulKernels<double> double_matmul;            \
  extern const UpdateKernels<float> float_update;              \
  extern const UpdateKernels<double> double_update;            \
  }

#ifdef MUSTER_KERNEL_SET
MUSTER_DECLARE_KERNEL_SET(MUSTER_KERNEL_SET)
#endif
