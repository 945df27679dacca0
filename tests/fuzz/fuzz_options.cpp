// SPDX-License-Identifier: Apache-2.0
// The list of --muster and the arguments in plugstack.conf: the first line is a list, the others are
// arguments.
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "hooks/activation_check.hpp"
#include "lines.hpp"
#include "options.hpp"

using namespace muster;
using namespace muster::spank;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto const lines = fuzz::split_lines(data, size);
  Settings settings;
  try {
    settings = parse_settings({lines.begin() + 1, lines.end()});
  } catch (const std::invalid_argument& error) {
    if (std::string_view(error.what()).empty()) std::abort();
  }
  for (bool const defaults : {false, true}) try {
      auto const words = parse_words(lines.front(), defaults);
      auto const options = resolve(words, settings);
      // For a valid list, the check with libc alone agrees with the parser.
      bool const strict = contains_word(lines.front().c_str(), "strict");
      if (lines.front().find('\0') == std::string::npos && strict != (words.mode == Mode::strict))
        std::abort();
      for (const char* name : {"RANK", "NCCL_IB_HCA", "CUDA_VISIBLE_DEVICES"})
        is_switched_off(options.parts, name);
    } catch (const std::invalid_argument& error) {
      if (std::string_view(error.what()).size() > 600) std::abort();
    }
  return 0;
}
