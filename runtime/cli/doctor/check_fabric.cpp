// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "doctor/checks.hpp"
#include "job/job_internals.hpp"
#include "roster/rank_list.hpp"

namespace muster::cli::doctor {
namespace {

using State = bootstrap::Fabric::State;

// For example "4 GPUs in clique 7 of cluster 0123abcd on 2 hosts" or "8 GPUs within their hosts".
std::string describe_domains(const std::vector<bootstrap::JoinRecord>& records) {
  struct Domain {
    int gpus = 0;
    std::set<std::string> hosts;
  };
  std::map<std::pair<std::string, int>, Domain> domains;
  for (const auto& record : records) {
    const auto& fabric = record.inventory.fabric;
    if (!record.on_gpu || fabric.state != State::completed) continue;
    auto& domain = domains[{fabric.cluster.substr(0, 8), fabric.cluster.empty() ? 0 : fabric.clique}];
    ++domain.gpus;
    domain.hosts.insert(record.hello.host);
  }
  std::string text;
  for (const auto& [name, domain] : domains) {
    const auto& [cluster, clique] = name;
    text += fmt::format("{}{} GPU{} ", text.empty() ? "" : "; ", domain.gpus, domain.gpus == 1 ? "" : "s");
    if (cluster.empty())
      text += "within their hosts";
    else
      text += fmt::format("in clique {} of cluster {} on {} host{}", clique, cluster, domain.hosts.size(),
                          domain.hosts.size() == 1 ? "" : "s");
  }
  return text;
}

std::string describe_channels(const std::vector<bootstrap::JoinRecord>& records) {
  std::set<int> channels;
  for (const auto& record : records)
    channels.insert(record.inventory.imex_channels.begin(), record.inventory.imex_channels.end());
  if (channels.empty()) return "";
  return ", IMEX channel " + bootstrap::format_ranges({channels.begin(), channels.end()});
}

}  // namespace

std::vector<Row> check_fabric(DoctorContext& context) {
  return judge_fabric(detail::JobInternals::records(context.job), context.findings);
}

std::vector<Row> judge_fabric(const std::vector<bootstrap::JoinRecord>& records,
                              const std::vector<bootstrap::Finding>& findings) {
  auto rows = rows_from_findings(findings, {"NVLink fabric"});
  auto const any = [&](auto which) {
    return std::any_of(records.begin(), records.end(), [&](const bootstrap::JoinRecord& record) {
      return record.on_gpu && which(record.inventory.fabric.state);
    });
  };
  if (!rows.empty() || !any([](State) { return true; })) return rows;
  if (any([](State state) { return state == State::completed; })) {
    rows.push_back({Verdict::pass, "NVLink fabric",
                    "up and healthy: " + describe_domains(records) + describe_channels(records), ""});
  } else if (any([](State state) { return state == State::unsupported; })) {
    rows.push_back({Verdict::skipped, "NVLink fabric", "the GPUs have none", ""});
  } else {
    rows.push_back({Verdict::skipped, "NVLink fabric",
                    "NVML (libnvidia-ml.so.1) reports nothing about it; MUSTER_LOG=debug logs the reason",
                    ""});
  }
  return rows;
}

}  // namespace muster::cli::doctor
