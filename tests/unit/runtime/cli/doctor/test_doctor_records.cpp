// SPDX-License-Identifier: Apache-2.0
// The doctor's rows about GPUs, fabrics and RDMA adapters, from records of ranks on simulated nodes.
#include <fmt/format.h>

#include "catch.hpp"
#include "doctor/checks.hpp"

using namespace muster;
using namespace muster::cli::doctor;
using Catch::Matchers::ContainsSubstring;
using muster::bootstrap::JoinRecord;

namespace {

// Two nodes of two ranks, each rank with a GPU, each node with two adapters.
std::vector<JoinRecord> healthy_records() {
  std::vector<JoinRecord> records(4);
  for (int rank = 0; rank < 4; ++rank) {
    auto& record = records[static_cast<std::size_t>(rank)];
    record.hello.rank = rank;
    record.hello.host = record.hello.boot_id = rank < 2 ? "n0" : "n1";
    record.hello.gpu = fmt::format("0000:3{}:00.0", rank % 2);
    record.on_gpu = true;
    auto& inventory = record.inventory;
    inventory.nccl = true;
    inventory.gpus_openable = 2;
    inventory.local_first = rank % 2 == 0;
    if (!inventory.local_first) continue;
    inventory.interfaces = {{"eth0", fmt::format("10.0.0.{}", 1 + rank), 24}};
    inventory.adapters = {{"mlx5_0", 1, true, "InfiniBand", "fe80:0000:0000:0001"},
                          {"mlx5_1", 1, true, "InfiniBand", "fe80:0000:0000:0001"}};
  }
  return records;
}

Row only_row(const std::vector<Row>& rows, const std::string& subject) {
  std::vector<Row> found;
  for (const auto& row : rows)
    if (row.subject == subject) found.push_back(row);
  REQUIRE(found.size() == 1);
  return found[0];
}

Row about_gpus(const std::vector<JoinRecord>& records, const std::string& subject, bool used = true) {
  return only_row(judge_gpus(records, bootstrap::preflight(records), used), subject);
}

Row about_adapters(const std::vector<JoinRecord>& records) {
  return only_row(judge_network(records, bootstrap::preflight(records), 2), "RDMA adapters");
}

}  // namespace

TEST_CASE("doctor: working GPUs and adapters pass, and are listed") {
  CHECK(about_gpus(healthy_records(), "GPUs").verdict == Verdict::pass);
  CHECK_THAT(about_gpus(healthy_records(), "GPUs").found,
             ContainsSubstring("no rank's is hidden from its neighbours"));
  auto const row = about_adapters(healthy_records());
  CHECK(row.verdict == Verdict::pass);
  CHECK(row.found == "NCCL can use 2 on each host; n0 has mlx5_0:1 InfiniBand up, mlx5_1:1 InfiniBand up");
}

TEST_CASE(
    "doctor: ranks that may not open their neighbours' GPUs give a warning, with the option that fixes it") {
  auto records = healthy_records();
  records[2].inventory.gpus_openable = records[3].inventory.gpus_openable = 1;
  auto const row = about_gpus(records, "GPU isolation");
  CHECK(row.verdict == Verdict::warn);
  CHECK_THAT(row.found,
             ContainsSubstring("ranks 2-3 (host n1) may not open the GPUs of the other ranks on their host"));
  CHECK(row.fix == "start the step with --muster, or with --gpu-bind=none");
}

TEST_CASE("doctor: when GPUs are not used, the reason is reported") {
  auto records = healthy_records();
  CHECK_THAT(about_gpus(records, "GPUs", false).found, ContainsSubstring("the other checks ran on the CPU"));
  for (auto& record : records) record.on_gpu = false;
  auto row = about_gpus(records, "GPUs", false);
  CHECK(row.verdict == Verdict::skipped);
  CHECK(row.found ==
        "4 of 4 ranks have a GPU placed but the job runs on the CPU; 4 of 4 ranks may open a GPU device");
  for (auto& record : records) record.hello.gpu.clear();
  row = about_gpus(records, "GPUs", false);
  CHECK(row.found == "4 of 4 ranks may open a GPU device, but none was placed and none requested");
  CHECK_THAT(row.fix, ContainsSubstring("--gpus-per-task=1 --muster"));
}

TEST_CASE("doctor: adapters that are down are named, and a host without a working one is a failure") {
  auto records = healthy_records();
  records[2].inventory.adapters[1].up = false;
  auto row = about_adapters(records);
  CHECK(row.verdict == Verdict::warn);
  CHECK_THAT(row.found, ContainsSubstring("rank 2 (host n1)") && ContainsSubstring("down: mlx5_1:1"));
  CHECK_FALSE(row.fix.empty());
  records[2].inventory.adapters[0].up = false;
  row = about_adapters(records);
  CHECK(row.verdict == Verdict::fail);
  CHECK_THAT(row.found, ContainsSubstring("can use 0 RDMA adapters on the host of rank 2 (host n1)"));
  // The same on every host, so no host differs.
  records = healthy_records();
  for (std::size_t first : {0, 2}) records[first].inventory.adapters[1].up = false;
  row = about_adapters(records);
  CHECK(row.verdict == Verdict::warn);
  CHECK(row.found == "NCCL can use 1 on each host; n0 has mlx5_0:1 InfiniBand up, mlx5_1:1 InfiniBand down");
  CHECK_THAT(row.fix, ContainsSubstring("ibstat"));
  for (std::size_t first : {0, 2}) records[first].inventory.adapters.clear();
  CHECK(about_adapters(records).verdict == Verdict::skipped);
}

TEST_CASE("doctor: the NVLink fabric is reported by clique, with the channels that ranks may open") {
  auto records = healthy_records();
  auto const about = [&] {
    return only_row(judge_fabric(records, bootstrap::preflight(records)), "NVLink fabric");
  };
  CHECK(about().verdict == Verdict::skipped);
  CHECK_THAT(about().found, ContainsSubstring("NVML (libnvidia-ml.so.1) reports nothing about it"));
  for (auto& record : records) record.inventory.fabric.state = bootstrap::Fabric::State::unsupported;
  CHECK(about().found == "the GPUs have none");
  for (auto& record : records) record.inventory.fabric.state = bootstrap::Fabric::State::completed;
  CHECK(about().verdict == Verdict::pass);
  CHECK(about().found == "up and healthy: 4 GPUs within their hosts");
  for (auto& record : records) {
    record.inventory.fabric.cluster = std::string(32, 'a');
    record.inventory.fabric.clique = 7;
    record.inventory.imex_channels = {3};
  }
  CHECK(about().found == "up and healthy: 4 GPUs in clique 7 of cluster aaaaaaaa on 2 hosts, IMEX channel 3");
  records[3].inventory.fabric.health_issues = "unhealthy route";
  CHECK(about().verdict == Verdict::warn);
  CHECK_THAT(about().found, ContainsSubstring("rank 3 (host n1) is unhealthy (unhealthy route)"));
  for (auto& record : records) record.on_gpu = false;
  CHECK(judge_fabric(records, {}).empty());
}
