// SPDX-License-Identifier: Apache-2.0
#include "weights/network_weights.hpp"

#include <cstdint>

#include "compute/arena.hpp"
#include "models/named_network.hpp"
#include "weights/stored_tensors.hpp"

namespace muster::weights {

bool is_network_checkpoint(const Checkpoint& checkpoint) {
  return models::parse_network_text(checkpoint.state().model).has_value();
}

std::size_t write_network_weights(const std::filesystem::path& path, const Checkpoint& checkpoint,
                                  ElementType type) {
  const auto named = models::parse_network_text(checkpoint.state().model).value();
  const models::TensorTable table =
      models::named_network(named.name, named.width, named.classes, {32, 32, 3}).table;
  compute::Arena<float> parameters(table.arena_size);
  checkpoint.read(table, {parameters.span(), {}, {}});
  StoredTensors stored(type);
  const std::int64_t batches = checkpoint.state().step;
  for (const auto& tensor : table.tensors) {
    stored.add(tensor.name, tensor.shape, {parameters.data() + tensor.offset, tensor.count});
    // PyTorch's batch normalization counts its batches.
    if (tensor.name.ends_with(".running_var")) {
      const std::string norm = tensor.name.substr(0, tensor.name.rfind('.'));
      stored.add({norm + ".num_batches_tracked", "I64", {}, &batches, sizeof batches});
    }
  }
  write_safetensors(path, {{"model", checkpoint.state().model}}, stored.sources());
  return table.parameter_count;
}

}  // namespace muster::weights
