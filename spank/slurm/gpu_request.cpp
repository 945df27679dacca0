// SPDX-License-Identifier: Apache-2.0
#include "slurm/gpu_request.hpp"

#include <algorithm>
#include <string>

#include "isolation_marker.hpp"
#include "slurm/srun_command.hpp"
#include "text/split.hpp"

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

// The binding that Slurm passes to a task comes first. Before the tasks start, only the request to srun is
// known.
std::string find_binding(const placement::GetEnv& get_env) {
  for (const char* name : {"SLURMD_TRES_BIND", step_gpu_binding, "SLURM_TRES_BIND"})
    if (const auto binding = get_env(name)) return gpu_binding(*binding);
  const auto wanted = get_env("SLURM_GPU_BIND");
  return wanted ? gpu_binding("gpu:" + *wanted) : "";
}

int parse_count_after(const std::string& text, char separator) {
  const auto at = text.rfind(separator);
  return at == std::string::npos ? 0 : parse_count(text.substr(at + 1));
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
    return is_number ? parse_count(std::string(rest)) : 1;  // a type alone means one
  }
  return 0;
}

}  // namespace

int gpus_in_tres(std::string_view tres) {
  constexpr int most = 1 << 16;  // more than any node has
  int total = 0;
  for (const auto entry : split(tres, ',')) total = std::min(total + gpus_in_entry(entry), most);
  return total;
}

GpuRequest read_gpu_request(const placement::GetEnv& get_env) {
  const auto variable = [&](const char* name) { return get_env(name).value_or(""); };
  const std::string binding = find_binding(get_env);
  const int gpus_of_marker = parse_count_after(variable(isolation_marker), ':');
  GpuRequest request;
  request.per_task = gpus_in_tres(variable("SLURM_TRES_PER_TASK"));
  if (request.per_task == 0 && binding.starts_with("per_task:"))
    request.per_task = parse_count_after(binding, ':');
  if (request.per_task == 0) request.per_task = gpus_of_marker;
  if (request.per_task == 0) request.per_task = parse_count(variable("SLURM_GPUS_PER_TASK"));
  request.tasks_per_gpu = get_env("SLURM_NTASKS_PER_GPU") || get_env("SLURM_NTASKS_PER_TRES");
  request.shared = request.tasks_per_gpu || get_env("SLURM_SHARDS_ON_NODE") ||
                   get_env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  // "closest" may mean all of them; if it means fewer, the task finds that out.
  const bool unbound = binding.empty() || binding.starts_with("none") || binding.starts_with("closest");
  request.binding = binding;
  request.bound = gpus_of_marker > 0 || request.shared || !unbound;
  return request;
}

}  // namespace muster::spank
