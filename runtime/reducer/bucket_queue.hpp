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
  DataType type = DataType::float32;
  std::vector<std::span<std::byte>> gradients;  ///< by parameter
  std::vector<std::byte> memory;  ///< the gradients' memory, if it is the reducer's own on the host
  std::vector<Bucket> buckets;
};

/// Reduces the buckets of a step in the order in which they are started, which is the same on every rank,
/// while the program computes. An error is thrown by the next call.
class BucketQueue {
 public:
  virtual ~BucketQueue() = default;
  /// Work of this queue from now on waits for the work that `stream`, one of the program's, has now. Does
  /// nothing on host memory.
  virtual void wait_for(Stream /*stream*/) {}
  /// Work enqueued on `stream` from now on waits for the work that this queue has now.
  virtual void block(Stream /*stream*/) {}
  /// The gradients of this bucket are complete for one of this rank's chunks.
  virtual void add_chunk(std::size_t bucket) = 0;
  /// The gradients of this bucket are complete for all of this rank's chunks.
  virtual void start(std::size_t bucket) = 0;
  /// Ends the step; all buckets were started.
  virtual void finish(Stream stream) = 0;
  /// Statistics of the last step that is known to be complete.
  virtual ReducerStatistics last_step() = 0;
  /// Statistics of this step; nothing if it is not known to be complete, or if later steps have replaced it.
  virtual std::optional<ReducerStatistics> statistics(std::uint64_t step) = 0;
};

/// On host memory. `comm`: a communicator that only this queue uses. Without options.overlap, finish()
/// reduces the buckets.
std::unique_ptr<BucketQueue> make_host_queue(std::shared_ptr<CommunicatorBackend> comm,
                                             std::shared_ptr<const GradientLayout> layout,
                                             const ReducerOptions& options);

/// On GPU memory, on `comm_stream`.
std::unique_ptr<BucketQueue> make_gpu_queue(std::shared_ptr<CommunicatorBackend> comm,
                                            std::shared_ptr<CommStream> comm_stream,
                                            std::shared_ptr<const GradientLayout> layout,
                                            const ReducerOptions& options);

}  // namespace muster::detail
