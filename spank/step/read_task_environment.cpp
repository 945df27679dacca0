// SPDX-License-Identifier: Apache-2.0
#include "step/read_task_environment.hpp"

#include <algorithm>

#include "nccl_conf/nccl_conf.hpp"
#include "open_mpi/tcp_interface.hpp"
#include "placement/environment/socket_interface.hpp"
#include "slurm/srun_environment.hpp"
#include "step/profiles.hpp"
#include "step/tensorflow_step.hpp"

namespace muster::spank {

namespace {

std::vector<placement::Setting> read_settings(const std::string& nccl_conf) {
  std::vector<placement::Setting> settings;
  for (const auto& [name, value] : read_nccl_conf(nccl_conf)) settings.push_back({name, value, nccl_conf});
  return settings;
}

void find_interface(const SlurmFacts& facts, const RankLayout& layout, std::size_t node,
                    placement::JobFacts& job) {
  // If Slurm counts only the nodes of a component, a name may be this node's own; the next one is then tried.
  const std::size_t others = std::min<std::size_t>(layout.hosts.empty() ? 0 : layout.hosts.size() - 1, 2);
  for (std::size_t step = 1; step <= others && job.socket_interface.empty(); ++step) {
    const std::string& peer = layout.hosts[(node + step) % layout.hosts.size()];
    job.socket_interface = placement::route_interface(peer);
    job.socket_reason = "the interface that routes to another node of the step";
  }
  if (!job.socket_interface.empty()) return;
  if (!facts.srun_host.empty()) job.socket_interface = placement::route_interface(facts.srun_host);
  job.socket_reason = "the interface that routes to srun";
  if (job.socket_interface.empty()) {
    job.socket_interface = placement::route_interface_from_proc("");
    job.socket_reason = "the interface of the default route";
  }
  if (others > 0) job.socket_reason += ", since the step's other nodes are not found by name";
}

// Open MPI ends the job if both btl_tcp_if_include and btl_tcp_if_exclude are set.
void find_mpi_interface(const placement::GetEnv& get_env, TaskEnvironment& environment) {
  if (!environment.parts.nic) return;
  const auto advice = open_mpi::advise_tcp_interface(environment.job.socket_interface, get_env);
  if (advice.should_set) environment.job.mpi_interface = environment.job.socket_interface;
  if (!advice.existing_choice.empty())
    environment.left_out.push_back({open_mpi::tcp_interface_variable, "", advice.existing_choice});
}

void find_frameworks(const SlurmFacts& facts, const RankLayout& layout, TaskEnvironment& environment) {
  auto& job = environment.job;
  job.ports =
      placement::use_reserved(placement::derive_ports(facts.leader_job, facts.step_id), facts.reserved_ports);
  if (const auto first = layout.node_of(0)) {
    job.master_address = layout.hosts[*first];
  } else {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS"})
      environment.left_out.push_back({name, "", layout.unknown});
  }
  if (job.world_size < 2) return;  // without TF_CONFIG a single process is a cluster of one
  TensorflowStep step = tensorflow_step(layout, job.world_size, job.ports.workers);
  job.tensorflow_cluster = std::move(step.cluster);
  if (!step.missing.empty()) environment.left_out.push_back({"TF_CONFIG", "", std::move(step.missing)});
}

// As NCCL finds them (initEnvFunc() in its src/misc/param.cc), on this node and not in a container.
void read_nccl_files(const placement::GetEnv& get_env, placement::FileSettings& settings) {
  std::string own = find_user_nccl_conf(get_env("NCCL_CONF_FILE").value_or(""));
  if (!own.starts_with('/')) own = get_env("PWD").value_or("") + "/" + own;
  settings.user_files = read_settings(own);
  settings.nccl_conf = read_settings("/etc/nccl.conf");
}

}  // namespace

TaskEnvironment read_task_environment(const SlurmFacts& facts, const EnabledParts& parts,
                                      const std::string& profiles, const placement::GetEnv& get_env,
                                      std::vector<std::string>& warnings) {
  TaskEnvironment environment;
  environment.parts = parts;
  if (!parts.env) return environment;
  // A step of one task runs a launcher that makes its own ranks: mpirun, torchrun, submitit's launcher.
  environment.parts.ranks = parts.ranks && facts.world_size > 1;
  environment.job.world_size = facts.world_size;
  environment.job.local_world_size = facts.local_tasks;
  environment.job.fence = get_env(fence_variable).value_or("");
  const RankLayout layout = facts.heterogeneous ? lay_out_components(facts.components, facts.ranks)
                                                : lay_out(facts.shape, facts.ranks);
  const std::size_t node =
      (facts.ranks.empty() ? std::nullopt : layout.node_of(facts.ranks.front())).value_or(facts.node_index);
  find_interface(facts, layout, node, environment.job);
  find_mpi_interface(get_env, environment);
  find_frameworks(facts, layout, environment);
  Profiles found = load_profiles(profiles.empty() ? default_profiles : profiles,
                                 {facts.cluster, facts.partition, facts.host});
  environment.file_settings.profiles = std::move(found.settings);
  std::erase_if(environment.file_settings.profiles,
                [&](const auto& setting) { return is_switched_off(environment.parts, setting.name); });
  warnings = std::move(found.warnings);
  read_nccl_files(get_env, environment.file_settings);
  return environment;
}

}  // namespace muster::spank
