// SPDX-License-Identifier: Apache-2.0
#include "gpus/isolation.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "text/split.hpp"

namespace muster::spank {

namespace {

// The first Slurm whose srun knows --gres-flags=allow-task-sharing (CHANGELOG of 23.11.4). An older srun
// ends with "Invalid --gres-flags specification" if SLURM_GRES_FLAGS contains it.
constexpr SlurmVersion task_sharing_since{23, 11, 4};
constexpr std::string_view task_sharing = "allow-task-sharing";

// srun's manual since 23.11: --gpus-per-task of the job implies this value and passes it on; no user chose
// it.
constexpr std::string_view implied_binding = "gres/gpu:per_task:";
// Likewise for --ntasks-per-gpu.
constexpr std::string_view implied_single = "gres/gpu:single:";

bool user_chose_binding(const ReadVariable& read) {
  const char* binding = read("SLURM_TRES_BIND");
  return read("SLURM_GPU_BIND") != nullptr ||
         (binding != nullptr && !std::string_view(binding).starts_with(implied_binding));
}

// All tasks may open all GPUs of the step, and Slurm still names each task's own in CUDA_VISIBLE_DEVICES.
std::optional<IsolationOverride> override_by_flag(const ReadVariable& read) {
  const char* found = read("SLURM_GRES_FLAGS");
  std::string flags = found == nullptr ? "" : found;
  if (flags.find(task_sharing) != std::string::npos) return std::nullopt;
  if (!flags.empty()) flags += ',';
  return IsolationOverride{"SLURM_GRES_FLAGS", flags + std::string(task_sharing), 0};
}

// No binding at all: all tasks see all GPUs of the step. Used only if it is known how many GPUs Slurm would
// have given each task, so that a task that cannot be placed still gets its own.
std::optional<IsolationOverride> override_by_binding(const SrunCommand& srun, const ReadVariable& read) {
  if (srun.gpus_per_task == 0) return std::nullopt;
  if (read("SLURM_TRES_BIND") != nullptr)
    return IsolationOverride{"SLURM_TRES_BIND", "gres/gpu:none", srun.gpus_per_task};
  return IsolationOverride{"SLURM_GPU_BIND", "none", srun.gpus_per_task};
}

// Empty: the list is too short.
std::string gpus_of_task(const std::string& list, std::size_t each, int local_rank) {
  const auto gpus = split(list, ',');
  const std::size_t first = static_cast<std::size_t>(local_rank) * each;
  std::string own;
  if (local_rank < 0 || first + each > gpus.size()) return own;
  for (std::size_t i = first; i < first + each; ++i) {
    if (i > first) own += ',';
    own += gpus[i];
  }
  return own;
}

bool exists(const std::string& file) { return access(file.c_str(), F_OK) == 0 || errno != ENOENT; }

}  // namespace

std::optional<IsolationOverride> choose_isolation_override(const SlurmVersion& slurm, const SrunCommand& srun,
                                                           const Settings& settings,
                                                           const ReadVariable& read) {
  const StepOptions options = resolve(srun.words, settings);
  if (options.mode == Mode::off || !options.parts.gpu) return std::nullopt;
  if (settings.isolation == Isolation::keep || srun.may_bind_gpus || user_chose_binding(read))
    return std::nullopt;
  return slurm >= task_sharing_since ? override_by_flag(read) : override_by_binding(srun, read);
}

std::string encode_marker(const IsolationOverride& isolation_override) {
  return isolation_override.variable + ":" + std::to_string(isolation_override.gpus_per_task);
}

std::string original_gres_flags(const std::string& flags) {
  if (!flags.ends_with(task_sharing)) return flags;
  const std::string own = flags.substr(0, flags.size() - task_sharing.size());
  return own.substr(0, own.find_last_not_of(',') + 1);
}

FallbackVisibility find_fallback_visibility(const char* marker, const char* binding,
                                            const std::vector<GpuList>& of_step, int local_rank) {
  if (marker == nullptr) return {};
  const std::string_view text(marker);
  const int each = std::atoi(marker + std::min(text.rfind(':') + 1, text.size()));
  // A --gpu-bind on srun's command line replaced the override, or Slurm still binds the tasks itself.
  if (each <= 0 || (binding != nullptr && std::string_view(binding).find("none") == std::string_view::npos))
    return {};
  if (of_step.empty())
    return {{},
            "Slurm lists them in no variable such as CUDA_VISIBLE_DEVICES; Flags=no_gpu_env in gres.conf?"};
  FallbackVisibility fallback;
  for (const auto& [variable, gpus] : of_step)
    // Slurm's lists are of one length, so a shorter one is the user's.
    if (auto own = gpus_of_task(gpus, static_cast<std::size_t>(each), local_rank); !own.empty())
      fallback.own.push_back({variable, std::move(own)});
  if (fallback.own.empty())
    fallback.problem = of_step.front().variable + "=" + of_step.front().gpus.substr(0, 200) + " has no " +
                       std::to_string(each) + " GPUs for local rank " + std::to_string(local_rank);
  return fallback;
}

bool bound_by_default(const char* marker, const char* binding, bool tasks_per_gpu) {
  if (marker == nullptr || binding == nullptr || !std::string_view(marker).starts_with("SLURM_GRES_FLAGS:"))
    return false;
  const std::string_view implied(binding);
  return implied.starts_with(implied_binding) || (tasks_per_gpu && implied.starts_with(implied_single));
}

std::vector<int> allowed_minors(const std::vector<int>& minors, const std::string& folder) {
  const auto device_file = [&](int minor) { return folder + "/nvidia" + std::to_string(minor); };
  const bool any_there =
      std::any_of(minors.begin(), minors.end(), [&](int minor) { return exists(device_file(minor)); });
  if (!any_there) return minors;
  std::vector<int> allowed;
  for (const int minor : minors)
    // access() checks the device cgroup too, and unlike open() it does not wake a GPU whose driver is idle.
    if (access(device_file(minor).c_str(), R_OK | W_OK) == 0) allowed.push_back(minor);
  return allowed;
}

bool devices_confined(const placement::Node& node, const std::vector<int>& step_minors,
                      const std::string& folder) {
  std::vector<int> all;
  for (const auto& gpu : node.gpus)
    if (gpu.minor >= 0) all.push_back(gpu.minor);
  const std::vector<int> allowed = allowed_minors(all, folder);
  const auto in = [](const std::vector<int>& list, int minor) {
    return std::find(list.begin(), list.end(), minor) != list.end();
  };
  return std::any_of(all.begin(), all.end(),
                     [&](int minor) { return !in(step_minors, minor) && !in(allowed, minor); });
}

std::string isolation_notice(const std::string& host, int visible, int of) {
  return host + ": Slurm shows each task " + std::to_string(visible) + " of the step's " +
         std::to_string(of) +
         " GPUs, so NVLink and CUDA IPC between this node's ranks are off and NCCL takes slower paths; srun "
         "--gpu-bind=none (from Slurm 23.11.4 on: --gres-flags=allow-task-sharing) avoids it, see muster(7)";
}

}  // namespace muster::spank
