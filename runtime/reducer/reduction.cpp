// SPDX-License-Identifier: Apache-2.0
#include "reducer/reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "communicator/operation.hpp"

namespace muster::detail {
namespace {

class PlainReduction : public BucketReduction {
 public:
  PlainReduction(ReductionParts parts, Reduction reduction)
      : on_(std::move(parts)),
        reduction_(reduction),
        // NCCL is asked alone too, so that its errors and times are seen on one GPU.
        nothing_to_do_(on_.own->size() == 1 && on_.arithmetic->stream() == nullptr) {
    std::size_t most = 0;
    for (const auto& bucket : on_.layout->buckets)
      if (bucket.memory == nullptr) most = std::max(most, bucket.count);
    // One is enough: the buckets are reduced one after the other.
    if (most > 0 && !nothing_to_do_) together_ = on_.arithmetic->floats(most);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = on_.layout->buckets[index];
    if (bucket.count == 0 || nothing_to_do_) return;
    if (bucket.memory != nullptr) return add(bucket.memory, bucket.count);
    copy_out(bucket, on_.layout->gradients, *on_.arithmetic, together_);
    add(together_, bucket.count);
    copy_in(bucket, on_.layout->gradients, *on_.arithmetic, together_);
  }
  std::size_t bytes(std::size_t index) const override {
    return on_.layout->buckets[index].count * sizeof(float);
  }

 private:
  void add(float* data, std::size_t count) {
    observe::Operation const call(*on_.own, observe::Kind::all_reduce, count * sizeof(float));
    on_.own->all_reduce(data, data, count, DataType::float32, reduction_, on_.arithmetic->stream());
  }

  ReductionParts on_;
  Reduction reduction_;
  bool nothing_to_do_;
  float* together_ = nullptr;
};

// Each rank adds one shard of the bucket: all ranks' shards come to it by all_to_all and go from it by
// all_gather, which is as much traffic as a ring all-reduce has.
class Bfloat16Reduction : public BucketReduction {
 public:
  Bfloat16Reduction(ReductionParts parts, Reduction reduction)
      : on_(std::move(parts)),
        ranks_(static_cast<std::size_t>(on_.own->size())),
        divisor_(reduction == Reduction::average ? static_cast<float>(ranks_) : 1.0f) {
    std::size_t most = 0;
    for (const auto& bucket : on_.layout->buckets) most = std::max(most, shard_of(bucket) * ranks_);
    if (ranks_ == 1) return;
    mine_ = on_.arithmetic->bfloat16s(most);
    theirs_ = on_.arithmetic->bfloat16s(most);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = on_.layout->buckets[index];
    const auto& gradients = on_.layout->gradients;
    auto& arithmetic = *on_.arithmetic;
    if (bucket.count == 0 || ranks_ == 1) return;
    auto const shard = shard_of(bucket);
    for_each_piece(bucket, gradients, [&](std::span<float> piece, std::size_t at) {
      arithmetic.narrow(mine_ + at, piece.data(), piece.size());
    });
    {
      observe::Operation const call(*on_.own, observe::Kind::all_to_all,
                                    shard * ranks_ * sizeof(std::uint16_t));
      on_.own->all_to_all(mine_, theirs_, shard, DataType::bfloat16, arithmetic.stream());
    }
    arithmetic.sum_shards(mine_, theirs_, ranks_, shard, divisor_);
    {
      observe::Operation const call(*on_.own, observe::Kind::all_gather, shard * sizeof(std::uint16_t));
      on_.own->all_gather(mine_, theirs_, shard, DataType::bfloat16, arithmetic.stream());
    }
    for_each_piece(bucket, gradients, [&](std::span<float> piece, std::size_t at) {
      arithmetic.widen(piece.data(), theirs_ + at, piece.size());
    });
  }
  std::size_t bytes(std::size_t index) const override {
    return on_.layout->buckets[index].count * sizeof(std::uint16_t);
  }

 private:
  std::size_t shard_of(const Bucket& bucket) const { return (bucket.count + ranks_ - 1) / ranks_; }

  ReductionParts on_;
  std::size_t ranks_;
  float divisor_;
  std::uint16_t* mine_ = nullptr;
  std::uint16_t* theirs_ = nullptr;
};

}  // namespace

std::unique_ptr<BucketReduction> make_plain_reduction(ReductionParts parts, Reduction reduction) {
  return std::make_unique<PlainReduction>(std::move(parts), reduction);
}

std::unique_ptr<BucketReduction> make_bfloat16_reduction(ReductionParts parts, Reduction reduction) {
  return std::make_unique<Bfloat16Reduction>(std::move(parts), reduction);
}

std::unique_ptr<BucketReduction> make_reduction(ReductionParts parts, const ReducerOptions& options) {
  if (options.chunks > 0) return make_tree_reduction(std::move(parts), options.reduction, options.chunks);
  if (options.bfloat16) return make_bfloat16_reduction(std::move(parts), options.reduction);
  return make_plain_reduction(std::move(parts), options.reduction);
}

}  // namespace muster::detail
