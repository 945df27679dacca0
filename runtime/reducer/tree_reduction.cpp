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
#include <utility>
#include <vector>

#include "communicator/operation.hpp"
#include "reducer/chunk_tree.hpp"
#include "reducer/reduction.hpp"

namespace muster::detail {
namespace {

std::size_t shard_of(const Bucket& bucket, std::size_t ranks) { return (bucket.count + ranks - 1) / ranks; }

/// Sums of this rank's chunks that wait for others at the most, one of them for each bucket.
std::size_t slots_for(ChunkTree tree, const Share& chunks) {
  std::size_t slots = 0;
  for (auto chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    auto const step = tree.push({0, chunk});
    slots = std::max(slots, step.additions == 0 ? step.slot + 1 : step.slot);
  }
  return slots;
}

/// Each rank's subtrees.
std::vector<std::vector<TreeNode>> covers_of(std::uint64_t chunks, int ranks) {
  std::vector<std::vector<TreeNode>> covers;
  for (int r = 0; r < ranks; ++r) covers.push_back(ChunkTree(chunks).cover(share_of(chunks, r, ranks)));
  return covers;
}

std::size_t most_nodes_of(const std::vector<std::vector<TreeNode>>& covers) {
  std::size_t most = 0;
  for (auto const& cover : covers) most = std::max(most, cover.size());
  return most;
}

/// Floats of all sums that wait, and of each of the two buffers between ranks.
struct TreeRoom {
  std::size_t slots = 0, sums = 0, exchange = 0;
};

TreeRoom room_for(std::span<const Bucket> buckets, std::uint64_t chunks, std::size_t most_nodes, int rank,
                  int ranks) {
  std::size_t total = 0, longest = 0;
  auto const parts = static_cast<std::size_t>(ranks);
  for (const auto& bucket : buckets) {
    total += bucket.count;
    longest = std::max(longest, shard_of(bucket, parts));
  }
  auto const slots = slots_for(ChunkTree(chunks), share_of(chunks, rank, ranks));
  return {slots, slots * total, ranks == 1 ? 0 : parts * most_nodes * longest};
}

class TreeReduction : public BucketReduction {
 public:
  TreeReduction(ReductionParts parts, Reduction reduction, std::uint64_t chunks)
      : on_(std::move(parts)),
        ranks_(static_cast<std::size_t>(on_.own->size())),
        divisor_(reduction == Reduction::average ? static_cast<float>(chunks) : 1.0f),
        own_chunks_(share_of(chunks, on_.own->rank(), on_.own->size())),
        tree_(chunks),
        covers_(covers_of(chunks, on_.own->size())),
        most_nodes_(most_nodes_of(covers_)),
        partial_(on_.layout->buckets.size()) {
    for (auto& partial : partial_) partial.tree = ChunkTree(chunks);
    next_chunk_.assign(partial_.size(), own_chunks_.begin);
    allocate(room_for(on_.layout->buckets, chunks, most_nodes_, on_.own->rank(), on_.own->size()));
  }

  void take(std::size_t index) override {
    const Bucket& bucket = on_.layout->buckets[index];
    auto const& slots = partial_[index].slots;
    auto const step = partial_[index].tree.push({0, next_chunk_[index]++});
    if (step.additions == 0) {
      return copy_out(bucket, on_.layout->gradients, *on_.arithmetic, slots[step.slot]);
    }
    for_each_piece(bucket, on_.layout->gradients, [&](std::span<float> piece, std::size_t at) {
      on_.arithmetic->add(slots[step.slot - 1] + at, piece.data(), piece.size());
    });
    for (std::size_t i = 1; i < step.additions; ++i)
      on_.arithmetic->add(slots[step.slot - i - 1], slots[step.slot - i], bucket.count);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = on_.layout->buckets[index];
    auto& partial = partial_[index];
    if (bucket.count > 0) {
      if (ranks_ == 1) {
        divide(partial.slots[0], bucket.count);
        copy_in(bucket, on_.layout->gradients, *on_.arithmetic, partial.slots[0]);
      } else {
        across_ranks(bucket, partial.slots);
      }
    }
    partial.tree.clear();
    next_chunk_[index] = own_chunks_.begin;
  }

  std::size_t bytes(std::size_t index) const override {
    return on_.layout->buckets[index].count * most_nodes_ * sizeof(float);
  }

 private:
  struct Partial {
    ChunkTree tree{1};
    std::vector<float*> slots;
  };

  void allocate(const TreeRoom& room) {
    float* next = on_.arithmetic->floats(room.sums);
    for (std::size_t b = 0; b < partial_.size(); ++b) {
      for (std::size_t slot = 0; slot < room.slots; ++slot, next += on_.layout->buckets[b].count)
        partial_[b].slots.push_back(next);
    }
    if (ranks_ == 1) return;
    mine_ = on_.arithmetic->floats(room.exchange);
    theirs_ = on_.arithmetic->floats(room.exchange);
  }

  void across_ranks(const Bucket& bucket, const std::vector<float*>& slots) {
    auto const shard = shard_of(bucket, ranks_);
    auto const nodes = covers_[static_cast<std::size_t>(on_.own->rank())].size();
    for (std::size_t r = 0; r < ranks_; ++r) {
      auto const begin = std::min(r * shard, bucket.count);
      auto const length = std::min(shard, bucket.count - begin);
      for (std::size_t node = 0; node < nodes; ++node)
        on_.arithmetic->copy(mine_ + (r * most_nodes_ + node) * shard, slots[node] + begin, length);
    }
    {
      observe::Operation const call(*on_.own, observe::Kind::all_to_all,
                                    ranks_ * most_nodes_ * shard * sizeof(float));
      on_.own->all_to_all(mine_, theirs_, most_nodes_ * shard, DataType::float32, on_.arithmetic->stream());
    }
    float* const root = finish_tree(shard);
    divide(root, shard);
    {
      observe::Operation const call(*on_.own, observe::Kind::all_gather, shard * sizeof(float));
      on_.own->all_gather(root, mine_, shard, DataType::float32, on_.arithmetic->stream());
    }
    copy_in(bucket, on_.layout->gradients, *on_.arithmetic, mine_);
  }

  // The additions between the ranks' subtrees, in place in theirs_; a slot is where its node lies.
  float* finish_tree(std::size_t shard) {
    tree_.clear();
    std::vector<float*> slots;
    for (std::size_t r = 0; r < covers_.size(); ++r) {
      for (std::size_t node = 0; node < covers_[r].size(); ++node) {
        auto const step = tree_.push(covers_[r][node]);
        slots.push_back(theirs_ + (r * most_nodes_ + node) * shard);
        for (std::size_t i = 0; i < step.additions; ++i) {
          on_.arithmetic->add(slots[slots.size() - 2], slots.back(), shard);
          slots.pop_back();
        }
      }
    }
    return slots.front();
  }

  void divide(float* sums, std::size_t count) {
    if (divisor_ != 1.0f) on_.arithmetic->divide(sums, divisor_, count);
  }

  ReductionParts on_;
  std::size_t ranks_;
  float divisor_;
  Share own_chunks_;
  ChunkTree tree_;                             // between ranks
  std::vector<std::vector<TreeNode>> covers_;  // by rank
  std::size_t most_nodes_;
  std::vector<Partial> partial_;           // by bucket
  std::vector<std::uint64_t> next_chunk_;  // by bucket
  float* mine_ = nullptr;
  float* theirs_ = nullptr;
};

}  // namespace

std::size_t tree_reduction_bytes(std::span<const Bucket> buckets, std::uint64_t chunks, int rank, int ranks) {
  auto const room = room_for(buckets, chunks, most_nodes_of(covers_of(chunks, ranks)), rank, ranks);
  return (room.sums + 2 * room.exchange) * sizeof(float);
}

std::unique_ptr<BucketReduction> make_tree_reduction(ReductionParts parts, Reduction reduction,
                                                     std::uint64_t chunks) {
  return std::make_unique<TreeReduction>(std::move(parts), reduction, chunks);
}

}  // namespace muster::detail
