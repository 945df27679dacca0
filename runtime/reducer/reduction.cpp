// SPDX-License-Identifier: Apache-2.0
#include "reducer/reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "communicator/operation.hpp"

namespace muster::detail {
namespace {

// By an all-reduce of the communicator.
class PlainReduction : public BucketReduction {
 public:
  PlainReduction(ReductionParts parts, Reduction reduction)
      : parts_(std::move(parts)),
        reduction_(reduction),
        // NCCL runs on a single rank too, so that its errors and times show on one GPU.
        is_noop_(parts_.comm->size() == 1 && parts_.arithmetic->stream() == nullptr) {
    std::size_t max_count = 0;
    for (const Bucket& bucket : parts_.layout->buckets)
      if (bucket.memory.empty()) max_count = std::max(max_count, bucket.count);
    // One buffer is enough: the buckets are reduced one after another.
    if (max_count > 0 && !is_noop_)
      packed_ = parts_.arithmetic->allocate(max_count * size_of(parts_.layout->type));
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
    CollectiveCall const call{OperationKind::all_reduce, data, data, count, parts_.layout->type, reduction_};
    observe::run_operation(*parts_.comm, call, parts_.arithmetic->stream());
  }

  ReductionParts parts_;
  Reduction reduction_;
  bool is_noop_;
  void* packed_ = nullptr;
};

// Each rank adds one shard of the bucket: it receives all ranks' shards by all_to_all and sends the sum by
// all_gather. The traffic is that of a ring all-reduce.
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
    send_buffer_ = parts_.arithmetic->bfloat16s(max_count);
    recv_buffer_ = parts_.arithmetic->bfloat16s(max_count);
  }

  void reduce(std::size_t index) override {
    const Bucket& bucket = parts_.layout->buckets[index];
    if (bucket.count == 0 || ranks_ == 1) return;
    pack(bucket);
    auto const shard = shard_size(bucket);
    run({OperationKind::all_to_all, send_buffer_, recv_buffer_, shard, DataType::bfloat16});
    parts_.arithmetic->sum_shards(send_buffer_, recv_buffer_, ranks_, shard, divisor_);
    run({OperationKind::all_gather, send_buffer_, recv_buffer_, shard, DataType::bfloat16});
    unpack(bucket);
  }
  std::size_t bytes(std::size_t index) const override {
    return parts_.layout->buckets[index].count * sizeof(std::uint16_t);
  }

 private:
  std::size_t shard_size(const Bucket& bucket) const { return (bucket.count + ranks_ - 1) / ranks_; }
  bool are_gradients_bfloat16() const { return parts_.layout->type == DataType::bfloat16; }
  // Converts the gradients into send_buffer_, or copies them there.
  void pack(const Bucket& bucket) {
    auto& arithmetic = *parts_.arithmetic;
    if (are_gradients_bfloat16()) return flatten(bucket, parts_.layout->gradients, arithmetic, send_buffer_);
    for_each_piece<float>(bucket, parts_.layout->gradients, [&](std::span<float> piece, std::size_t at) {
      arithmetic.narrow(send_buffer_ + at, piece.data(), piece.size());
    });
  }
  void unpack(const Bucket& bucket) {
    auto& arithmetic = *parts_.arithmetic;
    if (are_gradients_bfloat16())
      return unflatten(bucket, parts_.layout->gradients, arithmetic, recv_buffer_);
    for_each_piece<float>(bucket, parts_.layout->gradients, [&](std::span<float> piece, std::size_t at) {
      arithmetic.widen(piece.data(), recv_buffer_ + at, piece.size());
    });
  }
  void run(const CollectiveCall& call) {
    observe::run_operation(*parts_.comm, call, parts_.arithmetic->stream());
  }

  ReductionParts parts_;
  std::size_t ranks_;
  Reduction reduction_;
  float divisor_;
  std::uint16_t* send_buffer_ = nullptr;
  std::uint16_t* recv_buffer_ = nullptr;
};

}  // namespace

std::unique_ptr<BucketReduction> make_reduction(ReductionParts parts, const ReducerOptions& options) {
  auto const reduction = options.reduction;
  // Sets shared memory up, in any mode: not in the thread that reduces, which an exception may interrupt.
  bool const shares_memory = parts.comm->reduces_in_shared_memory();
  if (options.chunks > 0) return make_tree_reduction(std::move(parts), reduction, options.chunks);
  if (!options.bfloat16 || shares_memory)
    return std::make_unique<PlainReduction>(std::move(parts), reduction);
  return std::make_unique<Bfloat16Reduction>(std::move(parts), reduction);
}

}  // namespace muster::detail
