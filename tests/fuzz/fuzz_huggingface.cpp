// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder: config.json, then after a NUL model.safetensors. Both may be the input alone.
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "muster/error.hpp"
#include "temporary_folder.hpp"
#include "weights/huggingface_config.hpp"
#include "weights/huggingface_folder.hpp"

using namespace muster;

namespace {

constexpr std::size_t most_parameters = 1 << 20;

void read_folder(std::string_view config, std::string_view tensors) {
  static TemporaryFolder const folder;
  write_file(folder / "config.json", std::string(config));
  write_file(folder / "model.safetensors", std::string(tensors));
  try {
    weights::HuggingfaceFolder const opened(folder.path());
    auto const table = models::gpt_tensors(opened.config());
    if (table.arena_size > most_parameters) return;
    std::vector<float> parameters(table.arena_size);
    opened.read(parameters);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view const input(reinterpret_cast<const char*>(data), size);
  std::size_t const end = std::min(input.find('\0'), input.size());
  std::string_view const config = input.substr(0, end);
  try {
    auto const sizes = weights::parse_huggingface_config(config);
    // What is written is read as it was.
    if (weights::parse_huggingface_config(weights::write_huggingface_config(sizes)) != sizes) std::abort();
  } catch (const std::runtime_error&) {
    return 0;
  }
  if (end < input.size()) read_folder(config, input.substr(end + 1));
  return 0;
}
