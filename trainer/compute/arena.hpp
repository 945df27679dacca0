// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "compute/memory.hpp"

namespace muster::compute {

/// Bytes of a cache line. Arenas and their tensors begin at multiples of it.
inline constexpr std::size_t arena_alignment = 64;

/// One zero-initialized block of a device's memory, aligned to a cache line. Move-only; the device outlives
/// it.
template <typename Real>
class Arena {
 public:
  static constexpr std::size_t alignment = arena_alignment;

  Arena() = default;
  /// @throws what memory.allocate() throws.
  explicit Arena(std::size_t size, Memory& memory = host_memory())
      : data_(static_cast<Real*>(memory.allocate(size * sizeof(Real))), Free{&memory}), size_(size) {}

  Real* data() noexcept { return data_.get(); }
  const Real* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::span<Real> span() noexcept { return {data_.get(), size_}; }
  std::span<const Real> span() const noexcept { return {data_.get(), size_}; }

 private:
  struct Free {
    Memory* memory = nullptr;
    void operator()(Real* p) const noexcept { memory->free(p); }
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
