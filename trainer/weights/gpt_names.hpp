// SPDX-License-Identifier: Apache-2.0
// The one place that knows how other programs name, order and lay out the tensors of a GPT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/gpt_config.hpp"

namespace muster::weights {

/// A tensor in Hugging Face's GPT-2 or Llama: one of Muster's, or some of its rows.
struct HuggingfaceTensor {
  std::string prefix, name;         ///< as in "transformer." and "wte.weight"; files may leave the prefix out
  std::vector<std::int64_t> shape;  ///< in the file
  std::size_t offset = 0;           ///< in elements, in an arena that is laid out by gpt_tensors()
  std::size_t count = 0;
  /// Stored [in, out] (Conv1D), the transpose of Muster's [out, in].
  bool transposed = false;

  std::string full_name() const { return prefix + name; }
};
/// All tensors of such a model, in the order of gpt_tensors().
std::vector<HuggingfaceTensor> huggingface_tensors(const models::GptConfig& config);
/// The output layer's name in both; a tied one is no tensor of its own.
inline constexpr const char* huggingface_output_layer = "lm_head.weight";
/// What older versions of transformers stored beside the weights: masks, frequencies.
bool is_huggingface_buffer(const std::string& name);

/// The order of llm.c's files, as positions in gpt_tensors() of a GPT-2: a kind of tensor for all layers,
/// then the next kind (fill_in_parameter_sizes() in train_gpt2.c of karpathy/llm.c). The layout of each
/// tensor is Muster's.
std::vector<std::size_t> llmc_order(const models::GptConfig& config);

}  // namespace muster::weights
