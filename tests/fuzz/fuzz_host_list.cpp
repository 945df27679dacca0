// SPDX-License-Identifier: Apache-2.0
// Slurm's lists of hosts, in the plugin and in the runtime, and lists of ports.
#include <set>

#include "launcher/launch_environment.hpp"
#include "launcher/local_hello.hpp"
#include "placement/report/host_list.hpp"
#include "slurm/expand_host_list.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string const text(reinterpret_cast<const char*>(data), size);
  if (auto const hosts = muster::spank::expand_host_list(text); hosts && hosts->size() < 1000) {
    // A list that we write has the same hosts when we read it.
    auto const reparsed = muster::spank::expand_host_list(muster::placement::host_list(*hosts));
    std::set<std::string> const wanted(hosts->begin(), hosts->end());
    if (!hosts->empty() && (!reparsed || std::set<std::string>(reparsed->begin(), reparsed->end()) != wanted))
      std::abort();
  }
  muster::bootstrap::expand_hostlist(text);
  muster::bootstrap::parse_port_list(text);
  muster::bootstrap::parse_cpu_list(text);
  return 0;
}
