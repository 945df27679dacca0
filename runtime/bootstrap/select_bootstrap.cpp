// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sodium.h>

#include <asio.hpp>

#include "launcher/launcher_detection.hpp"
#include "launcher/launch_environment.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/rendezvous.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t least_key_length = 16;
constexpr std::size_t most_other_hosts = 32;

bool wished(const std::string& method) {
  auto const wish = variable("MUSTER_JOIN");
  if (wish.empty() || wish == method) return true;
  if (wish != "pmix" && wish != "slurm" && wish != "address" && wish != "alone") {
    auto const claim = detect_launcher(variable);
    throw Error(ErrorCode::environment,
                fmt::format("join: MUSTER_JOIN='{}' is none of pmix, slurm, address, alone", wish),
                claim && claim->rank != 0);
  }
  return false;
}

// The key that a user gave, bound to the job; nothing without one.
std::optional<control::Key> own_key(const std::string& job, int rank) {
  auto const secret = variable("MUSTER_KEY");
  if (secret.empty()) return std::nullopt;
  if (secret.size() < least_key_length) {
    throw Error(
        ErrorCode::environment,
        fmt::format("join: MUSTER_KEY has {} characters; it needs {} random ones at least, for example "
                    "MUSTER_KEY=$(openssl rand -hex 32)",
                    secret.size(), least_key_length),
        rank != 0);
  }
  control::Key key{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
  // Other uses of the same secret and other jobs get other keys.
  auto const context = fmt::format("/muster job key/{}", job);
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(context.data()), context.size());
  crypto_generichash_final(&state, key.data(), key.size());
  return key;
}

template <typename Source>
RendezvousConfig plan_for(const char* name, const Source& source) {
  log::set_rank(source.rank);
  RendezvousConfig plan;
  plan.name = name;
  plan.job = source.job;
  plan.rank = source.rank;
  plan.local_rank = source.local_rank;
  plan.size = source.size;
  return plan;
}

// The key that the user gave, else MUNGE, else, on one host, the kernel's word.
void authenticate(RendezvousConfig& plan, bool one_host, const Deadline& deadline) {
  if (auto const key = own_key(plan.job, plan.rank)) {
    plan.key = *key;
    return log::debug("join: {}: MUSTER_KEY authenticates", plan.name);
  }
  std::string why;
  try {
    plan.seal = make_munge_codec(deadline);
    return log::debug("join: {}: MUNGE authenticates", plan.name);
  } catch (const Error& error) {
    why = error.what();
    log::debug("join: {}: MUNGE: {}", plan.name, why);
    plan.obstacle = error.code() == ErrorCode::device ? AuthFailure::no_library : AuthFailure::no_munged;
  }
  if (one_host) {
    plan.obstacle = AuthFailure::none;
    plan.seal = make_peercred_codec();
    plan.local_name = "muster/" + plan.job;
    return log::debug("join: {}: all on one host, the kernel authenticates", plan.name);
  }
  plan.trouble = fmt::format(
      "join: srun started {} tasks without PMIx, and MUNGE cannot authenticate them ({}): add "
      "--mpi=pmix to srun, or start munged on every node, or give every task the same MUSTER_KEY",
      plan.size, why);
}

std::unique_ptr<Bootstrap> slurm_step(const GetEnv& lookup, const Deadline& deadline) {
  auto const step = read_slurm_step(lookup);
  auto const claim = detect_launcher(lookup);
  if (!step || !claim || claim->launcher != "srun") {
    log::debug("join: Slurm: {}", step ? "its step was left for " + claim->launcher
                                       : std::string("no step of several tasks (SLURM_STEP_NUM_TASKS)"));
    return nullptr;
  }
  if (auto const error = check_rank_consistency(lookup, step->rank, step->size)) throw *error;
  auto plan = plan_for("slurm", *step);
  plan.leader_host = step->leader_host;
  for (const auto& host : step->hosts)
    if (host != step->leader_host && plan.other_hosts.size() < most_other_hosts)
      plan.other_hosts.push_back(host);
  plan.ports = step->ports.empty() ? derive_ports(step->job) : step->ports;
  plan.host_of = step->host_of;
  if (step->leader_host != step->hosts.front()) plan.host_of = {step->leader_host};  // srun a : b
  plan.started_together = true;  // slurmstepd forks all of its tasks before it lets one go on
  plan.keeps_what_was_told = true;
  plan.hosts = step->hosts;
  plan.host_index = step->host_index;
  plan.host_socket = "muster/host/" + plan.job;
  log::debug("join: Slurm: {}, rank {} of {}, rank 0 on {}, {} port {} and {} more", step->job, step->rank,
             step->size, plan.leader_host, step->ports.empty() ? "derived" : "reserved", plan.ports.front(),
             plan.ports.size() - 1);
  authenticate(plan, step->hosts.size() == 1, deadline);
  return meeting(std::move(plan));
}

bool is_loopback(const std::string& host) {
  asio::error_code bad;
  auto const address = asio::ip::make_address(host, bad);
  return host == "localhost" || (!bad && address.is_loopback());
}

std::unique_ptr<Bootstrap> named_meeting(const GetEnv& lookup) {
  auto const named = read_env_rendezvous(lookup);
  if (!named) {
    log::debug("join: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: not all set, or one rank");
    return nullptr;
  }
  // Another launcher's count of the tasks must be this one, unless torchrun or the user says whose it is.
  auto const claim = detect_launcher(lookup);
  if (claim && claim->launcher != "RANK and WORLD_SIZE" && !is_below_torchrun(lookup) &&
      lookup("MUSTER_JOIN") != "address") {
    if (auto const error = check_rank_consistency(lookup, claim->rank, claim->tasks)) throw *error;
    if (claim->tasks != named->size || claim->rank != named->rank) return nullptr;
  }
  auto plan = plan_for("address", *named);
  plan.leader_host = named->host;
  plan.ports = {named->port};
  plan.turn = named->local_size > 0 ? named->rank / named->local_size : named->rank - 1;
  plan.host_socket = fmt::format("muster/host/{}/{}", named->port, plan.job);
  log::debug("join: RANK/WORLD_SIZE: rank {} of {}, rank 0 at {} port {}", named->rank, named->size,
             named->host, named->port);
  if (auto const key = own_key(plan.job, plan.rank)) {
    plan.key = *key;
  } else if (is_loopback(named->host) || named->local_size == named->size) {
    plan.seal = make_peercred_codec();
    plan.local_name = fmt::format("muster/{}/{}", named->port, plan.job);
    log::debug("join: RANK/WORLD_SIZE: all on this host, the kernel authenticates");
  } else {
    throw Error(
        ErrorCode::environment,
        fmt::format(
            "join: RANK={} and WORLD_SIZE={} name a job over hosts (MASTER_ADDR={}) but MUSTER_KEY is not "
            "set, so that anybody could join: give every rank the same MUSTER_KEY, for example "
            "$(openssl rand -hex 32)",
            named->rank, named->size, named->host),
        named->rank != 0);
  }
  return meeting(std::move(plan));
}

}  // namespace

std::unique_ptr<Bootstrap> select_bootstrap(const Deadline& deadline) {
  if (wished("pmix") || wished("slurm")) {
    if (is_below_torchrun(variable) && variable("MUSTER_JOIN").empty()) {
      log::debug("join: PMIx, Slurm: passed over, torchrun started this process");
    } else {
#ifdef MUSTER_HAVE_PMIX
      if (wished("pmix"))
        if (auto bootstrap = connect_pmix(deadline)) return bootstrap;
#else
      log::debug("join: PMIx: not in this build");
#endif
      if (wished("slurm"))
        if (auto bootstrap = slurm_step(variable, deadline)) return bootstrap;
    }
  }
  if (wished("address"))
    if (auto bootstrap = named_meeting(variable)) return bootstrap;
  if (variable("MUSTER_JOIN") != "alone")
    if (auto const refusal = check_singleton_allowed(variable)) throw *refusal;
  log::debug("join: alone");
  return alone();
}

}  // namespace muster::bootstrap
