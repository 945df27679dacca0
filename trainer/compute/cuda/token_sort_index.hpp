// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "compute/token.hpp"

namespace muster::compute::cuda {

/// Rows sorted by their token: order[begins[i]] … order[begins[i + 1] - 1] hold distinct[i], in ascending
/// order, so that sums over them have the same bits each time.
struct TokenSortIndex {
  std::vector<Token> distinct;
  std::vector<std::uint32_t> begins, order;

  void sort(const Token* tokens, std::size_t count);

 private:
  std::vector<std::uint32_t> next_;
};

}  // namespace muster::compute::cuda
