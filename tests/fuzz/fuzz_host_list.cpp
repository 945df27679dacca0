// SPDX-License-Identifier: Apache-2.0
// Slurm's lists of hosts, in the plugin and in the runtime, and of ports.
#include <set>

#include "launcher/launch_environment.hpp"
#include "launcher/local_hello.hpp"
#include "placement/report/host_list.hpp"
#include "slurm/expand_host_list.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string const text(reinterpret_cast<const char*>(data), size);
  if (auto const hosts = muster::spank::expand_host_list(text); hosts && hosts->size() < 1000) {
    // What we write of them, we read.
    auto const again = muster::spank::expand_host_list(muster::placement::host_list(*hosts));
    std::set<std::string> const wanted(hosts->begin(), hosts->end());
    if (!hosts->empty() && (!again || std::set<std::string>(again->begin(), again->end()) != wanted))
      std::abort();
  }
  muster::bootstrap::expand_hostlist(text);
  muster::bootstrap::parse_port_list(text);
  muster::bootstrap::cpus_in(text);
  return 0;
}
