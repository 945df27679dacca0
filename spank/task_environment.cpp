// SPDX-License-Identifier: Apache-2.0
#include "task_environment.hpp"

#include "placement/socket_interface.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

TaskEnvironment::TaskEnvironment(spank_handle* spank, const SlurmFacts& facts, const Parts& parts)
    : host_(facts.host), parts_(parts) {
  job_.world_size = facts.world_size;
  job_.local_world_size = facts.local_tasks;
  job_.master_address = facts.first_host;
  job_.master_port = placement::master_port(facts.uid, facts.job_id, facts.step_id);
  const std::string launcher = job_variable(spank, "SLURM_LAUNCH_NODE_IPADDR").value_or("");
  const bool ipv6 = launcher.find(':') != std::string::npos;  // /proc/net/route knows IPv4 only
  job_.socket_interface = placement::socket_interface_to(ipv6 ? "" : launcher);
}

placement::EnvironmentChange TaskEnvironment::decide(spank_handle* spank,
                                                     const placement::TaskPlacement& task, int rank,
                                                     std::vector<placement::PciAddress> visible_gpus,
                                                     bool cuda_devices_by_slurm) const {
  placement::JobFacts job = job_;
  job.rank = rank;
  job.local_rank = task.local_rank;
  job.visible_gpus = std::move(visible_gpus);
  std::vector<std::string> not_from_user;
  if (cuda_devices_by_slurm) not_from_user.push_back("CUDA_VISIBLE_DEVICES");
  const auto lookup = [&](const std::string& name) { return job_variable(spank, name); };
  auto derived = placement::derive_environment(task, job);
  std::erase_if(derived, [&](const auto& variable) { return is_switched_off(parts_, variable.name); });
  return placement::decide_environment(derived, lookup, not_from_user);
}

void TaskEnvironment::apply(spank_handle* spank, const placement::EnvironmentChange& change, int rank) const {
  for (const auto& variable : change.set)
    if (spank_setenv(spank, variable.name.c_str(), variable.value.c_str(), 1) != ESPANK_SUCCESS)
      slurm_spank_log("muster: rank %d on %s: %s could not be set", rank, host_.c_str(),
                      variable.name.c_str());
}

}  // namespace muster::spank
