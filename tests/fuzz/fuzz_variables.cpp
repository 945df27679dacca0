// SPDX-License-Identifier: Apache-2.0
// The environment variables of launchers: one NAME=VALUE a line.
#include <map>

#include "launcher/slurm.hpp"
#include "launcher/step.hpp"

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
  Lookup const lookup = [&](const char* name) {
    auto const found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  try {
    if (auto const step = slurm_step_of(lookup)) {
      if (step->host_of.size() != static_cast<std::size_t>(step->size)) std::abort();
      ports_for(step->job);
    }
  } catch (const Error&) {
  }
  try {
    named_meeting_of(lookup);
  } catch (const Error&) {
  }
  is_below_torchrun(lookup);
  is_step_of_several(lookup);
  refusal_to_run_alone(lookup);
  refusal_without_pmix(lookup, "reason");
  disagreement_about_size(lookup, "slurm.pmix.1.0", 2);
  disagreement_about_rank(lookup, 1, 2);
  return 0;
}
