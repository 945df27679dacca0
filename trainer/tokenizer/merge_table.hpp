// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenizer/tokenizer_file.hpp"

namespace muster::tokenizer {

/// The merges of BPE by their two tokens: a hash table with open addressing, which is looked up for each pair
/// of neighbours in a text.
class MergeTable {
 public:
  struct Found {
    std::uint32_t rank = none;
    TokenId result = 0;
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  MergeTable() : MergeTable(std::vector<Merge>{}) {}
  /// The last of several merges of one pair counts, as in Hugging Face's tokenizers.
  explicit MergeTable(const std::vector<Merge>& merges) {
    std::size_t size = 16;
    while (size < 2 * merges.size()) size *= 2;
    slots_.resize(size);
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const Merge& merge = merges[rank];
      Slot& slot = slots_[place_of(key_of(merge.left, merge.right))];
      slot = {key_of(merge.left, merge.right), {static_cast<std::uint32_t>(rank), merge.result}};
    }
  }

  /// A rank of `none` when the pair does not merge.
  Found find(TokenId left, TokenId right) const { return slots_[place_of(key_of(left, right))].found; }

 private:
  struct Slot {
    std::uint64_t key = ~std::uint64_t{0};
    Found found;
  };
  static std::uint64_t key_of(TokenId left, TokenId right) { return std::uint64_t{left} << 32 | right; }
  /// The slot with this key, or the free one for it. Half of the slots are free.
  std::size_t place_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key * 0x9e3779b97f4a7c15u >> 32) & mask;  // Knuth's multiplicative hash
    while (slots_[at].key != key && slots_[at].found.rank != none) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace muster::tokenizer
