// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "communicator/backend.hpp"
#include "muster/reducer.hpp"
#include "reducer/arithmetic.hpp"
#include "reducer/bucket_queue.hpp"

namespace muster::detail {

/// How a bucket is reduced, on host memory or on a GPU's, where every call is enqueued on the arithmetic's
/// stream.
class BucketReduction {
 public:
  virtual ~BucketReduction() = default;
  /// Its gradients are complete for one chunk, and may be overwritten afterwards. In the program's thread.
  virtual void take(std::size_t /*bucket*/) {}
  /// Leaves the result where the gradients are. In the thread that communicates; not while take() has the
  /// same bucket.
  virtual void reduce(std::size_t bucket) = 0;
  /// Of a bucket's gradients, as they travel.
  virtual std::size_t bytes(std::size_t bucket) const = 0;
};

/// What every reduction works with. All memory is asked for at construction.
struct ReductionParts {
  std::shared_ptr<CommunicatorBackend> own;
  std::shared_ptr<const GradientLayout> layout;
  std::unique_ptr<Arithmetic> arithmetic;
};

/// As the options say: one of the next three.
std::unique_ptr<BucketReduction> make_reduction(ReductionParts parts, const ReducerOptions& options);
/// As the communicator adds.
std::unique_ptr<BucketReduction> make_plain_reduction(ReductionParts parts, Reduction reduction);
/// ReducerOptions::bfloat16.
std::unique_ptr<BucketReduction> make_bfloat16_reduction(ReductionParts parts, Reduction reduction);
/// Bytes that the next one asks for, on `rank` of `ranks`.
std::size_t tree_reduction_bytes(std::span<const Bucket> buckets, std::uint64_t chunks, int rank, int ranks);
/// ReducerOptions::chunks.
std::unique_ptr<BucketReduction> make_tree_reduction(ReductionParts parts, Reduction reduction,
                                                     std::uint64_t chunks);

}  // namespace muster::detail
