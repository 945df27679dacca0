// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "communicator/backend.hpp"
#include "muster/reducer.hpp"
#include "reducer/buckets.hpp"

namespace muster::detail {

struct GradientLayout {
  std::vector<std::span<float>> gradients;  ///< by parameter
  std::vector<float> memory;  ///< of the gradients, when they lie in the reducer's own on the host
  std::vector<Bucket> buckets;
};

/// Reduces the buckets of a step in the order in which they are started, the same on every rank, beside what
/// the program does. What goes wrong is thrown by the next call.
class BucketQueue {
 public:
  virtual ~BucketQueue() = default;
  /// What is done from now on comes after what is enqueued on `stream` already, of the program's; nothing on
  /// host memory.
  virtual void follow(Stream /*stream*/) {}
  /// What is enqueued on `stream` from now on comes after what was done so far.
  virtual void lead(Stream /*stream*/) {}
  /// The gradients of this bucket are complete, for one of this rank's chunks.
  virtual void take(std::size_t bucket) = 0;
  /// They are for all of its chunks.
  virtual void start(std::size_t bucket) = 0;
  /// All buckets were started.
  virtual void finish(Stream stream) = 0;
  /// Of the last step that is known to be done.
  virtual ReducerStatistics last_step() = 0;
  /// Of this one; nothing when it is not known to be done, or others have come since.
  virtual std::optional<ReducerStatistics> of_step(std::uint64_t step) = 0;
};

/// On host memory. `own`: a communicator that nobody else uses. Without `overlap`, buckets are reduced by
/// finish().
std::unique_ptr<BucketQueue> make_host_queue(std::shared_ptr<CommunicatorBackend> own,
                                             std::shared_ptr<const GradientLayout> layout,
                                             const ReducerOptions& options);

/// On GPU memory, on `lane`'s stream.
std::unique_ptr<BucketQueue> make_gpu_queue(std::shared_ptr<CommunicatorBackend> own, std::shared_ptr<CommStream> lane,
                                            std::shared_ptr<const GradientLayout> layout,
                                            const ReducerOptions& options);

}  // namespace muster::detail
