// SPDX-License-Identifier: Apache-2.0
// Gradients added in a fixed binary tree over chunk numbers.
//
// Each rank adds its own chunks as far as the tree allows, which leaves a few subtrees: one if its chunks are
// a subtree, else at most two for each level. Each rank then finishes the tree for one shard of the bucket:
// it receives that shard of every rank's subtrees by all_to_all, makes the remaining additions, and sends the
// sums to all ranks by all_gather. So every element is added along the same tree, each addition rounded once
// in float32, whatever the number of ranks. With one subtree for each rank the traffic is that of a ring
// all-reduce.
#include <algorithm>
#include <utility>
#include <vector>

#include "communicator/operation.hpp"
#include "reducer/chunk_tree.hpp"
#include "reducer/reduction.hpp"

namespace muster::detail {
namespace {

std::size_t shard_size(const Bucket& bucket, std::size_t ranks) { return (bucket.count + ranks - 1) / ranks; }

/// The most sums of this rank's chunks that must be stored at a time, for each bucket.
std::size_t count_slots(ChunkTree tree, const Share& chunks) {
  std::size_t slots = 0;
  for (auto chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    auto const step = tree.push({0, chunk});
    slots = std::max(slots, step.additions == 0 ? step.slot + 1 : step.slot);
  }
  return slots;
}

/// Each rank's subtrees.
std::vector<std::vector<TreeNode>> covers_by_rank(std::uint64_t chunks, int ranks) {
  std::vector<std::vector<TreeNode>> covers;
  for (int r = 0; r < ranks; ++r) covers.push_back(ChunkTree(chunks).cover(share_of(chunks, r, ranks)));
  return covers;
}

std::size_t max_subtrees(const std::vector<std::vector<TreeNode>>& covers) {
  std::size_t max_size = 0;
  for (auto const& cover : covers) max_size = std::max(max_size, cover.size());
  return max_size;
}

/// Memory of a tree reduction: the sums (slots) that each bucket stores, the floats of all these sums, and
/// the floats of each of the two exchange buffers.
struct TreeMemory {
  std::size_t slots = 0, sums = 0, exchange = 0;
};

TreeMemory tree_memory(std::span<const Bucket> buckets, std::uint64_t chunks, std::size_t max_nodes, int rank,
                       int ranks) {
  std::size_t total = 0, longest = 0;
  auto const parts = static_cast<std::size_t>(ranks);
  for (const auto& bucket : buckets) {
    total += bucket.count;
    longest = std::max(longest, shard_size(bucket, parts));
  }
  auto const slots = count_slots(ChunkTree(chunks), share_of(chunks, rank, ranks));
  return {slots, slots * total, ranks == 1 ? 0 : parts * max_nodes * longest};
}

class TreeReduction : public BucketReduction {
 public:
  TreeReduction(ReductionParts parts, Reduction reduction, std::uint64_t chunks)
      : parts_(std::move(parts)),
        ranks_(static_cast<std::size_t>(parts_.comm->size())),
        divisor_(reduction == Reduction::average ? static_cast<float>(chunks) : 1.0f),
        own_chunks_(share_of(chunks, parts_.comm->rank(), parts_.comm->size())),
        tree_(chunks),
        covers_(covers_by_rank(chunks, parts_.comm->size())),
        max_nodes_(max_subtrees(covers_)),
        partial_(parts_.layout->buckets.size()) {
    for (auto& partial : partial_) partial.tree = ChunkTree(chunks);
    next_chunk_.assign(partial_.size(), own_chunks_.begin);
    allocate(
        tree_memory(parts_.layout->buckets, chunks, max_nodes_, parts_.comm->rank(), parts_.comm->size()));
  }

  void add_chunk(std::size_t index) override {
    const Bucket& bucket = parts_.layout->buckets[index];
    auto const& slots = partial_[index].slots;
    auto const step = partial_[index].tree.push({0, next_chunk_[index]++});
    if (step.additions == 0) {
      return flatten(bucket, parts_.layout->gradients, *parts_.arithmetic, slots[step.slot]);
    }
    for_each_piece<float>(bucket, parts_.layout->gradients, [&](std::span<float> piece, std::size_t at) {
      parts_.arithmetic->add(slots[step.slot - 1] + at, piece.data(), piece.size());
    });
    for (std::size_t i = 1; i < step.additions; ++i)
      parts_.arithmetic->add(slots[step.slot - i - 1], slots[step.slot - i], bucket.count);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = parts_.layout->buckets[index];
    auto& partial = partial_[index];
    if (bucket.count > 0) {
      if (ranks_ == 1) {
        divide(partial.slots[0], bucket.count);
        unflatten(bucket, parts_.layout->gradients, *parts_.arithmetic, partial.slots[0]);
      } else {
        reduce_across_ranks(bucket, partial.slots);
      }
    }
    partial.tree.clear();
    next_chunk_[index] = own_chunks_.begin;
  }

  std::size_t bytes(std::size_t index) const override {
    return parts_.layout->buckets[index].count * max_nodes_ * sizeof(float);
  }

 private:
  struct Partial {
    ChunkTree tree{1};
    std::vector<float*> slots;
  };

  void allocate(const TreeMemory& memory) {
    float* next = parts_.arithmetic->floats(memory.sums);
    for (std::size_t b = 0; b < partial_.size(); ++b) {
      for (std::size_t slot = 0; slot < memory.slots; ++slot, next += parts_.layout->buckets[b].count)
        partial_[b].slots.push_back(next);
    }
    if (ranks_ == 1) return;
    send_buffer_ = parts_.arithmetic->floats(memory.exchange);
    recv_buffer_ = parts_.arithmetic->floats(memory.exchange);
  }

  void reduce_across_ranks(const Bucket& bucket, const std::vector<float*>& slots) {
    auto const shard = shard_size(bucket, ranks_);
    auto const nodes = covers_[static_cast<std::size_t>(parts_.comm->rank())].size();
    for (std::size_t r = 0; r < ranks_; ++r) {
      auto const begin = std::min(r * shard, bucket.count);
      auto const length = std::min(shard, bucket.count - begin);
      for (std::size_t node = 0; node < nodes; ++node)
        parts_.arithmetic->copy(send_buffer_ + (r * max_nodes_ + node) * shard, slots[node] + begin,
                                length * sizeof(float));
    }
    exchange({OperationKind::all_to_all, send_buffer_, recv_buffer_, max_nodes_ * shard});
    float* const root = finish_tree(shard);
    divide(root, shard);
    exchange({OperationKind::all_gather, root, send_buffer_, shard});
    unflatten(bucket, parts_.layout->gradients, *parts_.arithmetic, send_buffer_);
  }

  void exchange(const CollectiveCall& call) {
    observe::run_operation(*parts_.comm, call, parts_.arithmetic->stream());
  }

  // Makes the additions between the ranks' subtrees, in place in recv_buffer_. A slot is the address of its
  // node.
  float* finish_tree(std::size_t shard) {
    tree_.clear();
    std::vector<float*> slots;
    for (std::size_t r = 0; r < covers_.size(); ++r) {
      for (std::size_t node = 0; node < covers_[r].size(); ++node) {
        auto const step = tree_.push(covers_[r][node]);
        slots.push_back(recv_buffer_ + (r * max_nodes_ + node) * shard);
        for (std::size_t i = 0; i < step.additions; ++i) {
          parts_.arithmetic->add(slots[slots.size() - 2], slots.back(), shard);
          slots.pop_back();
        }
      }
    }
    return slots.front();
  }

  void divide(float* sums, std::size_t count) {
    if (divisor_ != 1.0f) parts_.arithmetic->divide(sums, divisor_, count);
  }

  ReductionParts parts_;
  std::size_t ranks_;
  float divisor_;
  Share own_chunks_;
  ChunkTree tree_;                             // between ranks
  std::vector<std::vector<TreeNode>> covers_;  // by rank
  std::size_t max_nodes_;
  std::vector<Partial> partial_;           // by bucket
  std::vector<std::uint64_t> next_chunk_;  // by bucket
  float* send_buffer_ = nullptr;
  float* recv_buffer_ = nullptr;
};

}  // namespace

std::size_t tree_reduction_bytes(std::span<const Bucket> buckets, std::uint64_t chunks, int rank, int ranks) {
  auto const memory = tree_memory(buckets, chunks, max_subtrees(covers_by_rank(chunks, ranks)), rank, ranks);
  return (memory.sums + 2 * memory.exchange) * sizeof(float);
}

std::unique_ptr<BucketReduction> make_tree_reduction(ReductionParts parts, Reduction reduction,
                                                     std::uint64_t chunks) {
  return std::make_unique<TreeReduction>(std::move(parts), reduction, chunks);
}

}  // namespace muster::detail
