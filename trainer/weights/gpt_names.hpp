// SPDX-License-Identifier: Apache-2.0
// The one place that knows how other programs name, order and lay out the tensors of a GPT.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/gpt_config.hpp"

namespace muster::weights {

/// A tensor in Hugging Face's GPT-2, without the prefix "transformer.".
struct HuggingfaceName {
  std::string name;
  /// Stored [in, out] (Conv1D), the transpose of Muster's [out, in].
  bool transposed = false;
};
/// One name for each tensor of gpt_tensors(), in its order.
std::vector<HuggingfaceName> huggingface_names(const models::GptConfig& config);

/// The order of llm.c's files, as positions in gpt_tensors(): a kind of tensor for all layers, then the next
/// kind (fill_in_parameter_sizes() in train_gpt2.c of karpathy/llm.c). The layout of each tensor is Muster's.
std::vector<std::size_t> llmc_order(const models::GptConfig& config);

}  // namespace muster::weights
