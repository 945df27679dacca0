// SPDX-License-Identifier: Apache-2.0
#include "strategies/central_storage/node_tensors.hpp"

#include "compute/arena.hpp"
#include "muster/types.hpp"
#include "optimizer/optimizer.hpp"

namespace muster {
namespace {

NodeMemory::Block block_of(std::size_t elements, std::size_t element_bytes, const Share& part) {
  return {elements * element_bytes, {part.begin * element_bytes, part.end * element_bytes}};
}

/// In the order in which they are allocated.
std::vector<NodeMemory::Block> blocks_of(const NodeTensors::Shape& shape, const Share& part) {
  std::vector<NodeMemory::Block> blocks(shape.moments + 1, block_of(shape.elements, sizeof(float), part));
  if (shape.rounds) blocks.push_back(block_of(shape.elements, sizeof(bfloat16), part));
  return blocks;
}

}  // namespace

MemorySegments NodeTensors::estimate_memory(const Shape& shape) {
  const std::uint64_t floats = shape.elements * sizeof(float);
  MemorySegments segments{{"shared parameters", floats, false, true},
                          {"shared moments", shape.moments * floats, false, true}};
  if (shape.rounds)
    segments.push_back({"shared rounded parameters",
                        compute::aligned_count<std::byte>(shape.elements * sizeof(bfloat16)), false, true});
  return segments;
}

NodeTensors::NodeTensors(const Shape& shape, const Communicator& world, int host_index,
                         const std::string& host)
    : node_(world.split(host_index)),
      leaders_(world.split(node_.rank())),
      part_(optimizer_part(shape.elements, node_.rank(), node_.size())),
      memory_(blocks_of(shape, part_), world, node_, host) {
  for (auto* const moment : {&moment1_, &moment2_}) {
    const std::size_t count = moment == &moment1_ || shape.moments == 2 ? shape.elements : 0;
    *moment = {static_cast<float*>(memory_.allocate(count * sizeof(float))), count};
  }
}

}  // namespace muster
