// SPDX-License-Identifier: Apache-2.0
// Fuzzes the two readers of nccl.conf, the plugin's and the runtime's: both must find the same variables.
#include <algorithm>
#include <string>

#include "inventory/nccl_conf.hpp"
#include "memory_file.hpp"
#include "placement/environment/nccl_conf.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::MemoryFile const file(data, size);
  std::string_view const text(reinterpret_cast<const char*>(data), size);
  auto const settings = bootstrap::parse_nccl_conf(text);
  for (const auto& [name, value] : settings) {
    auto const cut = [](const std::string& part) {
      return part.size() > 1023 || part.find('\0') != part.npos;
    };
    if (!name.starts_with("NCCL_") || cut(name) || cut(value)) std::abort();
  }
  // Only texts that the runtime's reader does not cut: the plugin's reader never cuts.
  bool const whole = text.find('\0') == text.npos && size <= 1023;
  std::size_t of_nccl = 0;
  for (const auto& setting : placement::read_nccl_conf(file.path())) {
    if (setting.name.empty()) std::abort();
    if (!whole || !setting.name.starts_with("NCCL_")) continue;
    ++of_nccl;
    auto const found = settings.find(setting.name);
    if (found == settings.end() || found->second != setting.value) std::abort();
  }
  if (whole && of_nccl != settings.size()) std::abort();
  return 0;
}
