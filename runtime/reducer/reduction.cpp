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
    std::size_t max_bytes = 0;
    for (std::size_t i = 0; i < parts_.layout->buckets.size(); ++i)
      if (parts_.layout->buckets[i].memory.empty()) max_bytes = std::max(max_bytes, bytes(i));
    // One buffer is enough: the buckets are reduced one after another.
    if (max_bytes > 0 && !is_noop_) packed_ = parts_.arithmetic->allocate(max_bytes);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = parts_.layout->buckets[index];
    if (bucket.count == 0 || is_noop_) return;
    if (!bucket.memory.empty()) return add(bucket.memory.data(), bucket.count);
    flatten(bucket, parts_.layout->gradients, *parts_.arithmetic, packed_);
    add(packed_, bucket.count);
    unflatten(bucket, parts_.layout->gradients, *parts_.arithmetic, packed_);
  }
  std::size_t bytes(std::size_t index) const override {
    return parts_.layout->buckets[index].count * size_of(parts_.layout->type);
  }

 private:
  void add(void* data, std::size_t count) {
    observe::run_operation(*parts_.comm,
                           {OperationKind::all_reduce, data, data, count, parts_.layout->type, reduction_},
                           parts_.arithmetic->stream());
  }

  ReductionParts parts_;
  Reduction reduction_;
  bool is_noop_;
  void* packed_ = nullptr;
};

// By an all-reduce that adds in the order of ranks. Else each rank adds one shard of the bucket: it receives
// all ranks' shards by all_to_all and sends the sum by all_gather. The traffic is that of a ring all-reduce,
// and the bits are the same.
class Bfloat16Reduction : public BucketReduction {
 public:
  Bfloat16Reduction(ReductionParts parts, Reduction reduction)
      : parts_(std::move(parts)),
        ranks_(static_cast<std::size_t>(parts_.comm->size())),
        reduction_(reduction),
        divisor_(reduction == Reduction::average ? static_cast<float>(ranks_) : 1.0f) {
    if (ranks_ == 1) return;
    std::size_t max_count = 0;
    for (const auto& bucket : parts_.layout->buckets)
      max_count = std::max(max_count, shard_size(bucket) * ranks_);
    if (parts_.comm->adds_in_rank_order()) max_count = std::min(max_count, cached_count);
    send_buffer_ = parts_.arithmetic->bfloat16s(max_count);
    if (!parts_.comm->adds_in_rank_order()) recv_buffer_ = parts_.arithmetic->bfloat16s(max_count);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = parts_.layout->buckets[index];
    if (bucket.count == 0 || ranks_ == 1) return;
    if (recv_buffer_ == nullptr) return all_reduce(bucket);
    pack(bucket, {});
    auto const shard = shard_size(bucket);
    run({OperationKind::all_to_all, send_buffer_, recv_buffer_, shard, DataType::bfloat16});
    parts_.arithmetic->sum_shards(send_buffer_, recv_buffer_, ranks_, shard, divisor_);
    run({OperationKind::all_gather, send_buffer_, recv_buffer_, shard, DataType::bfloat16});
    unpack(bucket, {}, recv_buffer_);
  }
  std::size_t bytes(std::size_t index) const override {
    return parts_.layout->buckets[index].count * sizeof(std::uint16_t);
  }

 private:
  // What an all-reduce handles at once: its buffer, 256 KiB, stays in a core's cache.
  static constexpr std::size_t cached_count = 64u << 10;

  std::size_t shard_size(const Bucket& bucket) const { return (bucket.count + ranks_ - 1) / ranks_; }
  bool are_gradients_bfloat16() const { return parts_.layout->type == DataType::bfloat16; }
  void all_reduce(const Bucket& bucket) {
    for (std::size_t at = 0; at < bucket.count; at += cached_count) {
      BucketRange const range{at, std::min(at + cached_count, bucket.count)};
      pack(bucket, range);
      run({OperationKind::all_reduce, send_buffer_, send_buffer_, range.end - range.begin, DataType::bfloat16,
           reduction_});
      unpack(bucket, range, send_buffer_);
    }
  }
  // Converts the gradients of `range` into send_buffer_, or copies them there.
  void pack(const Bucket& bucket, BucketRange range) {
    auto& arithmetic = *parts_.arithmetic;
    if (are_gradients_bfloat16()) {
      return for_each_piece<std::uint16_t>(
          bucket, parts_.layout->gradients,
          [&](std::span<std::uint16_t> piece, std::size_t at) {
            arithmetic.copy(send_buffer_ + at, piece.data(), piece.size_bytes());
          },
          range);
    }
    for_each_piece<float>(
        bucket, parts_.layout->gradients,
        [&](std::span<float> piece, std::size_t at) {
          arithmetic.narrow(send_buffer_ + at, piece.data(), piece.size());
        },
        range);
  }
  void unpack(const Bucket& bucket, BucketRange range, const std::uint16_t* from) {
    auto& arithmetic = *parts_.arithmetic;
    if (are_gradients_bfloat16()) {
      return for_each_piece<std::uint16_t>(
          bucket, parts_.layout->gradients,
          [&](std::span<std::uint16_t> piece, std::size_t at) {
            arithmetic.copy(piece.data(), from + at, piece.size_bytes());
          },
          range);
    }
    for_each_piece<float>(
        bucket, parts_.layout->gradients,
        [&](std::span<float> piece, std::size_t at) {
          arithmetic.widen(piece.data(), from + at, piece.size());
        },
        range);
  }
  void run(const CollectiveCall& call) {
    observe::run_operation(*parts_.comm, call, parts_.arithmetic->stream());
  }

  ReductionParts parts_;
  std::size_t ranks_;
  Reduction reduction_;
  float divisor_;
  std::uint16_t* send_buffer_ = nullptr;
  std::uint16_t* recv_buffer_ = nullptr;  // null if an all-reduce does it
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
