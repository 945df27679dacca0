// SPDX-License-Identifier: Apache-2.0
// Buckets on GPU memory: enqueued on a side stream; the host never waits for them.
#include <array>
#include <utility>

#include "communicator/bucket_span.hpp"
#include "communicator/nccl/comm_stream.hpp"
#include "reducer/reduction.hpp"

namespace muster::detail {
namespace {

class GpuQueue : public BucketQueue {
 public:
  GpuQueue(std::shared_ptr<CommunicatorBackend> comm, std::shared_ptr<CommStream> comm_stream,
           std::shared_ptr<const GradientLayout> layout, const ReducerOptions& options)
      : comm_(comm),
        comm_stream_(comm_stream),
        buckets_(layout->buckets.size()),
        overlap_(options.overlap),
        reduction_(make_reduction(
            {std::move(comm), std::move(layout), make_gpu_arithmetic(std::move(comm_stream))}, options)) {}

  void wait_for(Stream stream) override { comm_stream_->wait_for(stream); }
  void block(Stream stream) override { comm_stream_->block(stream); }

  void add_chunk(std::size_t bucket) override { reduction_->add_chunk(bucket); }

  void start(std::size_t bucket) override {
    if (!overlap_) return pending_.push_back(bucket);
    enqueue(bucket);
  }

  void finish(Stream stream) override {
    comm_stream_->record(first_event(), stream);
    for (auto const index : std::exchange(pending_, {})) enqueue(index);
    comm_stream_->block(stream);
    comm_stream_->record(first_event() + 1, stream);
    current_.step = ++steps_;
    finished_[steps_ % 2] = std::exchange(current_, {});
    (void)last_step();
  }

  ReducerStatistics last_step() override {
    for (auto const step : {steps_ - 1, steps_})
      if (auto const known = statistics(step)) last_ = *known;
    return last_;
  }

  std::optional<ReducerStatistics> statistics(std::uint64_t step) override {
    auto found = finished_[step % 2];
    if (step == 0 || found.step != step) return std::nullopt;
    auto const begin = first_event(step);
    auto const exposed = comm_stream_->elapsed(begin, begin + 1);
    if (!exposed) return std::nullopt;
    found.exposed = *exposed;
    for (std::size_t i = 0; i < buckets_; ++i) {
      auto const took = comm_stream_->elapsed(begin + 2 + 2 * i, begin + 3 + 2 * i);
      if (!took) return std::nullopt;
      found.communication += *took;
    }
    return found;
  }

 private:
  // The first event of a step: two for the wait, then two for each bucket. Two consecutive steps use
  // different ones.
  std::size_t first_event(std::uint64_t step) const { return step % 2 * (2 * buckets_ + 2); }
  std::size_t first_event() const { return first_event(steps_ + 1); }

  void enqueue(std::size_t bucket) {
    auto const bytes = reduction_->bytes(bucket);
    observe::BucketSpan const span(*comm_, bucket, bytes);
    finished_[(steps_ + 1) % 2] = {};  // this step reuses its events
    auto const event = first_event() + 2 + 2 * bucket;
    comm_stream_->record(event, comm_stream_->stream());
    reduction_->reduce(bucket);
    comm_stream_->record(event + 1, comm_stream_->stream());
    current_.bytes += bytes;
    ++current_.buckets;
  }

  std::shared_ptr<CommunicatorBackend> comm_;
  std::shared_ptr<CommStream> comm_stream_;
  std::size_t buckets_;
  bool overlap_;
  std::unique_ptr<BucketReduction> reduction_;
  std::vector<std::size_t> pending_;
  std::uint64_t steps_ = 0;
  ReducerStatistics current_, last_;
  std::array<ReducerStatistics, 2> finished_;  // the last two steps; their times are read later
};

}  // namespace

std::unique_ptr<BucketQueue> make_gpu_queue(std::shared_ptr<CommunicatorBackend> comm,
                                            std::shared_ptr<CommStream> comm_stream,
                                            std::shared_ptr<const GradientLayout> layout,
                                            const ReducerOptions& options) {
  return std::make_unique<GpuQueue>(std::move(comm), std::move(comm_stream), std::move(layout), options);
}

}  // namespace muster::detail
