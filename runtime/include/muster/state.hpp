// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "muster/communicator.hpp"
#include "muster/export.hpp"

namespace muster {

namespace detail {

// Its bytes mean the same on every rank. A pointer inside a class cannot be seen here.
template <typename T>
concept StateValue = std::is_trivially_copyable_v<T> && !std::is_pointer_v<std::remove_all_extents_t<T>> &&
                     !std::ranges::view<T>;

}  // namespace detail

/// References to a program's tensors, counters and texts that must be equal on all ranks. broadcast_state()
/// fills them in. They must outlive this object. Not thread-safe.
class MUSTER_EXPORT State {
 public:
  /// Memory of equal length on every rank. On an NCCL communicator it is GPU memory, and no other kind of
  /// part is allowed.
  template <Element T, std::size_t Extent>
  State& add(std::span<T, Extent> memory) {
    return add_memory(memory.data(), memory.size_bytes());
  }
  /// One value without pointers: a counter, a struct of numbers. Pointers and views are refused.
  template <detail::StateValue T>
  State& add(T& value) {
    return add_value(&value, sizeof value);
  }
  /// A text; it gets rank 0's length.
  State& add(std::string& text);
  template <detail::StateValue T>
  State& add(std::vector<T>& values) {
    return add_sized([&values] { return values.size() * sizeof(T); },
                     [&values](std::size_t bytes) {
                       values.resize(bytes / sizeof(T));
                       return static_cast<void*>(values.data());
                     },
                     sizeof(T));
  }

 private:
  struct Part {
    void* data = nullptr;
    std::size_t bytes = 0;  // of a part of fixed length; else of one element
    bool is_memory = false;
    std::function<std::size_t()> size;                // null: the length is fixed
    std::function<void*(std::size_t bytes)> resized;  // resizes it
  };
  State& add_memory(void* data, std::size_t bytes);
  State& add_value(void* data, std::size_t bytes);
  State& add_sized(std::function<std::size_t()> size, std::function<void*(std::size_t)> resized,
                   std::size_t element);

  friend MUSTER_EXPORT void broadcast_state(const Communicator& world, const State& state, Stream stream);
  std::vector<Part> parts_;
};

/// Copies rank 0's state to every rank, bit for bit. Parts below 64 KiB are sent together in one message,
/// after one message for their lengths. Each larger part is copied in place. On an NCCL communicator all
/// parts are enqueued on `stream` as one group, and the call does not wait for them. Collective.
/// @throws Error(ErrorCode::usage) when ranks have other parts than rank 0, or on NCCL a part that is not
/// memory.
MUSTER_EXPORT void broadcast_state(const Communicator& world, const State& state, Stream stream = nullptr);

}  // namespace muster
