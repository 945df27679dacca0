// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "data/mapped_file.hpp"
#include "tokenizer/bpe_tokenizer.hpp"

namespace muster::tokenizer {

/// Cuts a text into parts of at least `least` bytes whose tokens together are those of the whole text: after
/// line breaks between two characters that are not white space. One part, if the tokenizer allows none.
std::vector<std::string_view> cut_text(const BpeTokenizer& tokenizer, std::string_view text,
                                       std::size_t least);

/// The tokens of a whole file, in order and in parts, computed on all of OpenMP's threads.
/// @throws muster::Error(ErrorCode::usage) that names file and position, for text that is not UTF-8 or has a
/// byte without a token.
void tokenize_text(const BpeTokenizer& tokenizer, const data::MappedFile& file,
                   const std::function<void(std::span<const TokenId>)>& part);

}  // namespace muster::tokenizer
