// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "models/gpt_config.hpp"
#include "models/image_network.hpp"

namespace muster::models {

/// The blocks of a network that a stage of a pipeline computes, as a network of its own. Its layer 0 is the
/// output of the block before, or the images.
struct NetworkStage {
  ImageNetwork network;
  bool is_first = true;  ///< layer 0 is the images, whose gradient nobody needs
  /// How many later layers of the whole network take the last layer's output, at most two. The gradient of
  /// the output has so many parts. 0: the output is the logits.
  int output_uses = 0;
  /// Numbers in the whole network of the stage's first trained tensor, statistic and dropout.
  std::size_t first_tensor = 0, first_statistic = 0, first_dropout = 0;

  bool is_last() const { return output_uses == 0; }
};

/// The last layer of each block. A block ends before a convolution or linear layer, and not behind one, if no
/// later layer takes the output of an earlier one: so a residual block is never cut.
std::vector<std::size_t> block_ends(const ImageNetwork& network);

/// `ends`: the network's block_ends().
NetworkStage take_blocks(const ImageNetwork& network, const std::vector<std::size_t>& ends,
                         const LayerRange& blocks);

}  // namespace muster::models
