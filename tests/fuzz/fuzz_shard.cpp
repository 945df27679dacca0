// SPDX-License-Identifier: Apache-2.0
// A shard of tokens: its header, then every token that the header counts.
#include <cstdlib>

#include "data/corpus.hpp"
#include "data/shard.hpp"
#include "memory_file.hpp"
#include "muster/error.hpp"
#include "printable_error.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto [count, width] = data::tokens_in_shard({data, size}, "shard.bin");
    fuzz::MemoryFile const file(data, size);
    data::TokenSequence tokens;
    tokens.append(std::make_shared<data::MappedFile>(file.path()), data::shard_header_bytes, count, width);
    if (tokens.size() != count) std::abort();
    std::vector<data::Token> copy(count);
    tokens.copy(0, count, 50257, copy.data());
    for (const auto token : copy) {
      if (token >= 50257) std::abort();
    }
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
