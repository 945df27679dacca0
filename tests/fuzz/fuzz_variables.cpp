// SPDX-License-Identifier: Apache-2.0
// The environment variables of launchers, one NAME=VALUE per line.
#include <map>

#include "launcher/launch_environment.hpp"
#include "launcher/launcher_detection.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string const text(reinterpret_cast<const char*>(data), size);
  std::map<std::string, std::string> variables;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = std::min(text.find('\n', at), text.size());
    auto const line = text.substr(at, end - at);
    if (auto const equals = line.find('='); equals != std::string::npos) {
      variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
    at = end + 1;
  }
  GetEnv const lookup(variables);
  try {
    if (auto const step = read_slurm_step(lookup)) {
      if (step->host_of.size() != static_cast<std::size_t>(step->size)) std::abort();
      derive_ports(step->job, step->port_seed);
    }
  } catch (const Error&) {
  }
  try {
    read_env_rendezvous(lookup);
  } catch (const Error&) {
  }
  is_below_torchrun(lookup);
  is_step_of_several(lookup);
  check_singleton_allowed(lookup);
  check_pmix_required(lookup, "reason");
  check_size_consistency(lookup, "slurm.pmix.1.0", 2);
  check_rank_consistency(lookup, 1, 2);
  return 0;
}
