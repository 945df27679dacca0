// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/token_sort_index.hpp"

#include <algorithm>

namespace muster::compute::cuda {

void TokenSortIndex::sort(const Token* tokens, std::size_t count) {
  next_.assign(count == 0 ? 0 : std::size_t{*std::max_element(tokens, tokens + count)} + 1, 0);
  for (std::size_t i = 0; i < count; ++i) ++next_[tokens[i]];
  distinct.clear();
  begins.clear();
  std::uint32_t at = 0;
  for (std::size_t token = 0; token < next_.size(); ++token) {
    if (next_[token] == 0) continue;
    distinct.push_back(static_cast<Token>(token));
    begins.push_back(at);
    at += next_[token];
    next_[token] = begins.back();
  }
  begins.push_back(at);
  order.resize(count);
  for (std::size_t i = 0; i < count; ++i) order[next_[tokens[i]]++] = static_cast<std::uint32_t>(i);
}

}  // namespace muster::compute::cuda
