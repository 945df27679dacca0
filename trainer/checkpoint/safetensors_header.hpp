// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct SafetensorsTensor {
  std::string name;
  std::string type;  ///< "F32", …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes from the end of the header
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsTensor> tensors;  ///< in the order of their bytes
};

/// Parses the JSON header of a safetensors file with `data_size` bytes of tensors. Accepts only what the
/// format's reference allows: known types, shapes that match byte ranges, ranges without overlap or hole from
/// 0 to data_size, unique names. Memory: up to some twenty times the text's size, whatever the header claims.
/// @throws std::runtime_error with the reason, in one line.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_size);

}  // namespace muster
