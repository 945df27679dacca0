// SPDX-License-Identifier: Apache-2.0
#include "step/step.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "gpus/gpu_assignment.hpp"
#include "log.hpp"
#include "placement/topology/read.hpp"
#include "slurm/binding.hpp"
#include "step/read_task_environment.hpp"
#include "step/step_output.hpp"
#include "step/step_request.hpp"
#include "step/task_gpus.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

placement::Node read_node(const Settings& settings, TopologyCache& cache) {
  placement::Node node = cache.read();
  if (!settings.topology.empty())
    placement::override_locality(node, placement::read_nccl_locality(settings.topology));
  return node;
}

void leave_cpus_to_user(Step& step) {
  auto& parts = step.options.parts;
  if (step.facts.cpu_binding.empty() && parts.cpu) return;
  const std::string why = parts.cpu ? "--cpu-bind=" + step.facts.cpu_binding : "cpu=off";
  parts.cpu = false;
  step.placement.warnings.push_back("the tasks' CPUs are not those of the table: Slurm's binding stays (" +
                                    why + ")");
}

void log_warnings(const Step& step, const std::vector<std::string>& warnings) {
  if (warnings.empty()) return;
  if (step.options.mode == Mode::strict) throw std::runtime_error(warnings.front());
  // To the user once for the step, to the administrator in every node's slurmd log.
  const auto& ranks = step.facts.ranks;
  const bool first = std::find(ranks.begin(), ranks.end(), 0) != ranks.end();
  for (const auto& line : warnings) {
    if (first) log_to_user("muster: %s: %s", step.facts.host.c_str(), line.c_str());
    log_to_node("muster: %s", line.c_str());
  }
}

void bind(const Step& step, const placement::TaskPlacement& task, int rank) {
  const auto& parts = step.options.parts;
  const auto failed = [&](const std::string& what, int error) {
    const std::string text = "rank " + std::to_string(rank) + ": " + what + " (" + std::strerror(error) + ")";
    if (step.options.mode == Mode::strict) throw std::runtime_error(text);
    log_to_user("muster: %s: %s; Slurm's own binding stays", step.facts.host.c_str(), text.c_str());
  };
  if (parts.cpu)
    if (const int error = bind_to_cpus(task.cpus); error != 0)
      failed("cannot be bound to CPUs " + task.cpus.to_list(), error);
  if (const int error = set_memory(parts.memory, task.memory); error != 0)
    failed("memory of NUMA domain " + std::to_string(task.memory.front()) + " cannot be requested", error);
}

// Removes variables that Muster set for an outer step and does not set for this one.
void set_environment(spank_t spank, const placement::EnvironmentChange& change, const std::string& host,
                     int rank) {
  auto stale = placement::set_by_outer_step(job_environment(spank));
  for (const auto& variable : change.set) {
    stale.erase(variable.name);
    if (spank_setenv(spank, variable.name.c_str(), variable.value.c_str(), 1) != ESPANK_SUCCESS)
      log_to_user("muster: rank %d on %s: %s could not be set", rank, host.c_str(), variable.name.c_str());
  }
  for (const auto& name : stale) spank_unsetenv(spank, name.c_str());
}

// Slurm's own lists name the GPUs that Slurm would have assigned to this task.
void correct_slurm_gpu_lists(spank_t spank, const placement::Node& node,
                             const placement::TaskPlacement& task) {
  std::string minors;
  for (const auto& gpu : task.gpus) {
    if (!minors.empty()) minors += ',';
    minors += std::to_string(node.find_gpu(gpu.pci)->minor);
  }
  if (job_environment(spank)("SLURM_STEP_GPUS")) spank_setenv(spank, "SLURM_STEP_GPUS", minors.c_str(), 1);
  spank_unsetenv(spank, "GPU_DEVICE_ORDINAL");  // only AMD's OpenCL reads it
}

}  // namespace

std::optional<Step> plan_step(spank_handle* spank, const StepOptions& options, const Settings& settings,
                              TopologyCache& cache) {
  const auto start = std::chrono::steady_clock::now();
  Step step;
  step.facts = read_slurm_facts(spank);
  step.options = options;
  if (!options.explicitly_requested && step.facts.gpus.empty()) return std::nullopt;
  step.node = read_node(settings, cache);
  // Slurm's GPUs may be another vendor's.
  if (!options.explicitly_requested && step.node.gpus.empty()) return std::nullopt;
  step.node.host = step.facts.host;
  step.gpus = find_step_gpus(step.node, step.facts.gpus);
  auto request = make_request(step.node, step.facts, options, step.gpus.all);
  request.bound = gpus_bound_by_user(step.node, step.facts, step.gpus);
  step.placement = placement::place(step.node, request);
  leave_cpus_to_user(step);
  const auto get_env = job_environment(spank);
  std::vector<std::string> warnings;
  step.environment =
      read_task_environment(step.facts, step.options.parts, settings.profiles, get_env, warnings);
  log_warnings(step, warnings);
  prepare_output(step, get_env);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  step.plan_milliseconds = took.count();
  return step;
}

void apply_step(spank_handle* spank, const Step& step, RowClaims& claims, const NodeRoot& root) {
  const auto get_env = job_environment(spank);
  const TaskFacts facts = read_task_facts(spank, step.facts);
  const TaskGpus found = find_task_gpus(step, facts);
  const auto index = static_cast<std::size_t>(facts.local_rank);
  ClaimedRow claimed;
  claimed.rank = facts.rank;
  claimed.row = claims.claim(index, preferred_rows(step.placement, facts.local_rank, found.own));
  for (std::size_t i = 0; i < std::min(step.gpus.all.size(), ClaimedRow::most_gpus); ++i)
    claimed.gpus[i] = is_among(step.gpus.all[i], found.own);
  if (claims.arrive(index, claimed)) write_output(step, claims, found, get_env, root);
  if (facts.rank == 0)
    for (const auto& warning : gpu_warnings(step, found)) log_to_user("muster: %s", warning.c_str());
  const auto task = placement_for_gpus(step.placement, claimed.row, facts.local_rank, found.own);
  bind(step, task, facts.rank);
  if (!step.options.parts.env) return;
  if (step.facts.heterogeneous && step.facts.components.empty() && facts.rank == 0)
    log_to_user(
        "muster: Slurm does not pass rank 0's host to the components of this heterogeneous step, so "
        "MASTER_ADDR and MASTER_PORT are not set; set them, or start components as a heterogeneous job");
  const auto shown = choose_shown_gpus(step, task, found);
  set_environment(spank, step.environment.decide(task, facts.rank, shown, get_env), step.facts.host,
                  facts.rank);
  if (found.bound_by_default) correct_slurm_gpu_lists(spank, step.node, task);
}

void clear_outer_step_environment(spank_handle* spank) {
  const auto get_env = job_environment(spank);
  if (!get_env("MUSTER_SET")) return;
  for (const auto& name : placement::set_by_outer_step(get_env)) spank_unsetenv(spank, name.c_str());
  // Those of docs/environment.md that Muster sets, not those that a user sets.
  for (const char* name : {"MUSTER_VERSION", "MUSTER_GPUS", "MUSTER_CPUS", "MUSTER_MEMORY", "MUSTER_NICS",
                           "MUSTER_SET", "MUSTER_SET_SUMS", "MUSTER_KEPT"})
    spank_unsetenv(spank, name);
}

}  // namespace muster::spank
