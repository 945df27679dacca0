// SPDX-License-Identifier: Apache-2.0
// A .bin of llm.c: its header with a size that the input chooses, and as a file.
#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "memory_file.hpp"
#include "muster/error.hpp"
#include "printable_error.hpp"
#include "weights/llmc_file.hpp"

using namespace muster;

namespace {

constexpr std::size_t most_parameters = 1 << 20;

void parse(const std::uint8_t* data, std::size_t size) {
  std::array<std::int32_t, 256> header{};
  std::uint64_t file_size = 0;
  std::memcpy(&file_size, data, std::min(size, sizeof file_size));
  if (size > sizeof file_size)
    std::memcpy(header.data(), data + sizeof file_size, std::min(size - sizeof file_size, sizeof header));
  try {
    auto const parsed = weights::parse_llmc_header(header, file_size);
    if (!models::size_problem(parsed.config).empty() || parsed.padded_vocabulary < parsed.config.vocabulary)
      std::abort();
  } catch (const std::runtime_error& error) {
    fuzz::check_printable(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parse(data, size);
  fuzz::MemoryFile const file(data, size);
  try {
    weights::LlmcFile const opened(file.path());
    auto const table = models::gpt_tensors(opened.config());
    if (table.arena_size > most_parameters) return 0;
    std::vector<float> parameters(table.arena_size);
    opened.read(parameters);
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
