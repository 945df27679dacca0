// SPDX-License-Identifier: Apache-2.0
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "inventory/host_inventory.hpp"
#include "nccl_conf/nccl_conf.hpp"

using namespace muster::bootstrap;
using muster::read_nccl_confs;
namespace fs = std::filesystem;

namespace {

// A fake /sys and /dev.
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

using Settings = std::map<std::string, std::string>;

struct Variable {
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  const char* name_;
};

}  // namespace

TEST_CASE("adapters, driver and GPU devices are read from the host") {
  Tree const tree;
  tree.write("sys/module/nvidia/version", "570.133.20");
  tree.write("etc/nccl.conf", "NCCL_ALGO=Ring\nUCX_TLS=from_a_file_of_nccl");
  tree.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  tree.write("sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0007:b859:9f03:00d4:ca3e");
  tree.write("sys/class/infiniband/mlx5_0/ports/odd/state", "4: ACTIVE");
  for (const char* name : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"})
    tree.write(std::string("dev/") + name, "");
  auto const inventory =
      read_host_inventory({.nccl = true, .has_peers = true, .local_rank = 0}, tree.root.string());
  CHECK(inventory.driver == "570.133.20");
  CHECK(inventory.variables.at("NCCL_ALGO") == "Ring");
  CHECK_FALSE(inventory.variables.contains("UCX_TLS"));
  CHECK(inventory.gpus_openable == 3);
  REQUIRE(inventory.adapters.size() == 2);
  CHECK(inventory.adapters[0].name == "mlx5_0");
  CHECK(inventory.adapters[0].up);
  CHECK(inventory.adapters[0].subnet == "fe80:0000:0000:0007");
  CHECK_FALSE(inventory.adapters[1].up);
  CHECK(inventory.adapters[1].link_layer == "Ethernet");
  CHECK(inventory.adapters[1].subnet.empty());
  CHECK_FALSE(inventory.interfaces.empty());
  for (const auto& one : inventory.interfaces) {
    CHECK_FALSE(one.address.empty());
    if (one.name == "lo") CHECK(one.prefix == 8);
  }
}

TEST_CASE("only the host's first rank reads interfaces and adapters, and only for NCCL") {
  Tree const tree;
  tree.write("sys/module/nvidia/version", "570.133.20");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  auto inventory =
      read_host_inventory({.nccl = true, .has_peers = true, .local_rank = 1}, tree.root.string());
  CHECK(inventory.driver == "570.133.20");
  CHECK(inventory.gpus_openable == -1);
  CHECK(inventory.adapters.empty());
  CHECK(inventory.interfaces.empty());
  inventory = read_host_inventory({.nccl = false, .has_peers = true, .local_rank = 0}, tree.root.string());
  CHECK(inventory.driver.empty());
  CHECK(inventory.interfaces.empty());
}

TEST_CASE("NCCL's files are read in its order: first the user's, then the administrator's") {
  Tree const tree;
  auto const root = tree.root.string();
  CHECK(read_nccl_confs(root).empty());
  tree.write("etc/nccl.conf", "NCCL_ALGO=Ring\nNCCL_NET=IB");
  CHECK(read_nccl_confs(root) == Settings{{"NCCL_ALGO", "Ring"}, {"NCCL_NET", "IB"}});
  const passwd* const user = getpwuid(getuid());
  REQUIRE(user != nullptr);
  tree.write(std::string(user->pw_dir).substr(1) + "/.nccl.conf", "NCCL_ALGO=Tree\nNCCL_PROTO=LL");
  CHECK(read_nccl_confs(root) == Settings{{"NCCL_ALGO", "Tree"}, {"NCCL_NET", "IB"}, {"NCCL_PROTO", "LL"}});
  tree.write("own.conf", "NCCL_NET=Socket");
  Variable const own("NCCL_CONF_FILE", "/own.conf");
  CHECK(read_nccl_confs(root) == Settings{{"NCCL_ALGO", "Ring"}, {"NCCL_NET", "Socket"}});
}

TEST_CASE("a configuration file that is a folder, a pipe or too large is ignored without waiting") {
  Tree const tree;
  auto const root = tree.root.string();
  fs::create_directories(tree.root / "etc/nccl.conf");
  REQUIRE(mkfifo((tree.root / "pipe").c_str(), 0600) == 0);
  {
    Variable const own("NCCL_CONF_FILE", "/pipe");
    CHECK(read_nccl_confs(root).empty());
  }
  std::string const line = "NCCL_ALGO=Ring\n";
  tree.write("full", line + std::string(64 * 1024 - line.size() - 1, '#'));  // write() adds a line feed
  tree.write("large", line + std::string(64 * 1024 - line.size(), '#'));
  {
    Variable const own("NCCL_CONF_FILE", "/full");
    CHECK(read_nccl_confs(root).size() == 1);
  }
  Variable const own("NCCL_CONF_FILE", "/large");
  CHECK(read_nccl_confs(root).empty());
}

TEST_CASE("NCCL's files count where the environment has no value, and only for NCCL") {
  Tree const tree;
  tree.write("etc/nccl.conf", "NCCL_ALGO=Ring\nNCCL_SOCKET_IFNAME=eth1\nNCCL_PROTO=LL");
  Variable const algorithm("NCCL_ALGO", "Tree");
  Variable const protocol("NCCL_PROTO", "");  // set, but empty
  Variable const nothing_else("NCCL_CONF_FILE", "/none");
  InventoryRequest request{.nccl = true, .has_peers = true, .local_rank = 0};
  auto inventory = read_host_inventory(request, tree.root.string());
  CHECK(inventory.variables.at("NCCL_ALGO") == "Tree");
  CHECK(inventory.variables.at("NCCL_SOCKET_IFNAME") == "eth1");
  CHECK(inventory.variables.at("NCCL_PROTO").empty());
  request.nccl = false;
  inventory = read_host_inventory(request, tree.root.string());
  CHECK_FALSE(inventory.variables.contains("NCCL_SOCKET_IFNAME"));
}
