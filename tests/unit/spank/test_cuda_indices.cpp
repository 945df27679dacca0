// SPDX-License-Identifier: Apache-2.0
#include "gpus/cuda_indices.hpp"

#include <cstdint>
#include <filesystem>

#include "../placement/trees.hpp"
#include "catch.hpp"

using namespace muster;
using namespace muster::spank;
using placement::PciAddress;
using placement::test::TemporaryFolder;
using placement::test::write_gpu;

namespace {

// A node of three GPUs whose device files lie in another order than their addresses.
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
  std::vector<int> counted(const std::vector<MigInstance>& instances = {}) const {
    return counted_by_cuda(node, instances, root.path());
  }

  TemporaryFolder root;
  placement::Node node;
};

}  // namespace

TEST_CASE("CUDA counts the GPUs of the node") { CHECK(ThreeGpus().counted() == std::vector{1, 2, 0}); }

TEST_CASE("Where it is not sure how CUDA counts, nothing is said") {
  ThreeGpus machine;
  SECTION("the driver has a GPU that the description of the node lacks") {
    write_gpu(machine.root, "0000:c0:00.0", "GPU-b", 3);
    CHECK(machine.counted().empty());
  }
  SECTION("the driver lists none") {
    std::filesystem::remove_all(machine.root.path() / "proc");
    CHECK(machine.counted().empty());
  }
  SECTION("a device file is not known") {
    machine.node.gpus.front().minor = -1;
    CHECK(machine.counted().empty());
  }
  SECTION("one is in MIG mode") { CHECK(machine.counted({MigInstance{0, 1, 0, {12, 13}}}).empty()); }
}

TEST_CASE("Slurm's numbers are told from names") {
  CHECK(are_numbers({}));
  CHECK(are_numbers({"3", "1", "10"}));
  CHECK_FALSE(are_numbers({"0", "GPU-0a"}));
  CHECK_FALSE(are_numbers({"MIG-1"}));
}
