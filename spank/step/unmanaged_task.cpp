// SPDX-License-Identifier: Apache-2.0
#include "step/unmanaged_task.hpp"

#include <array>
#include <cstring>
#include <exception>
#include <string>

#include "gpus/isolation.hpp"
#include "log.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

// Fixed, so that it works when memory is short; longer than 56 MIG instances by UUID.
using Value = std::array<char, 8192>;

Value
    gpus_of_step{};  // CUDA_VISIBLE_DEVICES of the whole step; empty: not known. One process serves one step.

// nullptr when the task has no such variable.
const char* read(spank_t spank, const char* name, Value& value) {
  const bool found =
      spank_getenv(spank, name, value.data(), static_cast<int>(value.size())) == ESPANK_SUCCESS;
  return found ? value.data() : nullptr;
}

// What lifted the isolation, out of the environment: the variable's name stands in the mark.
void forget(spank_t spank, const char* mark) {
  for (const char* name : {"SLURM_GPU_BIND", "SLURM_TRES_BIND"})
    if (std::strncmp(mark, name, std::strlen(name)) == 0) spank_unsetenv(spank, name);
  constexpr const char* flags = "SLURM_GRES_FLAGS";
  Value now;
  if (std::strncmp(mark, flags, std::strlen(flags)) == 0 && read(spank, flags, now) != nullptr) {
    const std::string before = flags_before_lift(now.data());
    if (before.empty())
      spank_unsetenv(spank, flags);
    else
      spank_setenv(spank, flags, before.c_str(), 1);
  }
  spank_unsetenv(spank, lift_mark);
}

bool narrow(spank_t spank, const char* mark) {
  Value binding, devices;
  int local_rank = -1;
  spank_get_item(spank, S_TASK_ID, &local_rank);
  const char* visible = read(spank, "CUDA_VISIBLE_DEVICES", devices);
  if (visible == nullptr && gpus_of_step[0] == '\0') return true;  // a component or a node without GPUs
  if (visible == nullptr) visible = gpus_of_step.data();
  const OwnShare share = own_share(mark, read(spank, "SLURMD_TRES_BIND", binding), visible, local_rank);
  if (!share.problem.empty()) {
    log_to_user("muster: the task cannot be given GPUs of its own (%s) and ends; use srun --muster=off",
                share.problem.c_str());
    return false;
  }
  if (share.cuda_devices.empty()) return true;
  return spank_setenv(spank, "CUDA_VISIBLE_DEVICES", share.cuda_devices.c_str(), 1) == ESPANK_SUCCESS;
}

}  // namespace

void note_step_gpus(spank_handle* spank) noexcept {
  Value mark;
  if (read(spank, lift_mark, mark) == nullptr) return;
  if (read(spank, "CUDA_VISIBLE_DEVICES", gpus_of_step) == nullptr) gpus_of_step[0] = '\0';
}

bool settle_lifted_isolation(spank_handle* spank, bool gpus_told_apart) noexcept try {
  Value mark;
  if (read(spank, lift_mark, mark) == nullptr) return true;
  const bool settled = gpus_told_apart || narrow(spank, mark.data());
  forget(spank, mark.data());
  return settled;
} catch (const std::exception& error) {
  log_to_user("muster: the task cannot be given GPUs of its own (%s) and ends", error.what());
  return false;
}

}  // namespace muster::spank
