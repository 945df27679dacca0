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
      : parts_(std::move(parts)),
        reduction_(reduction),
        // NCCL runs on a single rank too, so that its errors and times show on one GPU.
        is_noop_(parts_.comm->size() == 1 && parts_.arithmetic->stream() == nullptr) {
    std::size_t max_count = 0;
    for (const auto& bucket : parts_.layout->buckets)
      if (bucket.memory == nullptr) max_count = std::max(max_count, bucket.count);
    // One buffer is enough: the buckets are reduced one after another.
    if (max_count > 0 && !is_noop_) packed_ = parts_.arithmetic->floats(max_count);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = parts_.layout->buckets[index];
    if (bucket.count == 0 || is_noop_) return;
    if (bucket.memory != nullptr) return add(bucket.memory, bucket.count);
    flatten(bucket, parts_.layout->gradients, *parts_.arithmetic, packed_);
    add(packed_, bucket.count);
    unflatten(bucket, parts_.layout->gradients, *parts_.arithmetic, packed_);
  }
  std::size_t bytes(std::size_t index) const override {
    return parts_.layout->buckets[index].count * sizeof(float);
  }

 private:
  void add(float* data, std::size_t count) {
    observe::run_operation(*parts_.comm,
                           {OperationKind::all_reduce, data, data, count, DataType::float32, reduction_},
                           parts_.arithmetic->stream());
  }

  ReductionParts parts_;
  Reduction reduction_;
  bool is_noop_;
  float* packed_ = nullptr;
};

// Each rank adds one shard of the bucket: it receives all ranks' shards by all_to_all and sends the sum by
// all_gather. The traffic is that of a ring all-reduce.
class Bfloat16Reduction : public BucketReduction {
 public:
  Bfloat16Reduction(ReductionParts parts, Reduction reduction)
      : parts_(std::move(parts)),
        ranks_(static_cast<std::size_t>(parts_.comm->size())),
        divisor_(reduction == Reduction::average ? static_cast<float>(ranks_) : 1.0f) {
    std::size_t max_count = 0;
    for (const auto& bucket : parts_.layout->buckets)
      max_count = std::max(max_count, shard_size(bucket) * ranks_);
    if (ranks_ == 1) return;
    send_buffer_ = parts_.arithmetic->bfloat16s(max_count);
    recv_buffer_ = parts_.arithmetic->bfloat16s(max_count);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = parts_.layout->buckets[index];
    const auto& gradients = parts_.layout->gradients;
    auto& arithmetic = *parts_.arithmetic;
    if (bucket.count == 0 || ranks_ == 1) return;
    auto const shard = shard_size(bucket);
    for_each_piece(bucket, gradients, [&](std::span<float> piece, std::size_t at) {
      arithmetic.narrow(send_buffer_ + at, piece.data(), piece.size());
    });
    exchange(OperationKind::all_to_all, shard);
    arithmetic.sum_shards(send_buffer_, recv_buffer_, ranks_, shard, divisor_);
    exchange(OperationKind::all_gather, shard);
    for_each_piece(bucket, gradients, [&](std::span<float> piece, std::size_t at) {
      arithmetic.widen(piece.data(), recv_buffer_ + at, piece.size());
    });
  }
  std::size_t bytes(std::size_t index) const override {
    return parts_.layout->buckets[index].count * sizeof(std::uint16_t);
  }

 private:
  std::size_t shard_size(const Bucket& bucket) const { return (bucket.count + ranks_ - 1) / ranks_; }
  void exchange(OperationKind kind, std::size_t shard) {
    observe::run_operation(*parts_.comm, {kind, send_buffer_, recv_buffer_, shard, DataType::bfloat16},
                           parts_.arithmetic->stream());
  }

  ReductionParts parts_;
  std::size_t ranks_;
  float divisor_;
  std::uint16_t* send_buffer_ = nullptr;
  std::uint16_t* recv_buffer_ = nullptr;
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
