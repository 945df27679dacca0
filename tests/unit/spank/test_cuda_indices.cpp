// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>

#include "../placement/trees.hpp"
#include "catch.hpp"
#include "gpus/cuda_indices.hpp"

using namespace muster;
using namespace muster::spank;
using placement::PciAddress;
using placement::test::TemporaryFolder;
using placement::test::write_gpu;

namespace {

// A node of three GPUs. The order of their device files differs from that of their addresses.
struct ThreeGpus {
  ThreeGpus() {
    for (const auto& [bus, minor] : {std::pair<std::uint8_t, int>{0x80, 1}, {0x10, 2}, {0x40, 0}}) {
      placement::Gpu gpu;
      gpu.pci = PciAddress{0, bus, 0, 0};
      gpu.minor = minor;
      node.gpus.push_back(gpu);
      write_gpu(root, gpu.pci.to_string(), "GPU-a", minor);
    }
  }
  std::vector<int> cuda_minors(const std::vector<MigInstance>& instances = {}) const {
    return find_cuda_minors(node, instances, root.path());
  }

  TemporaryFolder root;
  placement::Node node;
};

}  // namespace

TEST_CASE("CUDA counts the node's GPUs in PCI order") {
  CHECK(ThreeGpus().cuda_minors() == std::vector{1, 2, 0});
}

TEST_CASE("When CUDA's order is uncertain, no minors are returned") {
  ThreeGpus machine;
  SECTION("the driver has a GPU that the node's description lacks") {
    write_gpu(machine.root, "0000:c0:00.0", "GPU-b", 3);
    CHECK(machine.cuda_minors().empty());
  }
  SECTION("the driver lists no GPU") {
    std::filesystem::remove_all(machine.root.path() / "proc");
    CHECK(machine.cuda_minors().empty());
  }
  SECTION("a device file is not known") {
    machine.node.gpus.front().minor = -1;
    CHECK(machine.cuda_minors().empty());
  }
  SECTION("a GPU is in MIG mode") { CHECK(machine.cuda_minors({MigInstance{0, 1, 0, {12, 13}}}).empty()); }
}

TEST_CASE("Slurm's numbers are distinguished from names") {
  CHECK(are_numbers({}));
  CHECK(are_numbers({"3", "1", "10"}));
  CHECK_FALSE(are_numbers({"0", "GPU-0a"}));
  CHECK_FALSE(are_numbers({"MIG-1"}));
}
