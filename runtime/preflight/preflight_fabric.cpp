// SPDX-License-Identifier: Apache-2.0
// Checks of the ranks' NVLink fabrics: whether they are up and healthy, and what prevents NCCL from using
// NVLink between hosts that have it (MNNVL; src/mnnvl.cc of NCCL).
#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "preflight/preflight.hpp"
#include "roster/rank_list.hpp"

namespace muster::bootstrap {
namespace {

using State = Fabric::State;
constexpr const char* subject = "NVLink fabric";

// Ranks grouped by the error of their own fabric.
std::map<std::string, std::vector<int>> group_by_fabric_error(const std::vector<JoinRecord>& records) {
  std::map<std::string, std::vector<int>> ranks;
  for (const auto& record : records) {
    const auto& fabric = record.inventory.fabric;
    if (!record.on_gpu) continue;
    std::string error;
    if (fabric.state == State::not_started) error = "is not up (registration has not started)";
    if (fabric.state == State::in_progress) error = "is not up (registration is in progress)";
    if (fabric.status != 0) error = fmt::format("refused the GPU (NVML error {})", fabric.status);
    if (error.empty() && !fabric.health_issues.empty()) error = "is unhealthy (" + fabric.health_issues + ")";
    if (!error.empty()) ranks[error].push_back(record.hello.rank);
  }
  return ranks;
}

// True when the variable disables NVLink between hosts in NCCL: its value is "0".
bool is_disabled(const JoinRecord& record, const char* name) {
  auto const found = record.inventory.variables.find(name);
  return found != record.inventory.variables.end() && found->second == "0";
}

}  // namespace

std::vector<int> ranks_with_nvlink_between_hosts(const std::vector<JoinRecord>& records) {
  using Clique = std::pair<std::string, int>;
  using Host = std::pair<std::string, std::string>;
  auto const find_clique = [](const JoinRecord& record) {
    return Clique{record.inventory.fabric.cluster, record.inventory.fabric.clique};
  };
  std::map<Clique, std::set<Host>> hosts;
  for (const auto& record : records)
    if (record.on_gpu && !record.inventory.fabric.cluster.empty())
      hosts[find_clique(record)].insert({record.hello.host, record.hello.boot_id});
  std::vector<int> ranks;
  for (const auto& record : records)
    if (auto const found = hosts.find(find_clique(record));
        record.on_gpu && found != hosts.end() && found->second.size() > 1)
      ranks.push_back(record.hello.rank);
  return ranks;
}

void check_fabric(const std::vector<JoinRecord>& records, std::vector<Finding>& findings) {
  auto const roster = make_roster(records);
  for (const auto& [error, ranks] : group_by_fabric_error(records)) {
    findings.push_back({false, subject,
                        fmt::format("the NVLink fabric of {} {}", format_ranks(roster, ranks), error),
                        "see 'Fabric' in nvidia-smi -q and the fabric manager's log on that host"});
  }
  auto const between = ranks_with_nvlink_between_hosts(records);
  auto const filter = [&](auto which) {
    std::vector<int> ranks;
    for (const int rank : between)
      if (which(records[static_cast<std::size_t>(rank)])) ranks.push_back(rank);
    return ranks;
  };
  for (const char* name : {"NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE"}) {
    auto const ranks = filter([&](const JoinRecord& record) { return is_disabled(record, name); });
    if (ranks.empty()) continue;
    findings.push_back(
        {false, subject,
         fmt::format("{}=0 on {} keeps NCCL from the NVLink between these hosts: it takes the network", name,
                     format_ranks(roster, ranks)),
         fmt::format("unset {} (environment, nccl.conf, profiles)", name)});
  }
  auto const without_channel =
      filter([](const JoinRecord& record) { return record.inventory.imex_channels.empty(); });
  if (without_channel.empty()) return;
  findings.push_back(
      {false, subject,
       fmt::format("{} may open no IMEX channel (/dev/nvidia-caps-imex-channels/channelN), which "
                   "NVLink between these hosts needs: NCCL takes the network",
                   format_ranks(roster, without_channel)),
       "let Slurm give each job one (SwitchType=switch/nvidia_imex), or create channel0 on each host"});
}

}  // namespace muster::bootstrap
