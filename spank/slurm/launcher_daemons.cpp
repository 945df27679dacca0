// SPDX-License-Identifier: Apache-2.0
#include "slurm/launcher_daemons.hpp"

#include <algorithm>
#include <array>

namespace muster::spank {

bool is_launcher_daemon(std::string_view program) {
  constexpr std::array<std::string_view, 4> daemons = {"orted", "prted", "hydra_pmi_proxy",
                                                       "hydra_bstrap_proxy"};
  const std::string_view name = program.substr(program.rfind('/') + 1);
  return std::find(daemons.begin(), daemons.end(), name) != daemons.end();
}

EnabledParts parts_for_daemon(EnabledParts parts) {
  parts.gpu = false;
  parts.cpu = false;
  parts.memory = MemoryPolicy::off;
  parts.ranks = false;
  return parts;
}

}  // namespace muster::spank
