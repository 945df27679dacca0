// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>

#include "catch.hpp"
#include "gpus/step_gpus.hpp"
#include "spank/placement/trees.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using namespace muster::spank;
using Catch::Matchers::ContainsSubstring;
using placement::PciAddress;
using placement::test::write_gpu;

namespace {

// A node of three GPUs. The order of their device files differs from that of their addresses.
struct ThreeGpus {
  ThreeGpus() {
    for (const auto& [bus, minor] : {std::pair<std::uint8_t, int>{0x10, 2}, {0x40, 0}, {0x80, 1}}) {
      placement::Gpu gpu;
      gpu.pci = PciAddress{0, bus, 0, 0};
      gpu.minor = minor;
      gpu.uuid = "GPU-" + std::to_string(minor);
      node.gpus.push_back(gpu);
      write_gpu(root, gpu.pci.to_string(), gpu.uuid, minor);
    }
  }
  std::vector<int> cuda_minors(const std::vector<MigInstance>& instances = {}) const {
    return find_cuda_minors(node, instances, root.path());
  }
  StepGpus step_gpus(const std::vector<std::string>& names) const {
    return find_step_gpus(node, names, root.path());
  }
  /// Puts the GPU into MIG mode, with one instance that this process may open.
  void split(int minor) const {
    const std::string number = std::to_string(minor),
                      gi = "proc/driver/nvidia/capabilities/gpu" + number + "/mig/gi1";
    root.write(gi + "/access", "DeviceFileMinor: 30\n");
    root.write(gi + "/ci0/access", "DeviceFileMinor: 31\n");
    for (const char* name : {"nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31"})
      root.write(std::string("dev/") + name, "");
    for (const auto& gpu : node.gpus) root.write("dev/nvidia" + std::to_string(gpu.minor), "");
  }

  TemporaryFolder root;
  placement::Node node;
};

}  // namespace

TEST_CASE("CUDA counts the node's GPUs in PCI order") {
  CHECK(ThreeGpus().cuda_minors() == std::vector{2, 0, 1});
}

TEST_CASE(
    "A step's GPUs are in the order of their device files, and not of Slurm's list or their addresses") {
  const ThreeGpus machine;
  const StepGpus all = machine.step_gpus({"2", "0", "1"});
  CHECK(all.minors == std::vector{0, 1, 2});
  REQUIRE(all.all.size() == 3);
  CHECK(all.all[0].pci == PciAddress{0, 0x40, 0, 0});
  CHECK(all.all[1].pci == PciAddress{0, 0x80, 0, 0});
  CHECK(all.all[2].pci == PciAddress{0, 0x10, 0, 0});
  CHECK(all.all[2].uuid == "GPU-2");
  CHECK(all.cuda_minors == std::vector{2, 0, 1});
  const StepGpus two = machine.step_gpus({"2", "1"});
  CHECK(two.minors == std::vector{1, 2});
  CHECK(two.all.front().pci == PciAddress{0, 0x80, 0, 0});
  CHECK(machine.step_gpus({}).all.empty());
}

TEST_CASE("A step's whole GPUs come before its MIG instances") {
  const ThreeGpus machine;
  machine.split(2);
  const StepGpus gpus = machine.step_gpus({"0", "1", "2"});
  CHECK(gpus.minors == std::vector{0, 1});
  REQUIRE(gpus.all.size() == 3);
  CHECK(gpus.all[1].pci == PciAddress{0, 0x80, 0, 0});
  CHECK(gpus.all[2].pci == PciAddress{0, 0x10, 0, 0});
  CHECK(gpus.all[2].uuid == "gpu2/gi1/ci0");
  CHECK(gpus.cuda_minors.empty());
}

TEST_CASE("When a step cannot open as many MIG instances as it has, the message names the likely cause") {
  const ThreeGpus machine;
  machine.split(2);
  const auto cgroup_v2 = ContainsSubstring("cgroup v2");
  CHECK_THROWS_WITH(machine.step_gpus({"0", "1"}),
                    ContainsSubstring("1 MIG instances and 2 whole GPUs") && cgroup_v2);
  CHECK_THROWS_WITH(machine.step_gpus({"0", "1", "2", "3"}),
                    ContainsSubstring("1 MIG instances and 2 whole GPUs") && !cgroup_v2);
}

TEST_CASE("A GPU that the driver does not list, or that has no number, is refused") {
  const ThreeGpus machine;
  CHECK_THROWS_WITH(machine.step_gpus({"0", "3"}), ContainsSubstring("/dev/nvidia3"));
  for (const char* name : {"", "a", "-1", "1000000"})
    CHECK_THROWS_WITH(machine.step_gpus({name}), ContainsSubstring("not the N of a /dev/nvidiaN"));
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
