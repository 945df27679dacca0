// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::compute {

/// Chooses the algorithms of a device's matrix products. Not thread-safe.
///
/// An algorithm decides the order of a product's sums and so its bits. A run that goes on with the results of
/// an earlier one has the same bits.
class Autotuner {
 public:
  virtual ~Autotuner() = default;

  /// Takes the algorithms in `results`, a text of results(), for products that are first used from now on.
  /// Returns the reason when they belong to another GPU or library version and are not taken, else nothing.
  /// @throws Error(ErrorCode::usage) when `results` is no such text.
  virtual std::string load(const std::string& results) = 0;
  /// While on, a product without a result is timed at its next use, which then waits and computes the product
  /// several times. While off, it gets the library's first algorithm.
  virtual void set_timing(bool on) = 0;
  /// The algorithms of all products that were loaded and used, or timed, with the measured times: JSON.
  virtual std::string results() const = 0;
  /// The algorithms of all products that were computed while timing was off, and how each was chosen: JSON.
  /// Empty when there were none.
  virtual std::string plans() const = 0;
  /// Number of products that this object has timed.
  virtual int timed() const = 0;
};

}  // namespace muster::compute
