// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace muster::weights {

enum class ElementType { float32, bfloat16, float16 };

/// By the name in safetensors files: "F32", "BF16" or "F16".
std::optional<ElementType> find_element_type(const std::string& name);
constexpr std::size_t bytes_of(ElementType type) { return type == ElementType::float32 ? 4 : 2; }

/// Converts `count` little-endian elements, exactly. `from` and `to` may not overlap.
void widen_elements(ElementType type, const void* from, std::size_t count, float* to);

/// to[columns, rows] = the transpose of from[rows, columns].
void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to);

}  // namespace muster::weights
