// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "weights/elements.hpp"

namespace muster::weights {

/// Tensors to write in one type, with copies of those that the type changes.
class StoredTensors {
 public:
  explicit StoredTensors(ElementType type) : type_(type) {}
  /// `copies`: keep a copy, because the elements may go away before sources() is used.
  void add(std::string name, std::vector<std::int64_t> shape, std::span<const float> elements,
           bool copies = false);
  /// A tensor of another type.
  void add(SafetensorsSource source) { sources_.push_back(std::move(source)); }
  const std::vector<SafetensorsSource>& sources() const noexcept { return sources_; }

 private:
  ElementType type_;
  std::vector<std::vector<char>> copies_;
  std::vector<SafetensorsSource> sources_;
};

}  // namespace muster::weights
