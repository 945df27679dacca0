// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, and a text with it: decoded tokens are the text. The first byte says how many bytes of
// the input, from its end, are the text.
#include <cstdlib>
#include <stdexcept>

#include "muster/error.hpp"
#include "printable_error.hpp"
#include "tokenizer/bpe_tokenizer.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view file(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::size_t const length = std::min<std::size_t>(data[0], file.size());
  std::string const text(file.substr(file.size() - length));
  file.remove_suffix(length);
  try {
    tokenizer::BpeTokenizer const tokenizer(tokenizer::parse_tokenizer_file(file));
    std::string again;
    for (const auto token : tokenizer.encode(text)) {
      if (token >= tokenizer.size()) std::abort();
      again += tokenizer.decode(token);
    }
    // With a prefix space before each part there are more bytes.
    if (again.size() < text.size() || (again.size() == text.size() && again != text)) std::abort();
  } catch (const std::runtime_error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
