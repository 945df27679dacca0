// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <asio.hpp>
#include <thread>

#include "bootstrap/user_key.hpp"
#include "launcher/hostfile_check.hpp"
#include "launcher/launch_environment.hpp"
#include "launcher/launcher_detection.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/rendezvous.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_other_hosts = 32;
// How long a silent rank waits for the one that reports: the launcher may end the job with the first process
// that ends.
constexpr std::chrono::milliseconds reporter_grace{2000};

bool is_method_enabled(const std::string& method) {
  auto const requested = get_env("MUSTER_JOIN");
  if (requested.empty() || requested == method) return true;
  if (requested != "pmix" && requested != "slurm" && requested != "address" && requested != "alone") {
    auto const detected = detect_launcher(get_env);
    throw Error(ErrorCode::environment,
                fmt::format("join: MUSTER_JOIN='{}' is none of pmix, slurm, address, alone", requested),
                detected && detected->rank != 0);
  }
  return false;
}

template <typename Source>
RendezvousConfig make_config(const char* name, const Source& source) {
  log::set_rank(source.rank);
  RendezvousConfig config;
  config.name = name;
  config.job = source.job;
  config.rank = source.rank;
  config.local_rank = source.local_rank;
  config.size = source.size;
  return config;
}

// MUNGE, else the user's key, else, on one host, the kernel (SO_PEERCRED). Beside MUNGE, the user's key is
// mixed in.
void configure_authentication(RendezvousConfig& config, bool one_host, const Deadline& deadline) {
  config.key = read_user_key(get_env, config.job, config.rank);
  std::string reason;
  try {
    config.codec = make_munge_codec(deadline);
    return log::debug("join: {}: MUNGE authenticates{}", config.name,
                      config.key ? ", and the user's key" : "");
  } catch (const Error& error) {
    reason = error.what();
    log::debug("join: {}: MUNGE: {}", config.name, reason);
  }
  if (config.key) return log::debug("join: {}: the user's key authenticates", config.name);
  if (one_host) {
    config.codec = make_peercred_codec();
    config.local_name = "muster/" + config.job;
    return log::debug("join: {}: all on one host, the kernel authenticates", config.name);
  }
  bool const reports = config.local_rank == 0;  // one line for each host
  if (!reports) std::this_thread::sleep_for(std::min(reporter_grace, deadline.remaining()));
  throw Error(
      ErrorCode::environment,
      fmt::format("join: srun started {} tasks without PMIx, and on host {} MUNGE cannot authenticate "
                  "them ({}): add --mpi=pmix to srun, or start munged on every node, or give every task "
                  "the same MUSTER_KEY_FILE",
                  config.size, host_name(), reason),
      !reports);
}

std::unique_ptr<Bootstrap> make_slurm_bootstrap(const GetEnv& lookup, const Deadline& deadline) {
  auto const step = read_slurm_step(lookup);
  auto const detected = detect_launcher(lookup);
  if (!step || !detected || detected->launcher != "srun") {
    log::debug("join: Slurm: {}", step ? "passed over, the tasks belong to " + detected->launcher
                                       : std::string("no step of several tasks (SLURM_STEP_NUM_TASKS)"));
    return nullptr;
  }
  if (auto const error = check_rank_consistency(lookup, step->rank, step->size)) throw *error;
  auto config = make_config("slurm", *step);
  config.rank0_host = step->rank0_host;
  for (const auto& host : step->hosts)
    if (host != step->rank0_host && config.other_hosts.size() < max_other_hosts)
      config.other_hosts.push_back(host);
  config.ports = step->ports.empty() ? derive_ports(step->job, step->port_seed) : step->ports;
  config.host_of = step->host_of;
  if (step->rank0_host != step->hosts.front()) config.host_of = {step->rank0_host};  // srun a : b
  config.tasks_start_together = true;  // slurmstepd forks all its tasks before it lets one run
  config.host_socket = "muster/host/" + config.job;
  log::debug("join: Slurm: {}, rank {} of {}, rank 0 on {}, {} port {} and {} more", step->job, step->rank,
             step->size, config.rank0_host, step->ports.empty() ? "derived" : "reserved",
             config.ports.front(), config.ports.size() - 1);
  configure_authentication(config, step->hosts.size() == 1, deadline);
  return make_rendezvous_bootstrap(std::move(config));
}

bool is_loopback(const std::string& host) {
  asio::error_code bad;
  auto const address = asio::ip::make_address(host, bad);
  return host == "localhost" || (!bad && address.is_loopback());
}

std::unique_ptr<Bootstrap> make_env_bootstrap(const GetEnv& lookup) {
  auto const env = read_env_rendezvous(lookup);
  if (!env) {
    log::debug("join: address: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: not all set, or one rank");
    return nullptr;
  }
  // Another launcher's rank and size must equal these, unless torchrun or MUSTER_JOIN shows which ones count.
  auto const detected = detect_launcher(lookup);
  auto const own = find_rank_environment(lookup);
  if (detected && detected->launcher != own->launcher && !is_below_torchrun(lookup) &&
      lookup("MUSTER_JOIN") != "address") {
    if (auto const error = check_rank_consistency(lookup, detected->rank, detected->tasks)) throw *error;
    if (detected->tasks != env->size || detected->rank != env->rank) return nullptr;
  }
  auto config = make_config("address", *env);
  config.rank0_host = env->host;
  config.ports = {env->port};
  config.host_socket = fmt::format("muster/host/{}/{}", env->port, config.job);
  log::debug("join: address: {}, rank 0's port {}", env->variables, env->port);
  config.key = read_user_key(lookup, config.job, config.rank);
  if (config.key) {
    log::debug("join: address: the user's key authenticates");
  } else if (is_loopback(env->host) || env->local_size == env->size) {
    config.codec = make_peercred_codec();
    config.local_name = fmt::format("muster/{}/{}", env->port, config.job);
    log::debug("join: address: all on this host, the kernel authenticates");
  } else {
    auto const fix = own->is_pod ? "mount the same Secret of 32 or more hexadecimal digits in every pod and "
                                   "set MUSTER_KEY_FILE to its file"
                                 : "give every rank the same MUSTER_KEY, for example $(openssl rand -hex 32)";
    throw Error(
        ErrorCode::environment,
        fmt::format(
            "join: {} name a job over hosts but MUSTER_KEY is not set, so that anybody could join: {}",
            env->variables, fix),
        env->rank != 0);
  }
  return make_rendezvous_bootstrap(std::move(config));
}

}  // namespace

std::unique_ptr<Bootstrap> select_bootstrap(const Deadline& deadline) {
  if (auto const error = check_hostfile_was_read(get_env, host_name())) throw *error;
  if (is_method_enabled("pmix") || is_method_enabled("slurm")) {
    if (is_below_torchrun(get_env) && get_env("MUSTER_JOIN").empty()) {
      log::debug("join: PMIx, Slurm: passed over, torchrun started this process");
    } else {
#ifdef MUSTER_HAVE_PMIX
      if (is_method_enabled("pmix"))
        if (auto bootstrap = connect_pmix(deadline)) return bootstrap;
#else
      log::debug("join: PMIx: not in this build");
#endif
      if (is_method_enabled("slurm"))
        if (auto bootstrap = make_slurm_bootstrap(get_env, deadline)) return bootstrap;
    }
  }
  if (is_method_enabled("address"))
    if (auto bootstrap = make_env_bootstrap(get_env)) return bootstrap;
  if (get_env("MUSTER_JOIN") != "alone")
    if (auto const refusal = check_singleton_allowed(get_env)) throw *refusal;
  log::debug("join: alone");
  return make_singleton_bootstrap();
}

}  // namespace muster::bootstrap
