// SPDX-License-Identifier: Apache-2.0
// Any bytes as a text for byte-level BPE of Llama 3's kind: refused, or tokens that decode to it; its parts
// have the same tokens.
#include <cstdlib>
#include <stdexcept>

#include "muster/error.hpp"
#include "tokenizer/bpe_tokenizer.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/utf8.hpp"

using namespace muster;

namespace {

tokenizer::TokenizerFile make_file() {
  tokenizer::TokenizerFile file = tokenizer::parse_tokenizer_file(tokenizer::byte_tokenizer_file());
  file.splits = true;
  file.expression = tokenizer::SplitPattern::llama3;
  file.ignore_merges = true;
  tokenizer::TokenId next = 256;
  for (const char* pair : {"th", "he", "  ", "aa", "\n\n", "'s", "\xc3\xa9"}) {
    file.vocabulary.emplace_back(next, pair);
    file.merges.push_back({static_cast<unsigned char>(pair[0]), static_cast<unsigned char>(pair[1]), next++});
  }
  file.added.push_back({"<|end|>", next++, false, true});
  file.added.push_back({"<x>", next++, true, false});
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tokenizer::BpeTokenizer const tokenizer(make_file());
  std::string const text(reinterpret_cast<const char*>(data), size);
  bool const valid = !tokenizer::find_invalid_utf8(text);
  try {
    std::string again;
    for (const auto token : tokenizer.encode(text)) again += tokenizer.decode(token);
    if (again != text || !valid) std::abort();
  } catch (const Error&) {
    if (valid) std::abort();
  }
  return 0;
}
