// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "catch.hpp"
#include "preflight/preflight.hpp"
#include "roster/rank_list.hpp"

using namespace muster;
using namespace muster::bootstrap;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

// Ranks with one GPU each, `per_host` on a host, all equal.
std::vector<JoinRecord> cluster(int hosts, int per_host) {
  std::vector<JoinRecord> records;
  for (int rank = 0; rank < hosts * per_host; ++rank) {
    int const host = rank / per_host;
    JoinRecord record;
    record.hello.rank = rank;
    record.hello.host = fmt::format("node{}", host);
    record.hello.boot_id = fmt::format("boot{}", host);
    record.hello.gpu = fmt::format("0000:{:02x}:00.0", 0x10 + rank % per_host);
    record.hello.nccl_version = "2.28.9";
    record.hello.plugin_version = "0.1.0";
    record.on_gpu = true;
    auto& inventory = record.inventory;
    inventory.nccl = true;
    inventory.driver = "570.1";
    inventory.gpus_openable = per_host;
    inventory.local_first = rank % per_host == 0;
    inventory.variables = {{"NCCL_PROTO", "Simple"}, {"NCCL_IB_TIMEOUT", "22"}};
    if (inventory.local_first) {
      inventory.interfaces = {{"lo", "127.0.0.1", 8}, {"eth0", fmt::format("10.0.0.{}", 1 + host), 24}};
      inventory.adapters = {{"mlx5_0", 1, true, "InfiniBand", "fe80:0000:0000:0001"},
                            {"mlx5_1", 1, true, "InfiniBand", "fe80:0000:0000:0001"}};
    }
    records.push_back(std::move(record));
  }
  return records;
}

Finding only(const std::vector<JoinRecord>& records) {
  auto const findings = preflight(records);
  for (const auto& finding : findings) UNSCOPED_INFO(finding.text);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].text.find('\n') == std::string::npos);
  CHECK_FALSE(findings[0].fix.empty());
  return findings[0];
}

template <typename Change>
void on_host(std::vector<JoinRecord>& records, const std::string& host, Change change) {
  for (auto& record : records)
    if (record.hello.host == host) change(record.inventory);
}

}  // namespace

TEST_CASE("when all ranks match, there is no finding") {
  CHECK(preflight(cluster(4, 8)).empty());
  CHECK(preflight(cluster(1, 1)).empty());
}

TEST_CASE("ranks are listed compactly with their hosts") {
  std::vector<Hello> roster;
  for (const auto& record : cluster(6, 2)) roster.push_back(record.hello);
  CHECK(format_ranks(roster, {3}) == "rank 3 (host node1)");
  CHECK(format_ranks(roster, {2, 3}) == "ranks 2-3 (host node1)");
  CHECK(format_ranks(roster, {0, 1, 4}) == "ranks 0-1,4 (hosts node0, node2)");
  CHECK(format_ranks(roster, {0, 2, 4, 6, 8, 10}) ==
        "ranks 0,2,4,6,8,10 (hosts node0, node1, node2 and 3 more)");
  CHECK(format_ranges({0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26}) ==
        "0,2,4,6,8,10,12,14,16,18,20,22 and 2 more");
}

TEST_CASE("another NCCL is fatal, another driver or plugin is a warning, and the minority is named") {
  auto records = cluster(3, 4);
  for (int rank = 4; rank < 8; ++rank) records[static_cast<std::size_t>(rank)].hello.nccl_version = "2.27.3";
  auto found = only(records);
  CHECK(found.fatal);
  CHECK(found.text ==
        "NCCL is 2.27.3 on ranks 4-7 (host node1), but 2.28.9 on ranks 0-3,8-11 (hosts node0, node2)");
  records = cluster(3, 4);
  on_host(records, "node2", [](HostInventory& inventory) { inventory.driver = "550.9"; });
  found = only(records);
  CHECK_FALSE(found.fatal);
  CHECK_THAT(found.text, ContainsSubstring("driver is 550.9 on ranks 8-11 (host node2), but 570.1 on"));
  records = cluster(3, 4);
  records[5].hello.plugin_version = "";
  CHECK_THAT(only(records).text, ContainsSubstring("plugin is none on rank 5 (host node1), but 0.1.0 on"));
}

TEST_CASE("one GPU for two ranks is fatal unless NCCL is set to allow it") {
  auto records = cluster(2, 2);
  records[3].hello.gpu = records[2].hello.gpu;
  auto const found = only(records);
  CHECK(found.fatal);
  CHECK(found.text == "ranks 2-3 (host node1) have GPU 0000:10:00.0 together, which NCCL refuses");
  records[3].inventory.variables["NCCL_HOSTID"] = "another";
  CHECK(preflight(records).empty());
  records[3].inventory.variables.erase("NCCL_HOSTID");
  for (auto& record : records) record.inventory.variables["NCCL_MULTI_RANK_GPU_ENABLE"] = "1";
  CHECK(preflight(records).empty());
  // Ranks on the CPU share no GPU.
  for (auto& record : records) record.on_gpu = false;
  CHECK(preflight(records).empty());
}

TEST_CASE("ranks that may not open their neighbours' GPUs are reported") {
  auto records = cluster(2, 4);
  for (std::size_t rank = 4; rank < 8; ++rank) records[rank].inventory.gpus_openable = 1;
  auto const found = only(records);
  CHECK_FALSE(found.fatal);
  CHECK_THAT(found.text, ContainsSubstring("ranks 4-7 (host node1) may not open the GPUs"));
  CHECK_THAT(found.fix, ContainsSubstring("--muster"));
}

TEST_CASE("variables that differ are reported with both values, and are fatal where NCCL would hang") {
  auto records = cluster(2, 2);
  on_host(records, "node1", [](HostInventory& inventory) { inventory.variables["NCCL_IB_TIMEOUT"] = "10"; });
  auto found = only(records);
  CHECK_FALSE(found.fatal);
  CHECK(found.text ==
        "NCCL_IB_TIMEOUT is '10' on ranks 2-3 (host node1), but '22' on ranks 0-1 (host node0)");
  records = cluster(2, 2);
  records[3].inventory.variables.erase("NCCL_PROTO");
  found = only(records);
  CHECK(found.fatal);
  CHECK(found.text ==
        "NCCL_PROTO is unset on rank 3 (host node1), but 'Simple' on ranks 0-2 (hosts node0, node1)");
  CHECK(found.fix == "give every rank the same NCCL_PROTO, in its environment or in nccl.conf");
  // These variables may differ between hosts and ranks.
  records = cluster(2, 2);
  records[1].inventory.variables["NCCL_HOSTID"] = "x";
  records[1].inventory.variables["UCX_NET_DEVICES"] = "mlx5_1:1";
  records[1].inventory.variables["NCCL_DEBUG"] = "INFO";
  records[1].inventory.variables["OMPI_MCA_btl_tcp_if_include"] = "eth1";
  on_host(records, "node1",
          [](HostInventory& inventory) { inventory.variables["NCCL_SOCKET_IFNAME"] = "=eth0"; });
  CHECK(preflight(records).empty());
}

TEST_CASE("a rank that only serves those with GPUs need not have their variables") {
  auto records = cluster(3, 1);
  records[0].on_gpu = false;
  records[0].hello.nccl_version.clear();
  records[0].inventory = {};
  records[0].inventory.local_first = true;
  CHECK(preflight(records).empty());
}

TEST_CASE("fatal findings come first") {
  auto records = cluster(2, 2);
  records[1].inventory.driver = "1";
  records[3].inventory.variables["NCCL_ALGO"] = "Ring";
  auto const findings = preflight(records);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].fatal);
  CHECK_FALSE(findings[1].fatal);
}

TEST_CASE("lists of interfaces and adapters are read as NCCL does") {
  CHECK(in_nccl_list("eth", "eth0"));
  CHECK_FALSE(in_nccl_list("=eth", "eth0"));
  CHECK(in_nccl_list("=eth0,ib0", "ib0"));
  CHECK_FALSE(in_nccl_list("^eth,lo", "eth0"));
  CHECK(in_nccl_list("^=eth", "eth0"));
  CHECK(in_nccl_list("=mlx5_0:1,mlx5_1:2", "mlx5_1", 2));
  CHECK_FALSE(in_nccl_list("=mlx5_0:1,mlx5_1:2", "mlx5_1", 1));
  CHECK(in_nccl_list("mlx5", "mlx5_7", 3));
  CHECK_FALSE(in_nccl_list("", "eth0"));
}

TEST_CASE("the socket interface is selected as by NCCL") {
  HostInventory inventory;
  CHECK(find_socket_interface(inventory) == nullptr);
  inventory.interfaces = {{"lo", "127.0.0.1", 8}, {"docker0", "172.17.0.1", 16}};
  CHECK(find_socket_interface(inventory)->name == "docker0");
  inventory.interfaces.push_back({"eno1", "10.1.0.1", 16});
  CHECK(find_socket_interface(inventory)->name == "eno1");
  inventory.interfaces.push_back({"ib0", "10.2.0.1", 16});
  CHECK(find_socket_interface(inventory)->name == "ib0");
  inventory.variables["NCCL_SOCKET_IFNAME"] = "^ib";
  CHECK(find_socket_interface(inventory)->name == "lo");
  inventory.variables["NCCL_SOCKET_IFNAME"] = "=eth0";
  CHECK(find_socket_interface(inventory) == nullptr);
  inventory.variables["NCCL_SOCKET_IFNAME"] = "";
  inventory.variables["NCCL_SOCKET_FAMILY"] = "AF_INET6";
  CHECK(find_socket_interface(inventory) == nullptr);
}

TEST_CASE("an interface that cannot reach the other hosts is named") {
  auto records = cluster(3, 2);
  on_host(records, "node1",
          [](HostInventory& inventory) { inventory.variables["NCCL_SOCKET_IFNAME"] = "=eth7"; });
  auto found = only(records);
  CHECK(found.fatal);
  CHECK(found.text ==
        "the host of rank 2 (host node1) has no interface that is up and fits NCCL_SOCKET_IFNAME==eth7");
  records = cluster(3, 2);
  on_host(records, "node2", [](HostInventory& inventory) {
    if (inventory.local_first) inventory.interfaces.pop_back();
  });
  found = only(records);
  CHECK(found.fatal);
  CHECK_THAT(found.text, ContainsSubstring("loopback interface on the host of rank 4 (host node2)"));
  records = cluster(3, 2);
  records[2].inventory.interfaces[1] = {"eth1", "192.168.5.1", 24};
  found = only(records);
  CHECK_FALSE(found.fatal);
  CHECK_THAT(found.text, ContainsSubstring("eth1 (192.168.5.1/24) on the host of rank 2 (host node1)") &&
                             ContainsSubstring("10.0.0.0/24"));
  // The bridge of a container engine has the same address everywhere.
  records = cluster(2, 1);
  for (auto& record : records) record.inventory.interfaces[1] = {"docker0", "172.17.0.1", 16};
  found = only(records);
  CHECK(found.fatal);
  CHECK_THAT(found.text,
             ContainsSubstring("docker0 (172.17.0.1/16)") && ContainsSubstring("the same address"));
  // Every host in a subnet of its own: a routed network.
  records = cluster(3, 1);
  for (auto& record : records)
    record.inventory.interfaces[1] = {"eth0", fmt::format("10.{}.0.1", record.hello.rank), 31};
  CHECK(preflight(records).empty());
  // One host has no other host to reach.
  records = cluster(1, 2);
  for (auto& record : records) record.inventory.interfaces.clear();
  CHECK(preflight(records).empty());
}

TEST_CASE("adapters that are missing, down or on another fabric are named") {
  auto records = cluster(3, 2);
  records[2].inventory.adapters[1].up = false;
  auto found = only(records);
  CHECK_FALSE(found.fatal);
  CHECK(
      found.text ==
      "NCCL can use 1 RDMA adapters on the host of rank 2 (host node1) and 2 on the others, down: mlx5_1:1");
  records[2].inventory.adapters[0].up = false;
  found = only(records);
  CHECK(found.fatal);
  CHECK_THAT(found.text, ContainsSubstring("can use 0 RDMA adapters on the host of rank 2 (host node1)"));
  // With sockets or another network plugin NCCL does not use adapters.
  for (auto& record : records) record.inventory.variables["NCCL_NET"] = "Socket";
  CHECK(preflight(records).empty());
  records = cluster(3, 1);
  for (auto& adapter : records[1].inventory.adapters) adapter.subnet = "fe80:0000:0000:0009";
  found = only(records);
  CHECK_FALSE(found.fatal);
  CHECK_THAT(found.text, ContainsSubstring(
                             "the host of rank 1 (host node1) are on InfiniBand subnet fe80:0000:0000:0009"));
  records = cluster(3, 1);
  for (auto& record : records) record.inventory.adapters.clear();
  CHECK(preflight(records).empty());
}

TEST_CASE("a clock that is off by more than a second is reported for its host, also for rank 0's") {
  std::vector<Hello> roster;
  for (const auto& record : cluster(4, 2)) roster.push_back(record.hello);
  auto const finding_text = [&](std::vector<HostClock> clocks) {
    auto const findings = check_clocks(roster, clocks);
    return findings.empty() ? std::string() : findings[0].text;
  };
  CHECK(finding_text({{0}, {2, 900ms, 1ms}, {4}, {6, -900ms, 1ms}}).empty());
  CHECK(finding_text({{0}, {2, 90s, 1ms}, {4}, {6}}) ==
        "the clock of the host of rank 2 (host node1) is 90.0 s ahead of most hosts'");
  CHECK(finding_text({{0}, {2, -5s, 1ms}, {4, -5s, 1ms}, {6, -5s, 1ms}}) ==
        "the clock of the host of rank 0 (host node0) is 5.0 s ahead of most hosts'");
  // A measurement with a long round trip proves little.
  CHECK(finding_text({{0}, {2, 5s, 10s}, {4}, {6}}).empty());
  CHECK(finding_text({{0}, {2, -300s, 0s}}) ==
        "the clock of the host of rank 2 (host node1) is 300.0 s behind the other host's");
  CHECK(finding_text({}).empty());
}

TEST_CASE("relevant variables are read from the environment, and long values are cut but stay different") {
  std::string const first = "NCCL_TUNER_PLUGIN=" + std::string(400, 'x') + "1";
  std::string const second = "NCCL_TUNER_PLUGIN=" + std::string(400, 'x') + "2";
  std::vector<const char*> environment{
      "PATH=/bin", "UCX_TLS=rc", "OMPI_MCA_btl=tcp,self", "OMPI_MCA_orte_ess_vpid=3", "NCCL_ALGO=Ring\x1b",
      "BROKEN",    nullptr};
  auto const plain = relevant_variables(environment.data(), false);
  CHECK(plain == std::map<std::string, std::string>{{"UCX_TLS", "rc"}, {"OMPI_MCA_btl", "tcp,self"}});
  auto const all = relevant_variables(environment.data(), true);
  CHECK_THAT(all.at("NCCL_ALGO"), ContainsSubstring("Ring?... (checksum "));
  environment.front() = first.c_str();
  auto const one = relevant_variables(environment.data(), true).at("NCCL_TUNER_PLUGIN");
  environment.front() = second.c_str();
  CHECK(one != relevant_variables(environment.data(), true).at("NCCL_TUNER_PLUGIN"));
  CHECK(one.size() < 220);
}
