// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "doctor/checks.hpp"
#include "job/job_internals.hpp"

namespace muster::cli::doctor {
namespace {

std::string describe_adapters(const bootstrap::HostInventory& around) {
  std::string text;
  for (const auto& adapter : around.adapters) {
    text +=
        fmt::format("{}{}:{} {}{}", text.empty() ? "" : ", ", adapter.name, adapter.port,
                    adapter.link_layer.empty() ? "" : adapter.link_layer + " ", adapter.up ? "up" : "down");
  }
  return text;
}

}  // namespace

std::vector<Row> check_network(DoctorContext& context) {
  return judge_network(detail::JobInternals::records(context.job), context.findings,
                       context.job.host_count());
}

std::vector<Row> judge_network(const std::vector<bootstrap::JoinRecord>& records,
                               const std::vector<bootstrap::Finding>& findings, int hosts) {
  auto rows = rows_from_findings(findings, {"socket interface", "RDMA adapters"});
  auto const reported = [&](const char* subject) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.subject == subject; });
  };
  const auto& first = records.front();
  if (hosts == 1) {
    rows.push_back({Verdict::skipped, "socket interface", "one host: there is no other host to reach", ""});
  } else if (const auto* interface = bootstrap::find_socket_interface(first.inventory);
             interface != nullptr && !reported("socket interface")) {
    rows.push_back({Verdict::pass, "socket interface",
                    fmt::format("NCCL would take {} ({}/{}) on {}, and one that fits on the other hosts",
                                interface->name, interface->address, interface->prefix, first.hello.host),
                    ""});
  }
  bool any = false;
  for (const auto& record : records) any = any || !record.inventory.adapters.empty();
  if (!any) {
    rows.push_back({Verdict::skipped, "RDMA adapters",
                    "no host has one (/sys/class/infiniband): NCCL goes through sockets", ""});
    return rows;
  }
  if (reported("RDMA adapters")) return rows;
  auto const usable = bootstrap::find_usable_adapters(first.inventory).size();
  bool const down = usable < first.inventory.adapters.size();
  rows.push_back({down ? Verdict::warn : Verdict::pass, "RDMA adapters",
                  fmt::format("NCCL can use {} on each host; {} has {}", usable, first.hello.host,
                              describe_adapters(first.inventory)),
                  down ? "bring the adapters up (ibstat), or exclude them with NCCL_IB_HCA" : ""});
  return rows;
}

}  // namespace muster::cli::doctor
