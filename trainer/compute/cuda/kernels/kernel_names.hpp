// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace muster::compute::cuda {

/// Kernels of kernels.cu, in the order of kernel_names.
enum class Kernel : std::size_t {
  embed,
  embed_tokens_backward,
  embed_positions_backward,
  layer_norm,
  layer_norm_backward,
  rms_norm,
  rms_norm_backward,
  rotate,
  swiglu,
  swiglu_backward,
  column_parts,
  sum_parts,
  attention,
  attention_queries_backward,
  attention_keys_backward,
  cross_entropy,
  sum_losses,
  gelu,
  gelu_backward,
  round,
  accumulate,
  squares,
  sum_squares,
  find_not_finite,
  end_chunk,
  decide,
  adamw,
  sgd
};
inline constexpr std::array kernel_names{"muster_embed",
                                         "muster_embed_tokens_backward",
                                         "muster_embed_positions_backward",
                                         "muster_layer_norm",
                                         "muster_layer_norm_backward",
                                         "muster_rms_norm",
                                         "muster_rms_norm_backward",
                                         "muster_rotate",
                                         "muster_swiglu",
                                         "muster_swiglu_backward",
                                         "muster_column_parts",
                                         "muster_sum_parts",
                                         "muster_attention",
                                         "muster_attention_queries_backward",
                                         "muster_attention_keys_backward",
                                         "muster_cross_entropy",
                                         "muster_sum_losses",
                                         "muster_gelu",
                                         "muster_gelu_backward",
                                         "muster_round",
                                         "muster_accumulate",
                                         "muster_squares",
                                         "muster_sum_squares",
                                         "muster_find_not_finite",
                                         "muster_end_chunk",
                                         "muster_decide",
                                         "muster_adamw",
                                         "muster_sgd"};

}  // namespace muster::compute::cuda
