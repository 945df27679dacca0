// SPDX-License-Identifier: Apache-2.0
// Buckets on GPU memory: enqueued on a stream of their own, and never waited for by the host.
#include <array>
#include <utility>

#include "communicator/bucket_span.hpp"
#include "communicator/nccl/comm_stream.hpp"
#include "reducer/reduction.hpp"

namespace muster::detail {
namespace {

class GpuQueue : public BucketQueue {
 public:
  GpuQueue(std::shared_ptr<CommunicatorBackend> own, std::shared_ptr<CommStream> lane,
           std::shared_ptr<const GradientLayout> layout, const ReducerOptions& options)
      : own_(own),
        lane_(lane),
        buckets_(layout->buckets.size()),
        overlap_(options.overlap),
        reduction_(make_reduction({std::move(own), std::move(layout), make_gpu_arithmetic(std::move(lane))},
                                  options)) {}

  void follow(Stream stream) override { lane_->follow(stream); }
  void lead(Stream stream) override { lane_->lead(stream); }

  void take(std::size_t bucket) override { reduction_->take(bucket); }

  void start(std::size_t bucket) override {
    if (!overlap_) return waiting_.push_back(bucket);
    enqueue(bucket);
  }

  void finish(Stream stream) override {
    lane_->mark(first_mark(), stream);
    for (auto const index : std::exchange(waiting_, {})) enqueue(index);
    lane_->lead(stream);
    lane_->mark(first_mark() + 1, stream);
    now_.step = ++steps_;
    finished_[steps_ % 2] = std::exchange(now_, {});
    (void)last_step();
  }

  ReducerStatistics last_step() override {
    for (auto const step : {steps_ - 1, steps_})
      if (auto const known = of_step(step)) last_ = *known;
    return last_;
  }

  std::optional<ReducerStatistics> of_step(std::uint64_t step) override {
    auto of = finished_[step % 2];
    if (step == 0 || of.step != step) return std::nullopt;
    auto const begin = first_mark(step);
    auto const exposed = lane_->between(begin, begin + 1);
    if (!exposed) return std::nullopt;
    of.exposed = *exposed;
    for (std::size_t i = 0; i < buckets_; ++i) {
      auto const took = lane_->between(begin + 2 + 2 * i, begin + 3 + 2 * i);
      if (!took) return std::nullopt;
      of.communication += *took;
    }
    return of;
  }

 private:
  // Of the step that is under way: two for the wait, and two for each bucket. The step before has others.
  std::size_t first_mark(std::uint64_t step) const { return step % 2 * (2 * buckets_ + 2); }
  std::size_t first_mark() const { return first_mark(steps_ + 1); }

  void enqueue(std::size_t bucket) {
    auto const bytes = reduction_->bytes(bucket);
    observe::BucketSpan const span(*own_, bucket, bytes);
    finished_[(steps_ + 1) % 2] = {};  // its marks are this step's now
    auto const mark = first_mark() + 2 + 2 * bucket;
    lane_->mark(mark, lane_->stream());
    reduction_->reduce(bucket);
    lane_->mark(mark + 1, lane_->stream());
    now_.bytes += bytes;
    ++now_.buckets;
  }

  std::shared_ptr<CommunicatorBackend> own_;
  std::shared_ptr<CommStream> lane_;
  std::size_t buckets_;
  bool overlap_;
  std::unique_ptr<BucketReduction> reduction_;
  std::vector<std::size_t> waiting_;
  std::uint64_t steps_ = 0;
  ReducerStatistics now_, last_;
  std::array<ReducerStatistics, 2> finished_;  // the last two steps; their times are asked for
};

}  // namespace

std::unique_ptr<BucketQueue> make_gpu_queue(std::shared_ptr<CommunicatorBackend> own, std::shared_ptr<CommStream> lane,
                                            std::shared_ptr<const GradientLayout> layout,
                                            const ReducerOptions& options) {
  return std::make_unique<GpuQueue>(std::move(own), std::move(lane), std::move(layout), options);
}

}  // namespace muster::detail
