// SPDX-License-Identifier: Apache-2.0
// What the plugin reads from a step's environment and from srun's command line (the lines without "=").
// Memory and time must depend on the input's size, not on the numbers in it.
#include <cstdlib>

#include "gpus/gpu_assignment.hpp"
#include "gpus/isolation.hpp"
#include "lines.hpp"
#include "placement/environment/environment.hpp"
#include "slurm/gpu_request.hpp"
#include "slurm/rank_layout.hpp"
#include "slurm/srun_command.hpp"
#include "step/plan_file.hpp"

using namespace muster;
using namespace muster::spank;

namespace {

void decide(const placement::GetEnv& get_env) {
  placement::TaskPlacement task;
  task.gpus = {{{0, 1, 0, 0}, "GPU-a", 0}};
  task.cpus = {0, 1};
  placement::JobFacts facts;
  facts.rank = 1;
  facts.world_size = 2;
  facts.master_address = "n0";
  auto const change = placement::decide_environment(placement::derive_environment(task, facts), get_env);
  for (const auto& variable : change.set)
    for (const auto& kept : change.kept)
      if (variable.name == kept.name) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto const lines = fuzz::split_lines(data, size);
  auto const variables = fuzz::parse_environment(lines);
  std::vector<std::string> command_line = {"srun"};
  for (const auto& line : lines)
    if (line.find('=') == std::string::npos || line.starts_with('-')) command_line.push_back(line);
  ReadVariable const read = [&](const char* name) -> const char* {
    auto const at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  };
  placement::GetEnv const get_env = [&](const std::string& name) -> std::optional<std::string> {
    auto const at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
  auto const srun = read_srun_command(command_line, read);
  if (srun.gpus_per_task < 0 || srun.gpus_per_task > most_counted) std::abort();
  inherits_cpu_binding(command_line, read);
  std::vector<GpuList> gpu_lists;
  for (const char* variable : gpu_list_variables)
    if (const char* gpus = read(variable)) gpu_lists.push_back({variable, gpus});
  for (const SlurmVersion version : {SlurmVersion{22, 5, 8}, SlurmVersion{24, 11, 5}}) {
    Settings settings;
    settings.defaults.mode = Mode::automatic;
    if (auto const isolation_override = choose_isolation_override(version, srun, settings, read)) {
      original_gres_flags(isolation_override->value);
      find_fallback_visibility(encode_marker(*isolation_override).c_str(), read("SLURMD_TRES_BIND"),
                               gpu_lists, 1);
    }
  }
  find_fallback_visibility(read("SLURM_MUSTER_LIFTED"), read("SLURMD_TRES_BIND"), gpu_lists, 1);
  bound_by_default(read("SLURM_MUSTER_LIFTED"), read("SLURMD_TRES_BIND"), false);
  if (read_gpu_request(get_env).per_task < 0) std::abort();
  parse_umask(get_env("SLURM_UMASK"));
  plan_file_path({get_env("json").value_or(""), 7, 1, "n0", false});
  extract_layout(get_env("MUSTER_STEP_LAYOUT").value_or(""), 7, 1);
  decide(get_env);
  return 0;
}
