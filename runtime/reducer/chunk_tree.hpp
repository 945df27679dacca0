// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "muster/sampler.hpp"

namespace muster::detail {

/// A subtree of the fixed binary tree over chunks 0 … total-1: at level l, node i covers the chunks
/// [i << l, (i + 1) << l) below `total`. A node is the sum of its left child and its right child; where all
/// of the right one lies beyond `total`, it is its left child.
struct TreeNode {
  int level = 0;
  std::uint64_t index = 0;
  bool operator==(const TreeNode&) const = default;
};

/// The order in which the chunks' gradients are added: like the carries of a binary counter. Nodes come from
/// left to right without a gap; each addition is of two siblings, so whatever nodes the chunks were brought
/// together in before (each rank its own), the same additions are made and the root has the same bits.
class ChunkTree {
 public:
  /// `total` > 0.
  explicit ChunkTree(std::uint64_t total);

  /// What to do with the node that comes next; slots count from 0 and each holds one node's sum.
  struct Step {
    std::size_t slot = 0;       ///< where the node goes
    std::size_t additions = 0;  ///< then: slot-1 += slot, slot-2 += slot-1 …, so many times
  };
  Step push(TreeNode node);
  void clear() noexcept { nodes_.clear(); }

  /// The nodes whose sums are in the slots now.
  const std::vector<TreeNode>& nodes() const noexcept { return nodes_; }
  /// The nodes that are left when the chunks of `range` were pushed one by one.
  std::vector<TreeNode> cover(const Share& range) const;

 private:
  // The parent, when the node has no right sibling.
  TreeNode risen(TreeNode node) const noexcept;

  std::uint64_t total_;
  int height_;
  std::vector<TreeNode> nodes_;
};

}  // namespace muster::detail
