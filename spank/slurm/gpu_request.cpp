// SPDX-License-Identifier: Apache-2.0
#include "slurm/gpu_request.hpp"

#include <algorithm>
#include <string>

#include "lift_mark.hpp"
#include "slurm/srun_command.hpp"

namespace muster::spank {

namespace {

// "gpu:per_task:2" or "gres/gpu:verbose,per_task:2", one of several that '+' separates → "per_task:2".
std::string gpu_binding(const std::string& tres_binding) {
  constexpr std::string_view name = "gpu:";
  const auto at = tres_binding.find(name);
  if (at == std::string::npos) return {};
  const auto start = at + name.size();
  std::string binding = tres_binding.substr(start, tres_binding.find('+', start) - start);
  for (const char* noisy : {"verbose,", "v,"})
    if (binding.starts_with(noisy)) binding.erase(0, std::string_view(noisy).size());
  return binding;
}

// Slurm's word to a task comes first. Before the tasks are there, what srun was asked for is all there is.
std::string said_binding(const placement::Lookup& lookup) {
  for (const char* name : {"SLURMD_TRES_BIND", step_gpu_binding, "SLURM_TRES_BIND"})
    if (const auto binding = lookup(name)) return gpu_binding(*binding);
  const auto wanted = lookup("SLURM_GPU_BIND");
  return wanted ? gpu_binding("gpu:" + *wanted) : "";
}

int count_behind(const std::string& text, char separator) {
  const auto at = text.rfind(separator);
  return at == std::string::npos ? 0 : count_of(text.substr(at + 1));
}

// "gres/gpu:a100=2", "gres:gpu", … → the count; 0 for another resource.
int gpus_in_entry(std::string_view entry) {
  for (const std::string_view kind : {"gres/gpu", "gres:gpu"}) {
    if (!entry.starts_with(kind)) continue;
    std::string_view rest = entry.substr(kind.size());
    if (rest.empty()) return 1;
    if (rest.front() != ':' && rest.front() != '=') return 0;  // such as gres/gpumem
    rest.remove_prefix(rest.find_last_of(":=") + 1);
    const bool is_number = !rest.empty() && rest.find_first_not_of("0123456789") == std::string_view::npos;
    return is_number ? count_of(std::string(rest)) : 1;  // a type alone means one
  }
  return 0;
}

}  // namespace

int gpus_in_tres(std::string_view tres) {
  constexpr int most = 1 << 16;  // no node has as many
  int total = 0;
  while (!tres.empty() && total < most) {
    const auto comma = std::min(tres.find(','), tres.size());
    total += std::min(gpus_in_entry(tres.substr(0, comma)), most);
    tres.remove_prefix(std::min(comma + 1, tres.size()));
  }
  return std::min(total, most);
}

GpuRequest read_gpu_request(const placement::Lookup& lookup) {
  const auto word = [&](const char* name) { return lookup(name).value_or(""); };
  const std::string binding = said_binding(lookup);
  const int lifted = count_behind(word(lift_mark), ':');
  GpuRequest request;
  request.per_task = gpus_in_tres(word("SLURM_TRES_PER_TASK"));
  if (request.per_task == 0 && binding.starts_with("per_task:"))
    request.per_task = count_behind(binding, ':');
  if (request.per_task == 0) request.per_task = lifted;
  if (request.per_task == 0) request.per_task = count_of(word("SLURM_GPUS_PER_TASK"));
  request.tasks_per_gpu = lookup("SLURM_NTASKS_PER_GPU") || lookup("SLURM_NTASKS_PER_TRES");
  request.shared =
      request.tasks_per_gpu || lookup("SLURM_SHARDS_ON_NODE") || lookup("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  // "closest" may well be all of them; where it is fewer, the task finds that out.
  const bool unbound = binding.empty() || binding.starts_with("none") || binding.starts_with("closest");
  request.binding = binding;
  request.bound = lifted > 0 || request.shared || !unbound;
  return request;
}

}  // namespace muster::spank
