// SPDX-License-Identifier: Apache-2.0
// A job description, for every target: `muster render`.
#include <cstdint>

#include "render/targets.hpp"

using namespace muster::render;

namespace {

template <typename Target>
void render_to(Target target, const JobDescription& job) {
  try {
    target(job);
  } catch (const DescriptionError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto settings = parse_settings(std::string(reinterpret_cast<const char*>(data), size), "job.toml");
    const auto job = make_description(settings, "job.toml");
    render_to([](const JobDescription& one) { slurm_script(one, {}); }, job);
    render_to(mpirun_script, job);
    render_to(jobset_manifest, job);
    render_to(mpijob_manifest, job);
  } catch (const DescriptionError&) {
  }
  return 0;
}
