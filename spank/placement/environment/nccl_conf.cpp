// SPDX-License-Identifier: Apache-2.0
#include "placement/environment/nccl_conf.hpp"

#include <algorithm>
#include <sstream>

#include "placement/topology/regular_file.hpp"

namespace muster::placement {

std::vector<Setting> read_nccl_conf(const std::string& path) {
  std::vector<Setting> settings;
  constexpr std::size_t longest = 64 * 1024;
  const auto file = read_regular_file(path, longest);
  std::istringstream lines(file ? file->text : "");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos || equals == 0) continue;
    const std::string name = line.substr(0, equals);
    const bool again = std::any_of(settings.begin(), settings.end(),
                                   [&](const Setting& setting) { return setting.name == name; });
    if (!again) settings.push_back({name, line.substr(equals + 1), path});
  }
  return settings;
}

}  // namespace muster::placement
