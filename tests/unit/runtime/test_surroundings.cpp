// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "bootstrap/surroundings.hpp"
#include "catch.hpp"

using namespace muster::bootstrap;
namespace fs = std::filesystem;

namespace {

// A made-up /sys and /dev.
struct Tree {
  Tree() {
    std::string name = (fs::temp_directory_path() / "muster-surroundings-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = name;
  }
  ~Tree() { fs::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  fs::path root;
};

}  // namespace

TEST_CASE("adapters, driver and GPU devices are read from the host") {
  Tree const tree;
  tree.write("sys/module/nvidia/version", "570.133.20");
  tree.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  tree.write("sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0007:b859:9f03:00d4:ca3e");
  tree.write("sys/class/infiniband/mlx5_0/ports/odd/state", "4: ACTIVE");
  for (const char* name : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"})
    tree.write(std::string("dev/") + name, "");
  auto const around = read_surroundings({.nccl = true, .others = true, .local_rank = 0}, tree.root.string());
  CHECK(around.driver == "570.133.20");
  CHECK(around.gpus_openable == 3);
  REQUIRE(around.adapters.size() == 2);
  CHECK(around.adapters[0].name == "mlx5_0");
  CHECK(around.adapters[0].up);
  CHECK(around.adapters[0].subnet == "fe80:0000:0000:0007");
  CHECK_FALSE(around.adapters[1].up);
  CHECK(around.adapters[1].link_layer == "Ethernet");
  CHECK(around.adapters[1].subnet.empty());
  CHECK_FALSE(around.interfaces.empty());
  for (const auto& one : around.interfaces) {
    CHECK_FALSE(one.address.empty());
    if (one.name == "lo") CHECK(one.prefix == 8);
  }
}

TEST_CASE("only the host's first rank reads what belongs to the host, and only for NCCL") {
  Tree const tree;
  tree.write("sys/module/nvidia/version", "570.133.20");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  auto around = read_surroundings({.nccl = true, .others = true, .local_rank = 1}, tree.root.string());
  CHECK(around.driver == "570.133.20");
  CHECK(around.gpus_openable == -1);
  CHECK(around.adapters.empty());
  CHECK(around.interfaces.empty());
  around = read_surroundings({.nccl = false, .others = true, .local_rank = 0}, tree.root.string());
  CHECK(around.driver.empty());
  CHECK(around.interfaces.empty());
}
