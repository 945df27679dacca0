// SPDX-License-Identifier: Apache-2.0
// Gradients added in a fixed binary tree over chunk numbers.
//
// Each rank adds its own chunks as far as the tree allows, which leaves a few subtrees: one when its chunks
// are a subtree, else at most two for each level. Each rank then finishes the tree for one shard of the
// bucket: it gets that shard of every rank's subtrees by all_to_all, makes the additions that are left, and
// sends the sums to all by all_gather. Every element is so added along the same tree, each addition rounded
// once in float32, whatever the number of ranks; and with one subtree for each rank the traffic is that of a
// ring all-reduce.
#include <algorithm>
#include <vector>

#include "observe/operation.hpp"
#include "reducer/chunk_tree.hpp"
#include "reducer/host_reduction.hpp"

namespace muster::detail {
namespace {

void add(float* to, const float* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

class TreeReduction : public HostReduction {
 public:
  TreeReduction(std::shared_ptr<Collectives> own, std::shared_ptr<const GradientLayout> layout,
                Reduction reduction, std::uint64_t chunks)
      : own_(std::move(own)),
        layout_(std::move(layout)),
        divisor_(reduction == Reduction::average ? static_cast<float>(chunks) : 1.0f),
        chunks_(chunks),
        tree_(chunks),
        partial_(layout_->buckets.size()) {
    for (int r = 0; r < own_->size(); ++r) {
      covers_.push_back(tree_.cover(share_of(chunks, r, own_->size())));
      most_nodes_ = std::max(most_nodes_, covers_.back().size());
    }
    for (auto& partial : partial_) partial.tree = ChunkTree(chunks);
    next_chunk_.assign(layout_->buckets.size(), share_of(chunks, own_->rank(), own_->size()).begin);
  }

  void take(std::size_t index) override {
    const Bucket& bucket = layout_->buckets[index];
    auto& tree = partial_[index].tree;
    auto& slots = partial_[index].slots;  // not bound together: clang 14 lets no lambda have such names
    auto step = tree.push({0, next_chunk_[index]++});
    auto const from_gradients = [&](std::size_t slot, bool adding) {
      if (slots.size() <= slot) slots.resize(slot + 1);
      slots[slot].resize(bucket.count);
      for_each_gradient(bucket, layout_->gradients, [&](std::span<float> gradient, std::size_t at) {
        if (adding) return add(slots[slot].data() + at, gradient.data(), gradient.size());
        std::copy(gradient.begin(), gradient.end(), slots[slot].data() + at);
      });
    };
    if (step.additions == 0) return from_gradients(step.slot, false);
    from_gradients(step.slot - 1, true);
    for (std::size_t i = 1; i < step.additions; ++i)
      add(slots[step.slot - i - 1].data(), slots[step.slot - i].data(), bucket.count);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = layout_->buckets[index];
    auto& partial = partial_[index];
    if (bucket.count > 0) {
      if (own_->size() == 1) {
        divide(partial.slots[0].data(), bucket.count);
        copy_in(bucket, layout_->gradients, partial.slots[0].data());
      } else {
        across_ranks(bucket, partial.slots);
      }
    }
    partial.tree.clear();
    next_chunk_[index] = share_of(chunks_, own_->rank(), own_->size()).begin;
  }

  std::size_t bytes(std::size_t index) const override {
    return layout_->buckets[index].count * most_nodes_ * sizeof(float);
  }

 private:
  struct Partial {
    ChunkTree tree{1};
    std::vector<std::vector<float>> slots;
  };

  void across_ranks(const Bucket& bucket, const std::vector<std::vector<float>>& slots) {
    auto const ranks = static_cast<std::size_t>(own_->size());
    auto const shard = (bucket.count + ranks - 1) / ranks;
    auto const room = ranks * most_nodes_ * shard;
    if (mine_.size() < room) mine_.resize(room);
    if (theirs_.size() < room) theirs_.resize(room);
    auto const nodes = covers_[static_cast<std::size_t>(own_->rank())].size();
    for (std::size_t r = 0; r < ranks; ++r) {
      auto const begin = std::min(r * shard, bucket.count);
      auto const length = std::min(shard, bucket.count - begin);
      for (std::size_t node = 0; node < nodes; ++node)
        std::copy_n(slots[node].data() + begin, length, mine_.data() + (r * most_nodes_ + node) * shard);
    }
    {
      observe::Operation const call(*own_, observe::Kind::all_to_all, room * sizeof(float));
      own_->all_to_all(mine_.data(), theirs_.data(), most_nodes_ * shard, DataType::float32, nullptr);
    }
    float* const root = finish_tree(shard);
    divide(root, shard);
    {
      observe::Operation const call(*own_, observe::Kind::all_gather, shard * sizeof(float));
      own_->all_gather(root, mine_.data(), shard, DataType::float32, nullptr);
    }
    copy_in(bucket, layout_->gradients, mine_.data());
  }

  // The additions between the ranks' subtrees, in place in theirs_; a slot is where its node lies.
  float* finish_tree(std::size_t shard) {
    tree_.clear();
    std::vector<float*> slots;
    for (std::size_t r = 0; r < covers_.size(); ++r) {
      for (std::size_t node = 0; node < covers_[r].size(); ++node) {
        auto const step = tree_.push(covers_[r][node]);
        slots.push_back(theirs_.data() + (r * most_nodes_ + node) * shard);
        for (std::size_t i = 0; i < step.additions; ++i) {
          add(slots[slots.size() - 2], slots.back(), shard);
          slots.pop_back();
        }
      }
    }
    return slots.front();
  }

  void divide(float* sums, std::size_t count) const {
    if (divisor_ == 1.0f) return;
    for (std::size_t i = 0; i < count; ++i) sums[i] /= divisor_;
  }

  std::shared_ptr<Collectives> own_;
  std::shared_ptr<const GradientLayout> layout_;
  float divisor_;
  std::uint64_t chunks_;
  ChunkTree tree_;                             // between ranks
  std::vector<std::vector<TreeNode>> covers_;  // by rank
  std::size_t most_nodes_ = 0;
  std::vector<Partial> partial_;           // by bucket
  std::vector<std::uint64_t> next_chunk_;  // by bucket
  std::vector<float> mine_, theirs_;
};

}  // namespace

std::unique_ptr<HostReduction> make_tree_reduction(std::shared_ptr<Collectives> own,
                                                   std::shared_ptr<const GradientLayout> layout,
                                                   Reduction reduction, std::uint64_t chunks) {
  return std::make_unique<TreeReduction>(std::move(own), std::move(layout), reduction, chunks);
}

}  // namespace muster::detail
