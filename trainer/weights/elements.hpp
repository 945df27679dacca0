// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::weights {

enum class ElementType { float32, bfloat16, float16 };

/// By the name in safetensors files: "F32", "BF16" or "F16".
std::optional<ElementType> find_element_type(const std::string& name);
/// Its name there.
const char* name_of(ElementType type);
constexpr std::size_t bytes_of(ElementType type) { return type == ElementType::float32 ? 4 : 2; }

/// Converts `count` little-endian elements, exactly. `from` and `to` may not overlap.
void widen_elements(ElementType type, const void* from, std::size_t count, float* to);

/// The bytes of the elements as float32 or bfloat16, which rounds to the nearest, ties to even.
std::vector<char> narrow_elements(ElementType type, std::span<const float> elements);

/// to[columns, rows] = the transpose of from[rows, columns].
void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to);

}  // namespace muster::weights
