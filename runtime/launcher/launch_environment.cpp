// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_environment.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "host_list/expand_host_list.hpp"
#include "text/parse_number.hpp"

namespace muster::bootstrap {
namespace {

constexpr int first_port = 10000;
constexpr int last_port = 29999;

// Nothing unless the text is an integer within the limits.
std::optional<int> parse_int(const std::string& text, int low, int high) {
  auto const value = parse_number<int>(text);
  return value && *value >= low && *value <= high ? value : std::nullopt;
}

constexpr int max_ranks = 1 << 24;
constexpr int default_master_port = 29500;  // PyTorch's
constexpr std::size_t max_hosts = 1u << 20;

int parse_required(const GetEnv& get_env, const std::string& name, int low, int high) {
  auto const text = get_env(name);
  if (auto const value = parse_int(text, low, high)) return *value;
  throw Error(ErrorCode::environment,
              fmt::format("join: {}='{}' must be an integer between {} and {}", name, text, low, high));
}

// Slurm reports only this rank's host. Those of other ranks follow only from the block and cyclic
// distributions.
std::vector<std::string> hosts_by_rank(const SlurmStep& step, const std::vector<int>& counts,
                                       const std::string& distribution) {
  std::vector<std::string> host_of(static_cast<std::size_t>(step.size));
  if (counts.size() != step.hosts.size()) return host_of;
  auto left = counts;
  std::size_t rank = 0;
  bool const cyclic = distribution.starts_with("cyclic");
  if (!cyclic && !distribution.empty() && !distribution.starts_with("block")) return host_of;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t node = 0; node < left.size(); ++node) {
      for (int n = cyclic ? std::min(left[node], 1) : left[node]; n > 0 && rank < host_of.size(); --n) {
        host_of[rank++] = step.hosts[node];
        --left[node];
        more = true;
      }
    }
  }
  return host_of;
}

// Empty for a malformed list.
std::vector<std::string> hosts_in(const std::string& list) {
  return expand_host_list(list).value_or(std::vector<std::string>{});
}

// The first host, except in a heterogeneous step (srun a : b): its hosts are sorted by name, but its ranks
// are numbered by component. Slurm 22.05 still uses PACK where its manual says HET.
std::string find_rank0_host(const GetEnv& get_env, const std::vector<std::string>& hosts) {
  for (const char* kind : {"HET", "PACK"}) {
    for (int group = 0;; ++group) {
      auto const list = get_env(fmt::format("SLURM_JOB_NODELIST_{}_GROUP_{}", kind, group));
      if (list.empty()) break;
      for (const auto& host : hosts_in(list))
        if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) return host;
    }
  }
  return hosts.front();
}

// A Trainer's pod with several processes is torchrun's, which sets RANK.
void check_one_process(const GetEnv& get_env, const RankEnvironment& names, int rank) {
  auto const processes = get_env("PET_NPROC_PER_NODE");
  if (names.rank != "PET_NODE_RANK" || processes.empty() || processes == "1") return;
  throw Error(ErrorCode::environment,
              fmt::format("join: PET_NPROC_PER_NODE={} asks for several processes in a pod, and this one was "
                          "not started by torchrun: start the program with torchrun, or set numProcPerNode "
                          "to 1",
                          processes),
              rank != 0);
}

void check_one_volcano_task(const GetEnv& get_env) {
  auto const tasks = find_volcano_tasks(get_env);
  if (tasks.size() < 2) return;
  throw Error(
      ErrorCode::environment,
      fmt::format(
          "join: the Job of Volcano has {} tasks (VC_{}_HOSTS, VC_{}_HOSTS), so that a pod's rank is not "
          "known: make the pods of one task the ranks, or let Volcano's plugin pytorch set RANK and "
          "WORLD_SIZE, or set MUSTER_JOIN=alone for a program of one process",
          tasks.size(), tasks[0], tasks[1]),
      get_env("VC_TASK_INDEX") != "0");
}

// Pods for which the manifest sets one host name are one host in Volcano's list.
void check_volcano_index(const GetEnv& get_env, const RankEnvironment& names, int size) {
  if (names.rank != "VC_TASK_INDEX") return;
  auto const index = parse_required(get_env, names.rank, 0, max_ranks - 1);
  if (index < size) return;
  throw Error(
      ErrorCode::environment,
      fmt::format("join: {}={}, but {}={}: leave out hostname in the task's template, so that each pod "
                  "has its own",
                  names.rank, index, names.size, size));
}

}  // namespace

std::vector<int> parse_task_counts(const std::string& list) {
  std::vector<int> counts;
  std::size_t at = 0;
  while (at < list.size()) {
    auto const end = std::min(list.find(',', at), list.size());
    auto const item = list.substr(at, end - at);
    auto const times_at = item.find("(x");
    auto const count = parse_int(item.substr(0, times_at), 0, max_ranks);
    int times = 1;
    if (times_at != std::string::npos)
      times = parse_int(item.substr(times_at + 2, item.size() - times_at - 3), 1, max_ranks).value_or(0);
    if (!count || static_cast<std::size_t>(times) > max_hosts - counts.size()) return {};
    counts.insert(counts.end(), static_cast<std::size_t>(times), *count);
    at = end + 1;
  }
  return counts;
}

std::vector<std::uint16_t> parse_port_list(const std::string& list) {
  std::vector<std::uint16_t> ports;
  std::size_t at = 0;
  while (at < list.size()) {
    auto const end = std::min(list.find(',', at), list.size());
    auto const item = list.substr(at, end - at);
    auto const dash = item.find('-');
    auto const low = parse_int(item.substr(0, dash), 1, 65535);
    auto const high = dash == std::string::npos ? low : parse_int(item.substr(dash + 1), 1, 65535);
    if (!low || !high) return {};
    for (int port = *low; port <= *high; ++port) ports.push_back(static_cast<std::uint16_t>(port));
    at = end + 1;
  }
  return ports;
}

std::vector<std::uint16_t> derive_ports(const std::string& job, const std::string& seed) {
  constexpr std::size_t with_seed = 8, without_seed = 32, most = std::max(with_seed, without_seed);
  std::array<std::uint8_t, 2 * most> hash{};
  static_assert(hash.size() <= crypto_generichash_BYTES_MAX);
  auto const text = job + "/" + seed;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < (seed.empty() ? without_seed : with_seed); ++i) {
    // Modulo 20,000 some ports are a third more likely than others, which does no harm.
    auto const value = hash[2 * i] << 8 | hash[2 * i + 1];
    auto const port = static_cast<std::uint16_t>(first_port + value % (last_port - first_port + 1));
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

std::optional<SlurmStep> read_slurm_step(const GetEnv& get_env) {
  if (get_env("SLURM_STEP_ID").empty() || get_env("SLURM_PROCID").empty()) return std::nullopt;
  if (parse_int(get_env("SLURM_STEP_NUM_TASKS"), 2, max_ranks) == std::nullopt) return std::nullopt;
  SlurmStep step;
  step.size = parse_required(get_env, "SLURM_STEP_NUM_TASKS", 2, max_ranks);
  step.rank = parse_required(get_env, "SLURM_PROCID", 0, step.size - 1);
  step.local_rank = parse_required(get_env, "SLURM_LOCALID", 0, step.size - 1);
  step.job = fmt::format("slurm/{}/{}.{}/{}", get_env("SLURM_CLUSTER_NAME"), get_env("SLURM_JOB_ID"),
                         get_env("SLURM_STEP_ID"), get_env("SLURM_RESTART_COUNT"));
  step.hosts = hosts_in(get_env("SLURM_STEP_NODELIST"));
  if (step.hosts.empty())
    throw Error(ErrorCode::environment,
                fmt::format("join: SLURM_STEP_NODELIST='{}' names no hosts", get_env("SLURM_STEP_NODELIST")));
  step.rank0_host = find_rank0_host(get_env, step.hosts);
  step.host_of = hosts_by_rank(step, parse_task_counts(get_env("SLURM_STEP_TASKS_PER_NODE")),
                               get_env("SLURM_DISTRIBUTION"));
  step.ports = parse_port_list(get_env("SLURM_STEP_RESV_PORTS"));
  step.port_seed = get_env("SLURM_MUSTER_PORT_SEED");
  return step;
}

std::optional<EnvRendezvous> read_env_rendezvous(const GetEnv& get_env) {
  auto const names = find_rank_environment(get_env);
  if (!names) check_one_volcano_task(get_env);
  auto const host = names ? get_env(names->host) : "";
  if (host.empty()) return std::nullopt;
  auto const port = get_env(names->port);
  if (port.empty() && !names->is_pod) return std::nullopt;
  EnvRendezvous rendezvous;
  rendezvous.size = parse_required(get_env, names->size, 1, max_ranks);
  check_volcano_index(get_env, *names, rendezvous.size);
  if (rendezvous.size == 1) return std::nullopt;
  rendezvous.rank = parse_required(get_env, names->rank, 0, rendezvous.size - 1);
  if (!get_env("LOCAL_RANK").empty())
    rendezvous.local_rank = parse_required(get_env, "LOCAL_RANK", 0, rendezvous.size - 1);
  rendezvous.local_size = parse_int(get_env("LOCAL_WORLD_SIZE"), 1, rendezvous.size).value_or(0);
  rendezvous.host = host.substr(0, host.find(','));
  int const master = port.empty() ? default_master_port : parse_required(get_env, names->port, 1, 65535);
  rendezvous.port = static_cast<std::uint16_t>(master < 65535 ? master + 1 : master - 1);
  if (!get_env("MUSTER_PORT").empty())
    rendezvous.port = static_cast<std::uint16_t>(parse_required(get_env, "MUSTER_PORT", 1, 65535));
  rendezvous.job = fmt::format("address/{}/{}/{}/{}", rendezvous.host, master, rendezvous.size,
                               get_env("TORCHELASTIC_RUN_ID"));
  rendezvous.variables = fmt::format("{}={}, {}={} and {}={}", names->rank, rendezvous.rank, names->size,
                                     rendezvous.size, names->host, rendezvous.host);
  check_one_process(get_env, *names, rendezvous.rank);
  return rendezvous;
}

bool is_below_torchrun(const GetEnv& get_env) {
  return !get_env("TORCHELASTIC_RUN_ID").empty() && !get_env("RANK").empty() &&
         !get_env("WORLD_SIZE").empty();
}

std::optional<Error> check_rank_consistency(const GetEnv& get_env, int rank, int size) {
  auto const env_rank = get_env("RANK");
  auto const env_size = get_env("WORLD_SIZE");
  if (env_rank.empty() || env_size.empty()) return std::nullopt;
  if (env_rank == std::to_string(rank) && env_size == std::to_string(size)) return std::nullopt;
  auto const set = "," + get_env("MUSTER_SET") + ",";
  bool const set_by_plugin = set.find(",RANK,") != std::string::npos && env_rank == get_env("SLURM_PROCID") &&
                             env_size == get_env("SLURM_STEP_NUM_TASKS");
  if (set_by_plugin) return std::nullopt;
  return Error(
      ErrorCode::environment,
      fmt::format("join: RANK={} and WORLD_SIZE={} but the launcher made this process rank {} of {}: "
                  "unset RANK and WORLD_SIZE, or set MUSTER_JOIN=address when another program than "
                  "the launcher started the ranks",
                  env_rank, env_size, rank, size),
      rank != 0);
}

}  // namespace muster::bootstrap
