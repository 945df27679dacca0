// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer.hpp"

#include <fmt/format.h>

#include "checkpoint/training_state.hpp"
#include "muster/error.hpp"
#include "tokenizer/byte_tokenizer.hpp"

namespace muster::tokenizer {

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& text, const std::string& where) {
  if (text == byte_tokenizer) return std::make_unique<ByteTokenizer>();
  throw Error(ErrorCode::usage, fmt::format("{}: a tokenizer.json cannot be used yet", where));
}

}  // namespace muster::tokenizer
