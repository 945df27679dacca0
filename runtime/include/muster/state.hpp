// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "muster/communicator.hpp"
#include "muster/export.hpp"

namespace muster {

/// What a program wants to be equal on all ranks: references to its tensors, counters and texts, which
/// broadcast_state() fills in. They must outlive this. Not thread-safe.
class MUSTER_EXPORT State {
 public:
  /// Memory as long on every rank; on an NCCL communicator, GPU memory, and then all parts are of this kind.
  template <Element T>
  State& add(std::span<T> memory) {
    return add_memory(memory.data(), memory.size_bytes());
  }
  /// One value without pointers in it: a counter, a struct of numbers.
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>) State& add(T& value) {
    return add_value(&value, sizeof value);
  }
  /// Gets rank 0's length.
  State& add(std::string& text);
  template <typename T>
  requires std::is_trivially_copyable_v<T> State& add(std::vector<T>& values) {
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
    std::size_t bytes = 0;  // of a part that has the same length everywhere, else of an element
    bool is_memory = false;
    std::function<std::size_t()> size;                // null: the length is fixed
    std::function<void*(std::size_t bytes)> resized;  // gives it room
  };
  State& add_memory(void* data, std::size_t bytes);
  State& add_value(void* data, std::size_t bytes);
  State& add_sized(std::function<std::size_t()> size, std::function<void*(std::size_t)> resized,
                   std::size_t element);

  friend MUSTER_EXPORT void broadcast_state(const Communicator& world, const State& state, Stream stream);
  std::vector<Part> parts_;
};

/// Copies rank 0's state to every rank, to the bit. Parts below 64 KiB travel together in one message, with
/// one before it for their lengths; each larger one is copied where it lies. On an NCCL communicator all
/// parts are enqueued on `stream` as one group, and the call does not wait for them. Collective.
/// @throws Error(ErrorCode::usage) when ranks have other parts than rank 0, or on NCCL a part that is no
/// memory.
MUSTER_EXPORT void broadcast_state(const Communicator& world, const State& state, Stream stream = nullptr);

}  // namespace muster
