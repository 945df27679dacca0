// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "muster/sampler.hpp"

namespace muster::detail {

/// A subtree of the fixed binary tree over chunks 0 … total-1: at level l, node i covers the chunks
/// [i << l, (i + 1) << l) below `total`. A node is the sum of its left and its right child. If the right
/// child covers no chunk below `total`, the node is its left child.
struct TreeNode {
  int level = 0;
  std::uint64_t index = 0;
  bool operator==(const TreeNode&) const = default;
};

/// The order in which the chunks' gradients are added, like the carries of a binary counter. Nodes are pushed
/// from left to right without gaps, and each addition is of two siblings. So whatever nodes each rank has
/// combined its chunks into before, the same additions are made and the root has the same bits.
class ChunkTree {
 public:
  /// `total` > 0.
  explicit ChunkTree(std::uint64_t total);

  /// How to add the pushed node. Slots count from 0, and each holds one node's sum.
  struct Step {
    std::size_t slot = 0;       ///< the node's slot
    std::size_t additions = 0;  ///< then this many additions: slot-1 += slot, slot-2 += slot-1, …
  };
  Step push(TreeNode node);
  void clear() noexcept { nodes_.clear(); }

  /// The nodes whose sums are in the slots now.
  const std::vector<TreeNode>& nodes() const noexcept { return nodes_; }
  /// The nodes that remain after the chunks of `range` were pushed one by one.
  std::vector<TreeNode> cover(const Share& range) const;

 private:
  // The highest ancestor that equals this node, because right siblings are missing.
  TreeNode promoted(TreeNode node) const noexcept;

  std::uint64_t total_;
  int height_;
  std::vector<TreeNode> nodes_;
};

}  // namespace muster::detail
