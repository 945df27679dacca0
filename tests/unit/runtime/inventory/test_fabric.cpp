// SPDX-License-Identifier: Apache-2.0
// Reading a GPU's NVLink fabric from a fake NVML (fake_nvml.cpp), and the preflight's findings about it.
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "inventory/fabric.hpp"
#include "preflight/preflight.hpp"

using namespace muster;
using namespace muster::bootstrap;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using FabricState = Fabric::State;

namespace {

struct FakeNvml {
  explicit FakeNvml(const char* fabric, const char* what = "") {
    setenv("MUSTER_NVML_LIBRARY", FAKE_NVML_FILE, 1);
    setenv("FAKE_NVML_FABRIC", fabric, 1);
    setenv("FAKE_NVML", what, 1);
  }
  ~FakeNvml() {
    for (const char* name : {"MUSTER_NVML_LIBRARY", "FAKE_NVML_FABRIC", "FAKE_NVML"}) unsetenv(name);
  }
};

Fabric read_fake_fabric(const char* fabric, const char* what = "") {
  FakeNvml const fake(fabric, what);
  return read_fabric("0000:3b:00.0", Deadline(what == std::string("hang") ? 100ms : 20s));
}

// Two hosts of two ranks, all GPUs in one cluster and clique.
std::vector<JoinRecord> rack() {
  std::vector<JoinRecord> records(4);
  for (int rank = 0; rank < 4; ++rank) {
    auto& record = records[static_cast<std::size_t>(rank)];
    record.hello.rank = rank;
    record.hello.host = record.hello.boot_id = rank < 2 ? "n0" : "n1";
    record.on_gpu = true;
    record.inventory.fabric = {FabricState::completed, 0, std::string(32, 'a'), 7, ""};
    record.inventory.imex_channels = {0};
  }
  return records;
}

std::vector<Finding> check(const std::vector<JoinRecord>& records) {
  std::vector<Finding> findings;
  check_fabric(records, findings);
  for (const auto& finding : findings) {
    CHECK(finding.subject == "NVLink fabric");
    CHECK_FALSE(finding.fatal);
    CHECK_FALSE(finding.fix.empty());
  }
  return findings;
}

std::string only_finding(const std::vector<JoinRecord>& records) {
  auto const findings = check(records);
  REQUIRE(findings.size() == 1);
  return findings[0].text;
}

}  // namespace

TEST_CASE("a fabric's state, clique, cluster and health are read") {
  auto fabric = read_fake_fabric("3 0 7 171 170");
  CHECK(fabric.state == FabricState::completed);
  CHECK(fabric.status == 0);
  CHECK(fabric.clique == 7);
  CHECK(fabric.cluster == "abababababababababababababababab");
  CHECK(fabric.health_issues.empty());  // 0xaa: four times "no"
  CHECK(read_fake_fabric("3 0 7 171 0").health_issues.empty());
  CHECK(read_fake_fabric("3 0 7 171 105").health_issues ==
        "degraded bandwidth, recovery from an access timeout");                                   // 0x69
  CHECK(read_fake_fabric("3 0 7 171 22").health_issues == "route in recovery, unhealthy route");  // 0x16
  CHECK(read_fake_fabric("3 0 7 171 426").health_issues.empty());                                 // 0x1aa
  CHECK(read_fake_fabric("3 0 7 171 1194").health_issues == "incorrect configuration");           // 0x4aa
  CHECK(read_fake_fabric("3 0 0 0 0").cluster.empty());
  CHECK(read_fake_fabric("3 999 0 0 0").status == 999);
  CHECK(read_fake_fabric("2 0 0 0 0").state == FabricState::in_progress);
  CHECK(read_fake_fabric("1 0 0 0 0").state == FabricState::not_started);
  CHECK(read_fake_fabric("0 0 0 0 0").state == FabricState::unsupported);
  CHECK(read_fake_fabric("9 0 0 0 0").state == FabricState::unknown);
}

TEST_CASE("an old driver reports no health, and when NVML fails the state is unknown") {
  auto const old = read_fake_fabric("3 0 7 1 1", "old");
  CHECK(old.state == FabricState::completed);
  CHECK(old.clique == 7);
  CHECK(old.health_issues.empty());
  for (const char* what : {"no_init", "no_device"})
    CHECK(read_fake_fabric("3 0 7 1 1", what).state == FabricState::unknown);
  setenv("MUSTER_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
  CHECK(read_fabric("0000:3b:00.0", Deadline(20s)).state == FabricState::unknown);
  unsetenv("MUSTER_NVML_LIBRARY");
}

TEST_CASE("when NVML hangs, the read ends at the deadline") {
  auto const since = std::chrono::steady_clock::now();
  CHECK(read_fake_fabric("3 0 7 1 1", "hang").state == FabricState::unknown);
  CHECK(std::chrono::steady_clock::now() - since < 10s);
}

TEST_CASE("IMEX channels that can be opened are listed") {
  std::string name = (std::filesystem::temp_directory_path() / "muster-imex-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  CHECK(imex_channels(name).empty());
  auto const folder = std::filesystem::path(name) / "dev/nvidia-caps-imex-channels";
  std::filesystem::create_directories(folder);
  for (const char* file : {"channel12", "channel3", "channel", "channel3x", "other1"})
    std::ofstream(folder / file) << "";
  CHECK(imex_channels(name) == std::vector<int>{3, 12});
  std::filesystem::remove_all(name);
}

TEST_CASE("a healthy rack has no finding, and neither have fabrics within one host") {
  CHECK(check(rack()).empty());
  auto records = rack();
  for (auto& record : records) {
    record.inventory.fabric.cluster.clear();
    record.inventory.imex_channels.clear();
    record.inventory.variables["NCCL_CUMEM_ENABLE"] = "0";
  }
  CHECK(check(records).empty());
}

TEST_CASE("fabrics that are not up or not healthy are named with their ranks") {
  auto records = rack();
  records[1].inventory.fabric.state = FabricState::in_progress;
  CHECK(only_finding(records) ==
        "the NVLink fabric of rank 1 (host n0) is not up (registration is in progress)");
  records = rack();
  records[2].inventory.fabric.health_issues = records[3].inventory.fabric.health_issues =
      "degraded bandwidth";
  CHECK(only_finding(records) ==
        "the NVLink fabric of ranks 2-3 (host n1) is unhealthy (degraded bandwidth)");
  records = rack();
  records[0].inventory.fabric.status = 999;
  CHECK_THAT(only_finding(records),
             ContainsSubstring("of rank 0 (host n0) refused the GPU (NVML error 999)"));
}

TEST_CASE("settings that prevent NCCL from using NVLink between hosts are named") {
  auto records = rack();
  for (auto& record : records) record.inventory.variables["NCCL_CUMEM_ENABLE"] = "0";
  CHECK(only_finding(records) ==
        "NCCL_CUMEM_ENABLE=0 on ranks 0-3 (hosts n0, n1) keeps NCCL from the NVLink between these hosts: it "
        "takes "
        "the network");
  records = rack();
  records[3].inventory.variables["NCCL_MNNVL_ENABLE"] = "0";
  CHECK_THAT(only_finding(records), ContainsSubstring("NCCL_MNNVL_ENABLE=0 on rank 3 (host n1)"));
  records = rack();
  records[2].inventory.imex_channels.clear();
  CHECK_THAT(only_finding(records), ContainsSubstring("rank 2 (host n1) may open no IMEX channel"));
  // Hosts that do not share a clique have no NVLink between them.
  for (auto& record : records)
    if (record.hello.host == "n1") record.inventory.fabric.clique = 8;
  CHECK(check(records).empty());
  CHECK(ranks_with_nvlink_between_hosts(records).empty());
}
