// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "communicator/backend.hpp"
#include "muster/reducer.hpp"
#include "reducer/arithmetic.hpp"
#include "reducer/bucket_queue.hpp"

namespace muster::detail {

/// How a bucket is reduced, on host memory or on GPU memory, where every call is enqueued on the arithmetic's
/// stream.
class BucketReduction {
 public:
  virtual ~BucketReduction() = default;
  /// Adds a bucket's gradients, complete for one chunk; the program may overwrite them afterwards. Called in
  /// the program's thread.
  virtual void add_chunk(std::size_t /*bucket*/) {}
  /// Writes the result over the gradients. Called in the communication thread, never during add_chunk() of
  /// the same bucket.
  virtual void reduce(std::size_t bucket) = 0;
  /// Bytes of a bucket's gradients as they are sent.
  virtual std::size_t bytes(std::size_t bucket) const = 0;
};

/// Inputs of a reduction. A reduction allocates all its memory in the constructor.
struct ReductionParts {
  std::shared_ptr<CommunicatorBackend> comm;
  std::shared_ptr<const GradientLayout> layout;
  std::unique_ptr<Arithmetic> arithmetic;
};

std::unique_ptr<BucketReduction> make_reduction(ReductionParts parts, const ReducerOptions& options);
/// Bytes that make_tree_reduction() allocates on `rank` of `ranks`.
std::size_t tree_reduction_bytes(std::span<const Bucket> buckets, std::uint64_t chunks, int rank, int ranks);
/// make_reduction() for ReducerOptions::chunks.
std::unique_ptr<BucketReduction> make_tree_reduction(ReductionParts parts, Reduction reduction,
                                                     std::uint64_t chunks);

}  // namespace muster::detail
