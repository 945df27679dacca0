// SPDX-License-Identifier: Apache-2.0
// A list of pictures; the first byte chooses the column of the labels.
#include <cstdlib>
#include <string_view>

#include "compute/token.hpp"
#include "muster/error.hpp"
#include "picture_sets/picture_list.hpp"
#include "printable_error.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static constexpr const char* columns[] = {"", "label", "class_id", "super_class_id"};
  try {
    const auto files = picture_sets::parse_picture_list({reinterpret_cast<const char*>(data) + 1, size - 1},
                                                        columns[data[0] % 4], "list.txt");
    if (files.empty()) std::abort();
    for (const auto& file : files) {
      if (file.path.empty() || file.path.find('\n') != std::string::npos) std::abort();
      if (file.label < 0 || file.label >= compute::most_classes) std::abort();
    }
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
