// SPDX-License-Identifier: Apache-2.0
// What a benchmark writes for the same computation in PyTorch (tests/gpu/gpt2_torch_gpu.py).
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "compute/token.hpp"
#include "models/tensor_table.hpp"

namespace muster {

/// All tensors of the table by their names, in float32.
inline void write_tensors(const std::filesystem::path& path, const models::TensorTable& table,
                          std::span<const float> values) {
  std::vector<SafetensorsSource> sources;
  for (const auto& tensor : table.tensors)
    sources.push_back(
        {tensor.name, "F32", tensor.shape, values.data() + tensor.offset, tensor.count * sizeof(float)});
  write_safetensors(path, {}, sources);
}

/// 16 bits each.
inline void write_tokens(const std::filesystem::path& path, const std::vector<compute::Token>& tokens) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(tokens.size() * sizeof tokens[0]));
}

}  // namespace muster
