// SPDX-License-Identifier: Apache-2.0
#include "reducer/host_reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "half_bits.hpp"
#include "observe/operation.hpp"

namespace muster::detail {
namespace {

class PlainReduction : public HostReduction {
 public:
  PlainReduction(std::shared_ptr<Collectives> own, std::shared_ptr<const GradientLayout> layout,
                 Reduction reduction)
      : own_(std::move(own)), layout_(std::move(layout)), reduction_(reduction) {}

  void reduce(std::size_t index) override {
    const Bucket& bucket = layout_->buckets[index];
    if (bucket.count == 0 || own_->size() == 1) return;
    if (bucket.memory != nullptr) return add(bucket.memory, bucket.count);
    together_.resize(std::max(together_.size(), bucket.count));
    copy_out(bucket, layout_->gradients, together_.data());
    add(together_.data(), bucket.count);
    copy_in(bucket, layout_->gradients, together_.data());
  }
  std::size_t bytes(std::size_t index) const override {
    return layout_->buckets[index].count * sizeof(float);
  }

 private:
  void add(float* data, std::size_t count) {
    observe::Operation const call(*own_, observe::Kind::all_reduce, count * sizeof(float));
    own_->all_reduce(data, data, count, DataType::float32, reduction_, nullptr);
  }

  std::shared_ptr<Collectives> own_;
  std::shared_ptr<const GradientLayout> layout_;
  Reduction reduction_;
  std::vector<float> together_;
};

// Each rank adds one shard of the bucket: all ranks' shards come to it by all_to_all and go from it by
// all_gather, which is as much traffic as a ring all-reduce has.
class Bfloat16Reduction : public HostReduction {
 public:
  Bfloat16Reduction(std::shared_ptr<Collectives> own, std::shared_ptr<const GradientLayout> layout,
                    Reduction reduction)
      : own_(std::move(own)), layout_(std::move(layout)), average_(reduction == Reduction::average) {}

  void reduce(std::size_t index) override {
    const Bucket& bucket = layout_->buckets[index];
    auto const ranks = static_cast<std::size_t>(own_->size());
    if (bucket.count == 0 || ranks == 1) return;
    auto const shard = (bucket.count + ranks - 1) / ranks;
    if (mine_.size() < shard * ranks) mine_.resize(shard * ranks);
    if (theirs_.size() < shard * ranks) theirs_.resize(shard * ranks);
    for_each_gradient(bucket, layout_->gradients, [&](std::span<float> gradient, std::size_t at) {
      for (std::size_t i = 0; i < gradient.size(); ++i) mine_[at + i] = bfloat16_bits(gradient[i]);
    });
    {
      observe::Operation const call(*own_, observe::Kind::all_to_all, shard * ranks * sizeof(std::uint16_t));
      own_->all_to_all(mine_.data(), theirs_.data(), shard, DataType::bfloat16, nullptr);
    }
    add(shard, ranks);
    {
      observe::Operation const call(*own_, observe::Kind::all_gather, shard * sizeof(std::uint16_t));
      own_->all_gather(mine_.data(), theirs_.data(), shard, DataType::bfloat16, nullptr);
    }
    for_each_gradient(bucket, layout_->gradients, [&](std::span<float> gradient, std::size_t at) {
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = bfloat16_value(theirs_[at + i]);
    });
  }
  std::size_t bytes(std::size_t index) const override {
    return layout_->buckets[index].count * sizeof(std::uint16_t);
  }

 private:
  // The sum of the ranks' shards in theirs_, into the beginning of mine_.
  void add(std::size_t shard, std::size_t ranks) {
    if (sum_.size() < shard) sum_.resize(shard);
    for (std::size_t i = 0; i < shard; ++i) sum_[i] = bfloat16_value(theirs_[i]);
    for (std::size_t r = 1; r < ranks; ++r) {
      const std::uint16_t* const from = theirs_.data() + r * shard;
      for (std::size_t i = 0; i < shard; ++i) sum_[i] += bfloat16_value(from[i]);
    }
    auto const divisor = average_ ? static_cast<float>(ranks) : 1.0f;
    for (std::size_t i = 0; i < shard; ++i) mine_[i] = bfloat16_bits(sum_[i] / divisor);
  }

  std::shared_ptr<Collectives> own_;
  std::shared_ptr<const GradientLayout> layout_;
  bool average_;
  std::vector<std::uint16_t> mine_, theirs_;
  std::vector<float> sum_;
};

}  // namespace

std::unique_ptr<HostReduction> make_plain_reduction(std::shared_ptr<Collectives> own,
                                                    std::shared_ptr<const GradientLayout> layout,
                                                    Reduction reduction) {
  return std::make_unique<PlainReduction>(std::move(own), std::move(layout), reduction);
}

std::unique_ptr<HostReduction> make_bfloat16_reduction(std::shared_ptr<Collectives> own,
                                                       std::shared_ptr<const GradientLayout> layout,
                                                       Reduction reduction) {
  return std::make_unique<Bfloat16Reduction>(std::move(own), std::move(layout), reduction);
}

}  // namespace muster::detail
