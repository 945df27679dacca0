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

// Ranks by value: the most common value first, then in the order of the lowest rank. Ranks without a value
// are left out.
using ValueGroups = std::vector<std::pair<std::string, std::vector<int>>>;

ValueGroups group_by_value(const std::vector<JoinRecord>& records,
                           const std::function<std::optional<std::string>(const JoinRecord&)>& value) {
  ValueGroups groups;
  for (const auto& record : records) {
    auto const mine = value(record);
    if (!mine) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& c) { return c.first == *mine; });
    if (group == groups.end()) group = groups.insert(group, {*mine, {}});
    group->second.push_back(record.hello.rank);
  }
  auto const most = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most != groups.end()) std::rotate(groups.begin(), most, most + 1);
  return groups;
}

// "'a' on ranks 4-7 (host b), 'c' on rank 9 (host d), but 'x' on the 8 others".
std::string describe_values(const ValueGroups& groups, const std::vector<Hello>& roster) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t i = 1; i < groups.size() && i <= shown; ++i) {
    text += fmt::format("{}{} on {}", i == 1 ? "" : ", ", groups[i].first,
                        format_ranks(roster, groups[i].second));
  }
  if (groups.size() > shown + 1) text += fmt::format(" and {} other values", groups.size() - shown - 1);
  return text +
         fmt::format(", but {} on {}", groups.front().first, format_ranks(roster, groups.front().second));
}

void check_versions(const std::vector<JoinRecord>& records, const std::vector<Hello>& roster,
                    std::vector<Finding>& findings) {
  auto const nccl = group_by_value(records, [](const JoinRecord& record) -> std::optional<std::string> {
    if (record.hello.nccl_version.empty()) return std::nullopt;
    return record.hello.nccl_version;
  });
  if (nccl.size() > 1) {
    findings.push_back({true, "NCCL version", "NCCL is " + describe_values(nccl, roster),
                        "load the same libnccl.so.2 everywhere, or name it in MUSTER_NCCL_LIBRARY"});
  }
  auto const driver = group_by_value(records, [](const JoinRecord& record) -> std::optional<std::string> {
    if (record.inventory.driver.empty()) return std::nullopt;
    return record.inventory.driver;
  });
  if (driver.size() > 1) {
    findings.push_back({false, "driver version", "the NVIDIA driver is " + describe_values(driver, roster),
                        "install the same driver on every node; kernels and memory types may differ"});
  }
  auto const plugin = group_by_value(records, [](const JoinRecord& record) -> std::optional<std::string> {
    return record.hello.plugin_version.empty() ? "none" : record.hello.plugin_version;
  });
  if (plugin.size() > 1) {
    findings.push_back({false, "plugin version", "Muster's plugin is " + describe_values(plugin, roster),
                        "install the same plugin on every node and list it in every plugstack.conf"});
  }
}

std::string find_variable(const JoinRecord& record, const std::string& name) {
  auto const found = record.inventory.variables.find(name);
  return found == record.inventory.variables.end() ? "" : found->second;
}

void check_gpus(const std::vector<JoinRecord>& records, const std::vector<Hello>& roster,
                std::vector<Finding>& findings) {
  using Host = std::tuple<std::string, std::string, std::string>;  // how NCCL distinguishes hosts
  std::map<std::pair<Host, std::string>, std::vector<int>> users;
  std::map<Host, std::set<std::string>> gpus;
  for (const auto& record : records) {
    if (!record.on_gpu || record.hello.gpu.empty()) continue;
    Host const host{record.hello.host, record.hello.boot_id, find_variable(record, "NCCL_HOSTID")};
    gpus[host].insert(record.hello.gpu);
    if (find_variable(record, "NCCL_MULTI_RANK_GPU_ENABLE") != "1")
      users[{host, record.hello.gpu}].push_back(record.hello.rank);
  }
  for (const auto& [gpu, ranks] : users) {
    if (ranks.size() < 2) continue;
    findings.push_back(
        {true, "GPUs",
         fmt::format("{} have GPU {} together, which NCCL refuses", format_ranks(roster, ranks), gpu.second),
         "start one task for each GPU (--gpus-per-task=1), or run without them with --device=cpu"});
  }
  std::vector<int> isolated;
  for (const auto& record : records) {
    if (!record.on_gpu || record.inventory.gpus_openable < 0) continue;
    Host const host{record.hello.host, record.hello.boot_id, find_variable(record, "NCCL_HOSTID")};
    auto const used = static_cast<int>(gpus[host].size());
    if (record.inventory.gpus_openable < used) isolated.push_back(record.hello.rank);
  }
  if (!isolated.empty()) {
    findings.push_back(
        {false, "GPU isolation",
         fmt::format(
             "{} may not open the GPUs of the other ranks on their host (device cgroup), so NCCL goes "
             "through host memory there instead of NVLink or PCIe",
             format_ranks(roster, isolated)),
         "start the step with --muster, or with --gpu-bind=none"});
  }
}

// Variables that may differ between ranks: names of resources of one host or rank, and diagnostics.
bool may_differ(std::string_view name) {
  constexpr std::array<std::string_view, 12> own{
      "NCCL_HOSTID",         "NCCL_IB_HCA",     "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE",
      "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE",     "NCCL_COMM_ID",
      "NCCL_IB_GID_INDEX",   "UCX_NET_DEVICES", "UCX_IB_GID_INDEX",   "NCCL_IGNORE_CPU_AFFINITY"};
  if (std::find(own.begin(), own.end(), name) != own.end()) return true;
  for (std::string_view prefix : {"NCCL_DEBUG", "NCCL_OOB_NET_IF", "NCCL_RAS_", "UCX_LOG_", "UCX_STATS_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name.find("_if_include") != std::string_view::npos ||
         name.find("_if_exclude") != std::string_view::npos;
}

// Ranks with different values of these wait for each other in different algorithms or on different networks.
bool must_agree(std::string_view name) {
  constexpr std::array<std::string_view, 6> names{"NCCL_ALGO",       "NCCL_PROTO",    "NCCL_NET",
                                                  "NCCL_IB_DISABLE", "NCCL_BUFFSIZE", "NCCL_SOCKET_FAMILY"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_variables(const std::vector<JoinRecord>& records, const std::vector<Hello>& roster,
                     std::vector<Finding>& findings) {
  // Usually all ranks have the same variables; comparing neighbours shows that fast.
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
    auto const groups = group_by_value(records, [&](const JoinRecord& record) -> std::optional<std::string> {
      bool const is_unread = name.starts_with("NCCL_") && !record.inventory.nccl;  // JoinOptions::cpu_ranks
      if (is_unread) return std::nullopt;
      auto const found = record.inventory.variables.find(name);
      return found == record.inventory.variables.end() ? "unset" : "'" + found->second + "'";
    });
    if (groups.size() < 2) continue;
    findings.push_back(
        {must_agree(name), "variables", fmt::format("{} is {}", name, describe_values(groups, roster)),
         fmt::format("give every rank the same {}{}", name,
                     name.starts_with("NCCL_") ? ", in its environment or in nccl.conf" : "")});
  }
}

}  // namespace

std::vector<Finding> preflight(const std::vector<JoinRecord>& records) {
  std::vector<Finding> findings;
  if (records.size() < 2) return findings;
  auto const roster = make_roster(records);
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
  // Relative to the median host's clock, since rank 0's may be the wrong one.
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
    if (std::chrono::abs(off) - clock.uncertainty <= max_clock_skew) continue;
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
           "start chrony or ntpd there: credentials, log lines and file times depend on it"}};
}

}  // namespace muster::bootstrap
