// SPDX-License-Identifier: Apache-2.0
#include "weights/network_weights.hpp"

#include <cstdint>

#include "compute/arena.hpp"
#include "models/named_network.hpp"

namespace muster::weights {

bool is_network_checkpoint(const Checkpoint& checkpoint) {
  return models::parse_network_text(checkpoint.state().model).has_value();
}

std::size_t write_network_weights(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const auto named = models::parse_network_text(checkpoint.state().model).value();
  const models::TensorTable table =
      models::named_network(named.name, named.width, named.classes, {32, 32, 3}).table;
  compute::Arena<float> parameters(table.arena_size);
  checkpoint.read(table, {parameters.span(), {}, {}});
  std::vector<SafetensorsSource> sources;
  const std::int64_t batches = checkpoint.state().step;
  for (const auto& tensor : table.tensors) {
    sources.push_back(
        {tensor.name, "F32", tensor.shape, parameters.data() + tensor.offset, tensor.count * sizeof(float)});
    // PyTorch's batch normalization counts its batches.
    if (tensor.name.ends_with(".running_var")) {
      const std::string norm = tensor.name.substr(0, tensor.name.rfind('.'));
      sources.push_back({norm + ".num_batches_tracked", "I64", {}, &batches, sizeof batches});
    }
  }
  write_safetensors(path, {{"model", checkpoint.state().model}}, sources);
  return table.parameter_count;
}

}  // namespace muster::weights
