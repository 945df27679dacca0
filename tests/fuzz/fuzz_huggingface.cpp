// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder: config.json, then after a NUL model.safetensors, or an index and after a NUL
// a.safetensors, which it may name. config.json may be the input alone.
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "muster/error.hpp"
#include "printable_error.hpp"
#include "temporary_folder.hpp"
#include "weights/huggingface_config.hpp"
#include "weights/huggingface_folder.hpp"

using namespace muster;

namespace {

constexpr std::size_t most_parameters = 1 << 20;

std::string_view take_part(std::string_view& rest) {
  std::string_view const part = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

void read_folder(std::string_view config, std::string_view rest) {
  static TemporaryFolder const folder;
  write_file(folder / "config.json", std::string(config));
  bool const has_index = rest.starts_with('{');
  if (has_index) {
    std::filesystem::remove(folder / "model.safetensors");
    write_file(folder / "model.safetensors.index.json", std::string(take_part(rest)));
  }
  write_file(folder / (has_index ? "a.safetensors" : "model.safetensors"), std::string(rest));
  try {
    weights::HuggingfaceFolder const opened(folder.path());
    auto const table = models::gpt_tensors(opened.config());
    if (table.arena_size > most_parameters) return;
    std::vector<float> parameters(table.arena_size);
    opened.read(parameters);
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string_view const config = take_part(rest);
  try {
    auto const sizes = weights::parse_huggingface_config(config);
    // What is written is read as it was.
    if (weights::parse_huggingface_config(weights::write_huggingface_config(sizes)) != sizes) std::abort();
  } catch (const std::runtime_error& error) {
    fuzz::check_printable(error);
    return 0;
  }
  if (!rest.empty()) read_folder(config, rest);
  return 0;
}
