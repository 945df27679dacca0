// SPDX-License-Identifier: Apache-2.0
#include "step/task_environment.hpp"

#include <algorithm>
#include <array>

#include "slurm/srun_environment.hpp"

namespace muster::spank {

namespace {

// Not for variables that always differ from rank to rank: with them, equal nodes would look different.
bool is_explained(const std::string& name) {
  constexpr std::array of_a_rank = {"CUDA_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS", "RANK",
                                    "WORLD_SIZE",           "LOCAL_RANK",           "LOCAL_WORLD_SIZE"};
  return !name.starts_with("MUSTER_") &&
         std::find(of_a_rank.begin(), of_a_rank.end(), name) == of_a_rank.end();
}

// Whether the tasks' CUDA_DEVICE_ORDER will be PCI_BUS_ID, the value that Muster sets.
bool will_order_gpus_by_pci(const placement::FileSettings& settings, const placement::GetEnv& get_env) {
  constexpr const char *name = "CUDA_DEVICE_ORDER", *by_pci = "PCI_BUS_ID";
  if (const auto value = get_env(name)) return *value == by_pci;
  const auto* setting = placement::find_setting(settings, name).setting;
  return setting == nullptr || setting->value == by_pci;
}

}  // namespace

placement::EnvironmentChange TaskEnvironment::decide(const placement::TaskPlacement& task, int rank,
                                                     const ShownGpus& shown,
                                                     const placement::GetEnv& get_env) const {
  placement::JobFacts facts = job;
  facts.rank = rank;
  facts.local_rank = task.local_rank;
  facts.visible_gpus = shown.openable;
  facts.gpus_by_index = shown.by_index && will_order_gpus_by_pci(file_settings, get_env);
  facts.shown_gpus = shown.list;
  facts.first_own = shown.first_own;
  std::vector<std::string> not_from_user;
  if (shown.replaceable)
    not_from_user.emplace_back("CUDA_VISIBLE_DEVICES");
  else if (!placement::set_by_outer_step(get_env).contains("CUDA_VISIBLE_DEVICES"))
    facts.cuda_visible_devices = get_env("CUDA_VISIBLE_DEVICES");
  if (!facts.fence.empty() && get_env(fence_marker) == facts.fence)
    not_from_user.emplace_back(fence_variable);
  auto derived = placement::derive_environment(task, facts);
  std::erase_if(derived, [&](const auto& variable) { return is_switched_off(parts, variable.name); });
  auto change = placement::decide_environment(derived, get_env, not_from_user, file_settings);
  change.left_out.insert(change.left_out.end(), left_out.begin(), left_out.end());
  return change;
}

std::optional<std::string> TaskEnvironment::effective_value(const std::string& name,
                                                            const placement::GetEnv& get_env) const {
  if (auto value = get_env(name)) return value;
  const auto* setting = placement::find_setting(file_settings, name).setting;
  return setting == nullptr ? std::nullopt : setting->value;
}

std::vector<std::string> TaskEnvironment::explain(const placement::TaskPlacement& task, int rank,
                                                  const placement::GetEnv& get_env) const {
  if (!parts.env) return {};
  const auto change = decide(task, rank, {{}, false, true, task.gpus, 0}, get_env);
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<placement::Variable>& variables, bool valued) {
    constexpr std::size_t longest = 60;
    for (const auto& variable : variables) {
      if (!is_explained(variable.name)) continue;
      const std::string value =
          variable.value.size() <= longest ? variable.value : variable.value.substr(0, longest) + "...";
      lines.push_back(variable.name + (valued ? "=" + value : " not set") + ": " + variable.reason);
    }
  };
  add(change.set, true);
  add(change.kept, true);
  add(change.left_out, false);
  return lines;
}

}  // namespace muster::spank
