// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "models/memory_segment.hpp"
#include "models/tensor_table.hpp"
#include "muster/communicator.hpp"
#include "muster/sampler.hpp"
#include "strategies/central_storage/node_memory.hpp"

namespace muster {

/// What the ranks of a node have in common: the optimizer's moments, and memory for the parameters and the
/// rounded ones. Each rank updates a part of them.
class NodeTensors {
 public:
  struct Shape {
    std::size_t elements = 0;  ///< TensorTable::arena_size
    std::size_t moments = 0;   ///< Optimizer::moment_count()
    bool rounds = false;       ///< the model computes with rounded parameters
  };
  /// The shared memory that a node needs, computed before it is allocated.
  static MemorySegments estimate_memory(const Shape& shape);

  /// Collective over `world`, of host memory. `host_index`: equal on the ranks of a node, and on no others.
  /// @throws Error as NodeMemory.
  NodeTensors(const Shape& shape, const Communicator& world, int host_index, const std::string& host);

  /// The elements that this rank updates: whole cache lines, so that they are whole vectors of any
  /// instruction set.
  const Share& part() const noexcept { return part_; }
  std::span<float> moment1() noexcept { return moment1_; }
  std::span<float> moment2() noexcept { return moment2_; }
  /// For the parameters and then for the rounded ones.
  NodeMemory& parameter_memory() noexcept { return memory_; }

  /// Bytes of the memory that the node's ranks share.
  std::size_t shared_bytes() const noexcept { return memory_.bytes(); }
  bool is_rank0() const noexcept { return is_leader() && leaders_.rank() == 0; }
  /// True on the first rank of each node, which alone writes what other nodes send.
  bool is_leader() const noexcept { return node_.rank() == 0; }
  /// Sends the values of rank 0's node to every other node's. Only leaders call it.
  void broadcast(std::span<float> values) { leaders_.broadcast(values, 0); }
  /// Returns when every rank of the node has called it, and shows what they wrote before.
  void barrier() { node_.barrier(); }

 private:
  Communicator node_;
  Communicator leaders_;  ///< the ranks with this rank's number in their nodes
  Share part_;
  NodeMemory memory_;
  std::span<float> moment1_, moment2_;
};

}  // namespace muster
