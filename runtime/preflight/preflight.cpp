// SPDX-License-Identifier: Apache-2.0
#include "preflight/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "roster/rank_list.hpp"

namespace muster::bootstrap {
namespace {

// Ranks by value; the right one first, then in the order of the lowest rank. Ranks without an opinion are
// left out.
using Camps = std::vector<std::pair<std::string, std::vector<int>>>;

Camps group_by_value(const std::vector<JoinRecord>& records,
               const std::function<std::optional<std::string>(const JoinRecord&)>& value) {
  Camps camps;
  for (const auto& record : records) {
    auto const mine = value(record);
    if (!mine) continue;
    auto camp = std::find_if(camps.begin(), camps.end(), [&](const auto& c) { return c.first == *mine; });
    if (camp == camps.end()) camp = camps.insert(camp, {*mine, {}});
    camp->second.push_back(record.hello.rank);
  }
  auto const most = std::max_element(camps.begin(), camps.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most != camps.end()) std::rotate(camps.begin(), most, most + 1);
  return camps;
}

// "'a' on ranks 4-7 (host b), 'c' on rank 9 (host d), but 'x' on the 8 others".
std::string text_of(const Camps& camps, const std::vector<Hello>& roster) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t i = 1; i < camps.size() && i <= shown; ++i) {
    text +=
        fmt::format("{}{} on {}", i == 1 ? "" : ", ", camps[i].first, format_ranks(roster, camps[i].second));
  }
  if (camps.size() > shown + 1) text += fmt::format(" and {} other values", camps.size() - shown - 1);
  return text +
         fmt::format(", but {} on {}", camps.front().first, format_ranks(roster, camps.front().second));
}

void check_versions(const std::vector<JoinRecord>& records, const std::vector<Hello>& roster,
                    std::vector<Finding>& findings) {
  auto const nccl = group_by_value(records, [](const JoinRecord& record) -> std::optional<std::string> {
    if (record.hello.nccl_version.empty()) return std::nullopt;
    return record.hello.nccl_version;
  });
  if (nccl.size() > 1) {
    findings.push_back({true, "NCCL version", "NCCL is " + text_of(nccl, roster),
                        "load the same libnccl.so.2 everywhere, or name it in MUSTER_NCCL_LIBRARY"});
  }
  auto const driver = group_by_value(records, [](const JoinRecord& record) -> std::optional<std::string> {
    if (record.inventory.driver.empty()) return std::nullopt;
    return record.inventory.driver;
  });
  if (driver.size() > 1) {
    findings.push_back({false, "driver version", "the NVIDIA driver is " + text_of(driver, roster),
                        "install the same driver on every node; kernels and memory types may differ"});
  }
  auto const plugin = group_by_value(records, [](const JoinRecord& record) -> std::optional<std::string> {
    return record.hello.plugin_version.empty() ? "none" : record.hello.plugin_version;
  });
  if (plugin.size() > 1) {
    findings.push_back({false, "plugin version", "Muster's plugin is " + text_of(plugin, roster),
                        "install the same plugin on every node and list it in every plugstack.conf"});
  }
}

std::string variable_of(const JoinRecord& record, const std::string& name) {
  auto const found = record.inventory.variables.find(name);
  return found == record.inventory.variables.end() ? "" : found->second;
}

void check_gpus(const std::vector<JoinRecord>& records, const std::vector<Hello>& roster,
                std::vector<Finding>& findings) {
  using Host = std::tuple<std::string, std::string, std::string>;  // as NCCL tells hosts apart
  std::map<std::pair<Host, std::string>, std::vector<int>> users;
  std::map<Host, std::set<std::string>> gpus;
  for (const auto& record : records) {
    if (!record.on_gpu || record.hello.gpu.empty()) continue;
    Host const host{record.hello.host, record.hello.boot_id, variable_of(record, "NCCL_HOSTID")};
    gpus[host].insert(record.hello.gpu);
    if (variable_of(record, "NCCL_MULTI_RANK_GPU_ENABLE") != "1")
      users[{host, record.hello.gpu}].push_back(record.hello.rank);
  }
  for (const auto& [gpu, ranks] : users) {
    if (ranks.size() < 2) continue;
    findings.push_back(
        {true, "GPUs",
         fmt::format("{} have GPU {} together, which NCCL refuses", format_ranks(roster, ranks), gpu.second),
         "start one task for each GPU (--gpus-per-task=1), or run without them with --device=cpu"});
  }
  std::vector<int> blind;
  for (const auto& record : records) {
    if (!record.on_gpu || record.inventory.gpus_openable < 0) continue;
    Host const host{record.hello.host, record.hello.boot_id, variable_of(record, "NCCL_HOSTID")};
    auto const used = static_cast<int>(gpus[host].size());
    if (record.inventory.gpus_openable < used) blind.push_back(record.hello.rank);
  }
  if (!blind.empty()) {
    findings.push_back(
        {false, "GPU isolation",
         fmt::format(
             "{} may not open the GPUs of the other ranks on their host (device cgroup), so NCCL goes "
             "through host memory there instead of NVLink or PCIe",
             format_ranks(roster, blind)),
         "start the step with --muster, or with --gpu-bind=none"});
  }
}

// May differ by right: names of what a host or a rank has of its own, and what is only told.
bool may_differ(std::string_view name) {
  constexpr std::array<std::string_view, 12> own{
      "NCCL_HOSTID",         "NCCL_IB_HCA",     "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE",
      "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE",     "NCCL_COMM_ID",
      "NCCL_IB_GID_INDEX",   "UCX_NET_DEVICES", "UCX_IB_GID_INDEX",   "NCCL_IGNORE_CPU_AFFINITY"};
  if (std::find(own.begin(), own.end(), name) != own.end()) return true;
  for (std::string_view told : {"NCCL_DEBUG", "NCCL_OOB_NET_IF", "NCCL_RAS_", "UCX_LOG_", "UCX_STATS_"}) {
    if (name.starts_with(told)) return true;
  }
  return name.find("_if_include") != std::string_view::npos ||
         name.find("_if_exclude") != std::string_view::npos;
}

// Ranks that disagree on these wait for each other in different algorithms or on different networks.
bool must_agree(std::string_view name) {
  constexpr std::array<std::string_view, 6> names{"NCCL_ALGO",       "NCCL_PROTO",    "NCCL_NET",
                                                  "NCCL_IB_DISABLE", "NCCL_BUFFSIZE", "NCCL_SOCKET_FAMILY"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_variables(const std::vector<JoinRecord>& records, const std::vector<Hello>& roster,
                     std::vector<Finding>& findings) {
  // Mostly all ranks have the same, which a comparison of neighbours shows at once.
  auto const differs = [](const JoinRecord& a, const JoinRecord& b) {
    return a.inventory.variables != b.inventory.variables;
  };
  if (std::adjacent_find(records.begin(), records.end(), differs) == records.end()) return;
  std::set<std::string> names;
  for (const auto& record : records) {
    for (const auto& [name, value] : record.inventory.variables) names.insert(name);
  }
  for (const auto& name : names) {
    if (may_differ(name)) continue;
    auto const camps = group_by_value(records, [&](const JoinRecord& record) -> std::optional<std::string> {
      auto const found = record.inventory.variables.find(name);
      return found == record.inventory.variables.end() ? "unset" : "'" + found->second + "'";
    });
    if (camps.size() < 2) continue;
    findings.push_back(
        {must_agree(name), "variables", fmt::format("{} is {}", name, text_of(camps, roster)),
         fmt::format("give every rank the same {}{}", name,
                     name.starts_with("NCCL_") ? ", in its environment or in nccl.conf" : "")});
  }
}

}  // namespace

std::vector<Finding> preflight(const std::vector<JoinRecord>& records) {
  std::vector<Finding> findings;
  if (records.size() < 2) return findings;
  auto const roster = roster_of(records);
  check_versions(records, roster, findings);
  check_gpus(records, roster, findings);
  check_fabric(records, findings);
  check_variables(records, roster, findings);
  check_interfaces(records, findings);
  check_adapters(records, findings);
  std::stable_partition(findings.begin(), findings.end(), [](const Finding& one) { return one.fatal; });
  return findings;
}

std::vector<Finding> check_clocks(const std::vector<Hello>& roster, const std::vector<HostClock>& clocks) {
  // Around the middle host's clock: rank 0's may be the wrong one.
  std::vector<std::chrono::nanoseconds> all;
  for (const auto& clock : clocks) all.push_back(clock.ahead);
  if (all.empty()) return {};
  std::sort(all.begin(), all.end());
  auto const lower = all[(all.size() - 1) / 2];
  auto const upper = all[all.size() / 2];
  auto const middle = std::chrono::abs(lower) <= std::chrono::abs(upper) ? lower : upper;
  std::vector<int> wrong;
  std::chrono::nanoseconds most{0};
  for (const auto& clock : clocks) {
    auto const off = clock.ahead - middle;
    if (std::chrono::abs(off) - clock.uncertain <= clock_limit) continue;
    wrong.push_back(clock.rank);
    if (std::chrono::abs(off) > std::chrono::abs(most)) most = off;
  }
  if (wrong.empty()) return {};
  std::sort(wrong.begin(), wrong.end());
  auto const seconds = std::chrono::duration<double>(most).count();
  return {{false, "clocks",
           fmt::format("the clock of the host of {} is {:.1f} s {} {}", format_ranks(roster, wrong),
                       std::abs(seconds), seconds < 0 ? "behind" : "ahead of",
                       clocks.size() > 2 ? "most hosts'" : "the other host's"),
           "start chrony or ntpd there: credentials, log lines and file times go by it"}};
}

}  // namespace muster::bootstrap
