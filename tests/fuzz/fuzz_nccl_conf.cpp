// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of nccl.conf: what it returns is what setenv(3) accepts, and reading it again from a file
// of its settings changes nothing.
#include <cstdlib>
#include <string>

#include "nccl_conf/nccl_conf.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto const settings = parse_nccl_conf({reinterpret_cast<const char*>(data), size});
  std::string written;
  for (const auto& [name, value] : settings) {
    auto const is_cut = [](const std::string& part) {
      return part.size() > 1023 || part.find('\0') != part.npos;
    };
    if (name.empty() || name.find('=') != name.npos || is_cut(name) || is_cut(value)) std::abort();
    written += name + "=" + value + "\n";
  }
  if (parse_nccl_conf(written) != settings) std::abort();
  return 0;
}
