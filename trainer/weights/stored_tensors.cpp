// SPDX-License-Identifier: Apache-2.0
#include "weights/stored_tensors.hpp"

#include <utility>

namespace muster::weights {

void StoredTensors::add(std::string name, std::vector<std::int64_t> shape, std::span<const float> elements,
                        bool copies) {
  const void* data = elements.data();
  if (copies || type_ != ElementType::float32) {
    copies_.push_back(narrow_elements(type_, elements));
    data = copies_.back().data();
  }
  sources_.push_back(
      {std::move(name), name_of(type_), std::move(shape), data, elements.size() * bytes_of(type_)});
}

}  // namespace muster::weights
