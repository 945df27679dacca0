// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>

#include "muster/collective_call.hpp"

namespace muster::detail {

/// Makes a sum of a premul_sum on host memory: multiplies this rank's input by its factor. The products go to
/// the result's memory where the whole input fits there, else into memory of this object. Other calls stay as
/// they are.
class PremulSum {
 public:
  PremulSum(const CollectiveCall& call, int rank, std::size_t ranks);
  /// While an exception unwinds, the memory is leaked: an operation may still use it.
  ~PremulSum();
  PremulSum(const PremulSum&) = delete;
  PremulSum& operator=(const PremulSum&) = delete;

  const CollectiveCall& call() const noexcept { return call_; }

 private:
  CollectiveCall call_;
  std::unique_ptr<std::byte[]> products_;
  int unwinding_ = std::uncaught_exceptions();
};

}  // namespace muster::detail
