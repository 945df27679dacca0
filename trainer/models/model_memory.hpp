// SPDX-License-Identifier: Apache-2.0
// The exact memory that the models' constructors allocate, known before construction: parameters, gradients,
// and activations by kind. The models' bytes() returns what they have.
#pragma once

#include <cstdint>

#include "models/conv_net_activations.hpp"
#include "models/gpt.hpp"
#include "models/image_network.hpp"
#include "models/memory_segment.hpp"
#include "models/network_stage.hpp"

namespace muster::models {

/// Without the padding of Compute::padded_classes(), which a GPU has: a thousandth of the logits for GPT-2.
/// Memory of a Gpt, or of a stage of one, for `max_batch` sequences that computes in a type of `real_bytes`.
/// `extra`: see ModelTensors; `recompute`: see Gpt.
MemorySegments gpt_memory(const GptConfig& config, const GptStage& stage, std::uint64_t max_batch,
                          std::size_t real_bytes, std::size_t extra, bool recompute);
inline MemorySegments gpt_memory(const GptConfig& config, std::uint64_t max_batch, std::size_t real_bytes,
                                 std::size_t extra = 0, bool recompute = false) {
  return gpt_memory(config, {{0, config.layers}}, max_batch, real_bytes, extra, recompute);
}

/// Memory of a GptDecoder on a device that rounds parameters to a type of `real_bytes`; at least what it
/// allocates there.
MemorySegments decoder_memory(const GptConfig& config, std::size_t real_bytes);

/// Memory of a ConvNet, or of a stage of one.
MemorySegments conv_net_memory(const NetworkStage& stage, const ConvNetSizes& sizes, std::size_t real_bytes,
                               std::size_t extra);
/// Memory of a ConvNet for `max_batch` images.
MemorySegments conv_net_memory(const ImageNetwork& network, std::uint64_t max_batch, std::size_t real_bytes,
                               std::size_t extra = 0);

}  // namespace muster::models
