// SPDX-License-Identifier: Apache-2.0
// Slurm's lists of hosts and of ports, and the kernel's lists of CPUs.
#include <set>

#include "cpu_set/cpu_set.hpp"
#include "host_list/expand_host_list.hpp"
#include "host_list/fold_host_list.hpp"
#include "launcher/launch_environment.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string const text(reinterpret_cast<const char*>(data), size);
  if (auto const hosts = muster::expand_host_list(text); hosts && hosts->size() < 1000) {
    // A list that we write has the same hosts when we read it.
    auto const reparsed = muster::expand_host_list(muster::fold_host_list(*hosts));
    std::set<std::string> const wanted(hosts->begin(), hosts->end());
    if (!hosts->empty() && (!reparsed || std::set<std::string>(reparsed->begin(), reparsed->end()) != wanted))
      std::abort();
  }
  muster::bootstrap::parse_port_list(text);
  if (auto const cpus = muster::CpuSet::parse_list(text)) {
    auto const both = {cpus->to_list(), cpus->to_short_list()};
    for (const auto& written : both)
      if (muster::CpuSet::parse_list(written) != cpus) std::abort();
  }
  return 0;
}
