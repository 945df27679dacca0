// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "communicator/collectives.hpp"
#include "muster/reducer.hpp"
#include "reducer/bucket_queue.hpp"

namespace muster::detail {

/// How a bucket on host memory is reduced.
class HostReduction {
 public:
  virtual ~HostReduction() = default;
  /// Its gradients are complete for one chunk, and may be overwritten afterwards. In the program's thread.
  virtual void take(std::size_t /*bucket*/) {}
  /// Leaves the result where the gradients are. In the thread that communicates; not while take() has the
  /// same bucket.
  virtual void reduce(std::size_t bucket) = 0;
  /// Of a bucket's gradients, as they travel.
  virtual std::size_t bytes(std::size_t bucket) const = 0;
};

/// As the communicator adds.
std::unique_ptr<HostReduction> make_plain_reduction(std::shared_ptr<Collectives> own,
                                                    std::shared_ptr<const GradientLayout> layout,
                                                    Reduction reduction);
/// ReducerOptions::bfloat16.
std::unique_ptr<HostReduction> make_bfloat16_reduction(std::shared_ptr<Collectives> own,
                                                       std::shared_ptr<const GradientLayout> layout,
                                                       Reduction reduction);
/// ReducerOptions::chunks.
std::unique_ptr<HostReduction> make_tree_reduction(std::shared_ptr<Collectives> own,
                                                   std::shared_ptr<const GradientLayout> layout,
                                                   Reduction reduction, std::uint64_t chunks);

}  // namespace muster::detail
