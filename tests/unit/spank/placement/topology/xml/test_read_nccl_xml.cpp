// SPDX-License-Identifier: Apache-2.0
// Synthetic NCCL topology files: dumps of several versions and hand-written files.
#include "catch.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/trees.hpp"
#include "temporary_folder.hpp"

using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Node read(const std::string& body) {
  const TemporaryFolder folder;
  return read_nccl_xml(folder.write("x.xml", "<system version=\"1\">" + body + "</system>"));
}

std::string pci(const std::string& address, const std::string& kind, const std::string& content = "",
                const std::string& vendor = "") {
  return "<pci busid=\"" + address + "\"" + (kind.empty() ? "" : " class=\"" + kind + "\"") +
         (vendor.empty() ? "" : " vendor=\"" + vendor + "\"") + ">" + content + "</pci>";
}

std::string net(const std::string& name) {
  return "<nic><net name=\"" + name + "\" port=\"1\" speed=\"400000\"/></nic>";
}

}  // namespace

TEST_CASE(
    "A GPU behind a switch inside an adapter of unusual class is at distance PXB from it, and only the first "
    "host is read") {
  const std::string host =
      pci("0008:01:00.0", "0x060400",
          pci("0008:03:00.0", "0x080100", net("rail0")) +
              pci("0008:04:00.0", "0x060400", pci("0008:06:00.0", "0x030200", "<gpu dev=\"0\"/>")));
  const Node node = read("<cpu host_hash=\"0x1\" numaid=\"0\" affinity=\"f\">" + host +
                         "</cpu><cpu host_hash=\"0x2\" numaid=\"0\" affinity=\"f\">" + host + "</cpu>");
  REQUIRE(node.gpus.size() == 1);
  REQUIRE(node.nics.size() == 1);
  CHECK(node.nics[0].kind == NicKind::unknown);
  CHECK(node.nics[0].usable);
  CHECK(device_distance(node.gpus[0].path, 0, node.nics[0].path, 0) == Distance::pxb);
  CHECK_THAT(node.notes.at(0), ContainsSubstring("several hosts"));
}

TEST_CASE("Display controllers of other vendors are not GPUs, and AMD's are noted") {
  const Node node = read("<cpu numaid=\"0\" affinity=\"f\">" + pci("0000:01:00.0", "0x030000", "", "0x1a03") +
                         pci("0000:02:00.0", "0x030200", "", "0x10de") +
                         pci("0000:03:00.0", "0x038000", "", "0x1002") + "</cpu>");
  REQUIRE(node.gpus.size() == 1);
  CHECK(node.gpus[0].pci.bus == 2);
  CHECK_THAT(node.notes.at(0), ContainsSubstring("1 AMD GPU left out"));
}

TEST_CASE("Interfaces of the socket transport are not RDMA, and merged ports are split") {
  const Node node = read("<cpu numaid=\"0\" affinity=\"f\">" + pci("0000:01:00.0", "0x020000", net("ens7")) +
                         pci("0000:02:00.0", "0x020700", net("mlx5_0+mlx5_1")) + "</cpu>");
  REQUIRE(node.nics.size() == 3);
  CHECK(node.nics[0].reason == "no RDMA");
  CHECK(node.nics[1].name == "mlx5_0");
  CHECK(node.nics[2].name == "mlx5_1");
  CHECK(node.nics[2].usable);
}

TEST_CASE(
    "If a domain has no affinity, cores come from the nearest one, and memory stays on the GPU's domain") {
  const Node node = read("<cpu numaid=\"0\" affinity=\"f\">" + pci("0000:01:00.0", "0x030200") +
                         "</cpu><cpu numaid=\"1\">" + pci("0000:81:00.0", "0x030200") + "</cpu>");
  CHECK(node.domains.at(1).cpus_hidden);
  CHECK_THAT(node.notes.at(0), ContainsSubstring("leaves out the CPUs of NUMA domain 1"));
  Request request;
  request.tasks = 2;
  request.gpus = addresses(node);
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].gpu_cpu == Distance::node);
  CHECK(placement.tasks[1].gpu_cpu == Distance::sys);
  CHECK(placement.tasks[1].cpus.to_list() == "2-3");
  CHECK(placement.tasks[0].memory == std::vector<int>{0});
  CHECK(placement.tasks[1].memory == std::vector<int>{1});
  CHECK(placement.tasks[1].reasons[0] == "2 cores on NUMA 0 (distance 20: the CPUs of 1 are not known)");
}

TEST_CASE("If a file has no NUMA domain, the live one is kept") {
  const TemporaryFolder tree;
  write_machine(tree);
  const std::string file = tree.write("x.xml", "<system version=\"1\"><cpu numaid=\"-1\" affinity=\"ff\">" +
                                                   pci("0000:81:00.0", "0x030200") + "</cpu></system>");
  const Node node = read_with_locality(tree.path().string(), file);
  CHECK(node.gpus[1].domain == 1);
  CHECK(node.gpus[1].path.host_bridge == "cpu0");
}
