// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "compute/host_pages.hpp"

namespace muster::compute {

/// One zero-initialized block of host memory, aligned to a cache line. Move-only.
template <typename Real>
class Arena {
 public:
  static constexpr std::size_t alignment = 64;

  Arena() = default;
  /// @throws std::bad_alloc
  explicit Arena(std::size_t size) : size_(size) {
    data_.reset(static_cast<Real*>(allocate_pages(size * sizeof(Real))));
  }

  Real* data() noexcept { return data_.get(); }
  const Real* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::span<Real> span() noexcept { return {data_.get(), size_}; }
  std::span<const Real> span() const noexcept { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(Real* p) const noexcept { free_pages(p); }
  };
  std::unique_ptr<Real[], Free> data_;
  std::size_t size_ = 0;
};

/// Elements rounded up so that the next tensor of an arena starts on a cache line.
template <typename Real>
constexpr std::size_t aligned_count(std::size_t count) {
  constexpr std::size_t step = Arena<Real>::alignment / sizeof(Real);
  return (count + step - 1) / step * step;
}

}  // namespace muster::compute
