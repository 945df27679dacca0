// SPDX-License-Identifier: Apache-2.0
// Buckets on GPU memory: enqueued on a stream of their own, and never waited for by the host.
#include <algorithm>
#include <utility>

#include "communicator/gpu_lane.hpp"
#include "observe/bucket_span.hpp"
#include "observe/operation.hpp"
#include "reducer/bucket_queue.hpp"

namespace muster::detail {
namespace {

class GpuQueue : public BucketQueue {
 public:
  GpuQueue(std::shared_ptr<Collectives> own, std::shared_ptr<GpuLane> lane,
           std::shared_ptr<const GradientLayout> layout, const ReducerOptions& options)
      : own_(std::move(own)),
        lane_(std::move(lane)),
        layout_(std::move(layout)),
        reduction_(options.reduction),
        overlap_(options.overlap) {
    std::size_t most = 0;
    for (const auto& bucket : layout_->buckets)
      if (bucket.memory == nullptr) most = std::max(most, bucket.count);
    // One is enough: the buckets are reduced one after the other.
    if (most > 0) together_ = static_cast<float*>(lane_->allocate(most * sizeof(float)));
  }

  void take(std::size_t) override {}

  void start(std::size_t index, Stream stream) override {
    if (!overlap_) return waiting_.push_back(index);
    lane_->follow(stream);
    enqueue(index);
  }

  void finish(Stream stream) override {
    lane_->mark(first_mark(), stream);
    if (!waiting_.empty()) lane_->follow(stream);
    for (auto const index : std::exchange(waiting_, {})) enqueue(index);
    lane_->lead(stream);
    lane_->mark(first_mark() + 1, stream);
    now_.step = ++steps_;
    look(before_);
    before_ = std::exchange(now_, {});
  }

  ReducerStatistics last_step() override {
    look(before_);
    return last_;
  }

 private:
  // Of the step that is under way: two for the wait, and two for each bucket. The step before has others.
  std::size_t first_mark(std::uint64_t step) const { return step % 2 * (2 * layout_->buckets.size() + 2); }
  std::size_t first_mark() const { return first_mark(steps_ + 1); }

  void enqueue(std::size_t index) {
    const Bucket& bucket = layout_->buckets[index];
    auto const bytes = bucket.count * sizeof(float);
    observe::BucketSpan const span(*own_, index, bytes);
    auto const mark = first_mark() + 2 + 2 * index;
    lane_->mark(mark, lane_->stream());
    if (bucket.count > 0) reduce(bucket);
    lane_->mark(mark + 1, lane_->stream());
    now_.bytes += bytes;
    ++now_.buckets;
  }

  void reduce(const Bucket& bucket) {
    float* const memory = bucket.memory != nullptr ? bucket.memory : together_;
    auto const copy = [&](bool out) {
      for_each_gradient(bucket, layout_->gradients, [&](std::span<float> gradient, std::size_t at) {
        if (gradient.empty()) return;
        float* const packed = together_ + at;
        lane_->copy(out ? packed : gradient.data(), out ? gradient.data() : packed, gradient.size_bytes());
      });
    };
    if (bucket.memory == nullptr) copy(true);
    {
      observe::Operation const call(*own_, observe::Kind::all_reduce, bucket.count * sizeof(float));
      own_->all_reduce(memory, memory, bucket.count, DataType::float32, reduction_, lane_->stream());
    }
    if (bucket.memory == nullptr) copy(false);
  }

  // The times of a step, once all its marks are reached.
  void look(ReducerStatistics step) {
    if (step.step == 0 || step.step == last_.step) return;
    auto const begin = first_mark(step.step);
    auto const exposed = lane_->between(begin, begin + 1);
    if (!exposed) return;
    step.exposed = *exposed;
    for (std::size_t i = 0; i < layout_->buckets.size(); ++i) {
      auto const took = lane_->between(begin + 2 + 2 * i, begin + 3 + 2 * i);
      if (!took) return;
      step.communication += *took;
    }
    last_ = step;
  }

  std::shared_ptr<Collectives> own_;
  std::shared_ptr<GpuLane> lane_;
  std::shared_ptr<const GradientLayout> layout_;
  Reduction reduction_;
  bool overlap_;
  float* together_ = nullptr;
  std::vector<std::size_t> waiting_;
  std::uint64_t steps_ = 0;
  ReducerStatistics now_, before_, last_;
};

}  // namespace

std::unique_ptr<BucketQueue> make_gpu_queue(std::shared_ptr<Collectives> own, std::shared_ptr<GpuLane> lane,
                                            std::shared_ptr<const GradientLayout> layout,
                                            const ReducerOptions& options) {
  return std::make_unique<GpuQueue>(std::move(own), std::move(lane), std::move(layout), options);
}

}  // namespace muster::detail
