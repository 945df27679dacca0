// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "checkpoint/training_state.hpp"
#include "muster/error.hpp"
#include "tokenizer/bpe_tokenizer.hpp"
#include "tokenizer/byte_tokenizer.hpp"

namespace muster::tokenizer {

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& text, const std::string& where) {
  if (text == byte_tokenizer) return std::make_unique<ByteTokenizer>();
  try {
    return std::make_unique<BpeTokenizer>(parse_tokenizer_file(text));
  } catch (const std::runtime_error& reason) {
    throw Error(ErrorCode::usage,
                fmt::format("the tokenizer of {} cannot be used: {}", where, reason.what()));
  }
}

}  // namespace muster::tokenizer
