// SPDX-License-Identifier: Apache-2.0
// Truncated, damaged and wrong topology files.

#include "catch.hpp"
#include "content.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"
#include "placement/topology/xml/check_hwloc_xml.hpp"
#include "spank/placement/machines.hpp"
#include "temporary_folder.hpp"

using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string fixture_path(const std::string& name) { return std::string(MUSTER_FIXTURES) + "/" + name; }

/// Reads a damaged file; the reader may throw only Error, with one line.
void check_survives(const std::string& path) {
  try {
    const Node node = read_topology_file(path);
    Request request;
    request.gpus = addresses(node);
    place(node, request);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("The synthetic NCCL file is read completely") {
  const Node node = read_topology_file(fixture_path("two-domains.nccl.xml"));
  REQUIRE(node.gpus.size() == 2);
  CHECK(node.gpus[0].domain == 0);
  CHECK(node.gpus[1].domain == 1);
  REQUIRE(node.nics.size() == 3);
  CHECK(node.nics[1].name == "mlx5_2");
  CHECK(node.nics[1].reason == "Ethernet port on a node that has InfiniBand");
  CHECK(node.domains[1].cpus.to_list() == "4-7");
}

TEST_CASE("Files that are not topology files cause an error with the reason") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_topology_file("/nowhere/x.xml"),
                    ContainsSubstring("/nowhere/x.xml: cannot be read"));
  CHECK_THROWS_WITH(read_topology_file(folder.write("a.xml", "")), ContainsSubstring("neither an hwloc"));
  CHECK_THROWS_WITH(read_topology_file(folder.write("b.xml", "hello")),
                    ContainsSubstring("neither an hwloc"));
  CHECK_THROWS_WITH(read_topology_file(folder.write("c.xml", "<html/>")),
                    ContainsSubstring("neither an hwloc"));
  CHECK_THROWS_WITH(read_topology_file(folder.write("d.xml", "<system/>")),
                    ContainsSubstring("has no <cpu> element"));
  CHECK_THROWS_WITH(read_topology_file(folder.write("e.xml", "<topology/>")),
                    ContainsSubstring("not an hwloc XML file"));
  CHECK_THROWS_AS(read_nccl_xml(folder.write("f.xml", "<topology/>")), Error);
  CHECK_THROWS_AS(read_hwloc_xml(folder.write("g.xml", "<system/>")), Error);
  CHECK_THROWS_WITH(read_topology_file(folder.path().string()), ContainsSubstring("cannot be read"));
  CHECK_THROWS_AS(read_nccl_xml(folder.path().string()), Error);
  CHECK_THROWS_AS(read_hwloc_xml(folder.path().string()), Error);
  CHECK_THROWS_AS(read_topology_file("/dev/zero"), Error);
}

TEST_CASE("NCCL files with impossible content are refused") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& body) {
    return read_nccl_xml(folder.write("x.xml", "<system version=\"1\">" + body + "</system>"));
  };
  const std::string gpu = "<pci busid=\"0000:01:00.0\" class=\"0x030200\"/>";
  CHECK_THROWS_WITH(read("<cpu numaid=\"0\" affinity=\"zz\"/>"), ContainsSubstring("not a CPU mask"));
  CHECK_THROWS_WITH(read("<cpu numaid=\"0\" affinity=\"f\"/><cpu numaid=\"0\" affinity=\"f0\"/>"),
                    ContainsSubstring("two <cpu>"));
  CHECK_THROWS_WITH(read("<cpu numaid=\"0\" affinity=\"f\"/><cpu numaid=\"1\" affinity=\"1f\"/>"),
                    ContainsSubstring("share CPUs"));
  CHECK_THROWS_WITH(read("<cpu numaid=\"0\" affinity=\"f\">" + gpu + gpu + "</cpu>"),
                    ContainsSubstring("twice"));
  CHECK_THROWS_WITH(read("<cpu numaid=\"0\" affinity=\"f\"><pci busid=\"x\"/></cpu>"),
                    ContainsSubstring("not a PCI address"));
  std::string deep, close;
  for (int i = 0; i < 5000; ++i) {
    deep += "<pci busid=\"0000:00:00.0\" class=\"0x060400\">";
    close += "</pci>";
  }
  CHECK_THROWS_WITH(read("<cpu numaid=\"0\" affinity=\"f\">" + deep + close + "</cpu>"),
                    ContainsSubstring("deeper than"));
  // NCCL's file for a virtual machine without NUMA.
  const Node without_numa = read("<cpu numaid=\"-1\" affinity=\"f\">" + gpu + "</cpu>");
  CHECK(without_numa.gpus.at(0).domain == -1);
  Request request;
  request.gpus = addresses(without_numa);
  CHECK(place(without_numa, request).tasks[0].gpu_cpu == Distance::node);  // the only domain is local
}

TEST_CASE("Truncated files and files with changed bytes cause an Error at most") {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  for (const char* name : {"two-domains.nccl.xml", "split-package.hwloc.xml"}) {
    const std::string whole = content(fixture_path(name));
    REQUIRE(whole.size() > 1000);
    for (std::size_t length = 0; length < whole.size(); length += whole.size() / 150)
      check_survives(folder.write("cut.xml", whole.substr(0, length)));
    for (int round = 0; round < 500; ++round) {
      std::string changed = whole;
      for (int i = 0; i <= round % 4; ++i) {
        const std::size_t at = random() % changed.size();
        if (round % 3 == 0) {
          changed.erase(at, random() % 20);
        } else {
          changed[at] = static_cast<char>(random() % 256);
        }
      }
      // hwloc leaks memory for some files that pass the check; LeakSanitizer would report it.
      if (std::string_view(name).find("hwloc") == std::string_view::npos) {
        check_survives(folder.write("changed.xml", changed));
      } else {
        try {
          check_hwloc_xml("changed.xml", changed, 2);
        } catch (const Error& error) {
          CHECK(std::string(error.what()).find('\n') == std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("hwloc files that would crash hwloc are refused before hwloc loads them") {
  const std::string whole = content(fixture_path("split-package.hwloc.xml"));
  const TemporaryFolder folder;
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string changed = whole;
    REQUIRE(changed.find(before) != std::string::npos);
    changed.replace(changed.find(before), before.size(), after);
    return folder.write("x.xml", changed);
  };
  CHECK_NOTHROW(read_hwloc_xml(folder.write("x.xml", whole)));
  CHECK_THROWS_WITH(read_hwloc_xml(with(" cpuset=\"0x0000ffff\"", "")),
                    ContainsSubstring("damaged: no cpuset of a Machine"));
  CHECK_THROWS_WITH(read_hwloc_xml(with(" complete_nodeset=\"0x00000001\"", "")),
                    ContainsSubstring("damaged: no complete_nodeset of a"));
  CHECK_THROWS_WITH(read_hwloc_xml(with("nodeset=\"0x0000000f\"", "nodeset=\"many\"")),
                    ContainsSubstring("odd nodeset"));
  CHECK_THROWS_WITH(read_hwloc_xml(with("type=\"PU\" os_index=\"0\"", "type=\"PU\" os_index=\"99999999\"")),
                    ContainsSubstring("a PU without a valid number"));
  CHECK_THROWS_WITH(read_hwloc_xml(with("type=\"Core\" os_index=\"0\"", "type=\"NUMAN\"")),
                    ContainsSubstring("a NUMAN without a valid number"));
  CHECK_THROWS_WITH(read_hwloc_xml(with("type=\"OSDev\"", "type=\"Core\"")),
                    ContainsSubstring("has a Core below a device"));
  // Values outside hwloc's enumerations.
  CHECK_NOTHROW(read_hwloc_xml(with("bridge_type=\"0-1\"", "bridge_type=\"5-1\"")));
  CHECK_NOTHROW(read_hwloc_xml(with("osdev_type=\"3\"", "osdev_type=\"77\"")));
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "<object type=\"Misc\">";
  for (int i = 0; i < 5000; ++i) deep += "</object>";
  CHECK_THROWS_WITH(read_hwloc_xml(with("</topology>", deep + "</topology>")),
                    ContainsSubstring("deeper than"));
}

TEST_CASE("Truncated real hwloc files cause an Error at most") {
  const auto real = real_topologies();
  if (!real) return;
  const std::string whole = content((*real / "hwloc/nvidia-dgx2h.xml").string());
  const TemporaryFolder folder;
  for (std::size_t length = 0; length < whole.size(); length += whole.size() / 40) {
    check_survives(folder.write("cut.xml", whole.substr(0, length)));
  }
}

TEST_CASE("The text of an error is printable") {
  CHECK(Error("a\x1b"
              "b")
            .what() == std::string("a?b"));
}
