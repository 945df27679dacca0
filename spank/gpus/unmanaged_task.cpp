// SPDX-License-Identifier: Apache-2.0
#include "gpus/unmanaged_task.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "gpus/isolation.hpp"
#include "log.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

// Of fixed size, so that it works when memory is short. 56 MIG instances by UUID fit.
using Value = std::array<char, 8192>;

// The whole step's, one for each of gpu_list_variables; empty: not set. One process serves one step.
std::array<Value, gpu_list_variables.size()> lists_of_step{};
bool step_has_gpus = false;  // false: a component or a node without GPUs

// nullptr if the task has no such variable.
const char* get_env(spank_t spank, const char* name, Value& value) {
  const bool found =
      spank_getenv(spank, name, value.data(), static_cast<int>(value.size())) == ESPANK_SUCCESS;
  return found ? value.data() : nullptr;
}

// Removes the variable that turned isolation off from the environment; the marker has its name.
void clear_override_variables(spank_t spank, const char* marker) {
  for (const char* name : {"SLURM_GPU_BIND", "SLURM_TRES_BIND"})
    if (std::strncmp(marker, name, std::strlen(name)) == 0) spank_unsetenv(spank, name);
  constexpr const char* flags = "SLURM_GRES_FLAGS";
  Value now;
  if (std::strncmp(marker, flags, std::strlen(flags)) == 0 && get_env(spank, flags, now) != nullptr) {
    const std::string before = original_gres_flags(now.data());
    if (before.empty())
      spank_unsetenv(spank, flags);
    else
      spank_setenv(spank, flags, before.c_str(), 1);
  }
  spank_unsetenv(spank, isolation_marker);
}

// Those of the task, else of the step.
std::vector<GpuList> find_gpu_lists(spank_t spank) {
  std::vector<GpuList> lists;
  for (std::size_t i = 0; i < gpu_list_variables.size(); ++i) {
    Value value;
    const char* gpus = get_env(spank, gpu_list_variables[i], value);
    if (gpus == nullptr) gpus = lists_of_step[i].data();
    if (*gpus != '\0') lists.push_back({gpu_list_variables[i], gpus});
  }
  return lists;
}

bool restore_visibility(spank_t spank, const char* marker) {
  Value binding;
  int local_rank = -1;
  spank_get_item(spank, S_TASK_ID, &local_rank);
  const auto lists = find_gpu_lists(spank);
  if (lists.empty() && !step_has_gpus) return true;
  const FallbackVisibility fallback =
      find_fallback_visibility(marker, get_env(spank, "SLURMD_TRES_BIND", binding), lists, local_rank);
  if (!fallback.problem.empty()) {
    log_to_user("muster: the task cannot be given GPUs of its own (%s) and ends; use srun --muster=off",
                fallback.problem.c_str());
    return false;
  }
  return std::all_of(fallback.own.begin(), fallback.own.end(), [&](const GpuList& list) {
    return spank_setenv(spank, list.variable.c_str(), list.gpus.c_str(), 1) == ESPANK_SUCCESS;
  });
}

}  // namespace

void record_step_gpus(spank_handle* spank) noexcept {
  Value value;
  if (get_env(spank, isolation_marker, value) == nullptr) return;
  const char* gpus = get_env(spank, "SLURM_STEP_GPUS", value);
  step_has_gpus = gpus != nullptr && *gpus != '\0' && std::strcmp(gpus, "NoDevFiles") != 0;
  for (std::size_t i = 0; i < gpu_list_variables.size(); ++i)
    if (get_env(spank, gpu_list_variables[i], lists_of_step[i]) == nullptr) lists_of_step[i][0] = '\0';
}

bool undo_isolation_override(spank_handle* spank, bool gpus_assigned) noexcept try {
  Value marker;
  if (get_env(spank, isolation_marker, marker) == nullptr) return true;
  const bool settled = gpus_assigned || restore_visibility(spank, marker.data());
  clear_override_variables(spank, marker.data());
  return settled;
} catch (const std::exception& error) {
  log_to_user("muster: the task cannot be given GPUs of its own (%s) and ends", error.what());
  return false;
}

}  // namespace muster::spank
