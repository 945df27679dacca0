// SPDX-License-Identifier: Apache-2.0
#include "reducer/chunk_tree.hpp"

#include <bit>

namespace muster::detail {

ChunkTree::ChunkTree(std::uint64_t total)
    : total_(total), height_(static_cast<int>(std::bit_width(total - 1))) {}

TreeNode ChunkTree::promoted(TreeNode node) const noexcept {
  // True only for the last node of a level: there is no chunk to its right.
  while (node.level < height_ && node.index % 2 == 0 && (node.index + 1) << node.level >= total_)
    node = {node.level + 1, node.index / 2};
  return node;
}

ChunkTree::Step ChunkTree::push(TreeNode node) {
  Step step{nodes_.size(), 0};
  node = promoted(node);
  while (!nodes_.empty() && node.index % 2 == 1 && nodes_.back() == TreeNode{node.level, node.index - 1}) {
    nodes_.pop_back();
    node = promoted({node.level + 1, node.index / 2});
    ++step.additions;
  }
  nodes_.push_back(node);
  return step;
}

std::vector<TreeNode> ChunkTree::cover(const Share& range) const {
  ChunkTree tree(total_);
  for (auto chunk = range.begin; chunk < range.end; ++chunk) tree.push({0, chunk});
  return tree.nodes_;
}

}  // namespace muster::detail
