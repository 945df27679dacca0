// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <random>

#include "catch.hpp"
#include "placement/topology/live/topology_snapshot.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/trees.hpp"
#include "temporary_folder.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

const NodeIdentity here = {"5d6e2f0c-0000-4000-8000-000000000001", 42};

void write_bootable_machine(const TemporaryFolder& tree) {
  write_machine(tree);
  tree.write("proc/sys/kernel/random/boot_id", here.boot + "\n");
  tree.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
  // write_machine() gives this GPU no UUID, like the driver before a GPU's first use.
  write_gpu(tree, "0000:81:00.0", "GPU-bbbb", 0);
}

std::string synthetic_snapshot() {
  const TemporaryFolder tree;
  write_bootable_machine(tree);
  Node node = read_static(tree.path().string());
  node.source = "live";
  return write_snapshot(node, here);
}

std::string snapshot_body(const std::string& snapshot) { return snapshot.substr(snapshot.find('\n') + 1); }

/// A node that was read from damaged JSON must still be usable for place().
void use(std::optional<Node> node) {
  if (!node) return;
  finish(*node);
  Request request;
  request.gpus = addresses(*node);
  CHECK_NOTHROW(place(*node, request));
}

}  // namespace

TEST_CASE("A snapshot restores its node") {
  std::mt19937 random(20261120);
  for (int machine = 0; machine < 200; ++machine) {
    Node node = random_node(random);
    for (auto& gpu : node.gpus) {
      gpu.minor = static_cast<int>(gpu.pci.bus);
      gpu.uuid = "GPU-" + std::to_string(gpu.minor);
      gpu.model = "a \"quoted\" model, é";
    }
    node.notes.push_back("a note");
    finish(node);
    const std::string snapshot = write_snapshot(node, here);
    auto again = read_snapshot(snapshot, here);
    REQUIRE(again);
    CHECK(write_snapshot(*again, here) == snapshot);
    CHECK(again->cores.size() == node.cores.size());
    CHECK(again->domains.size() == node.domains.size());
    CHECK(again->gpus.size() == node.gpus.size());
    CHECK(again->notes == node.notes);
  }
}

TEST_CASE("A snapshot that is truncated, extended or has a changed byte is refused") {
  const std::string snapshot = synthetic_snapshot();
  REQUIRE(read_snapshot(snapshot, here));
  REQUIRE(snapshot.size() > 500);
  int accepted = 0;
  for (std::size_t length = 0; length < snapshot.size(); ++length)
    accepted += read_snapshot(std::string_view(snapshot).substr(0, length), here).has_value();
  CHECK(accepted == 0);
  for (std::size_t at = 0; at < snapshot.size(); ++at) {
    for (const int change : {0x01, 0x20, 0x80}) {
      std::string damaged = snapshot;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      accepted += read_snapshot(damaged, here).has_value();
    }
  }
  CHECK(accepted == 0);
  CHECK_FALSE(read_snapshot(snapshot + "\n", here));
  CHECK_FALSE(read_snapshot(snapshot + snapshot, here));
}

TEST_CASE("A snapshot is valid only for its boot and its hardware") {
  const std::string snapshot = synthetic_snapshot();
  CHECK_FALSE(read_snapshot(snapshot, {"another boot", here.inventory}));
  CHECK_FALSE(read_snapshot(snapshot, {here.boot, here.inventory + 1}));
  CHECK_FALSE(read_snapshot(snapshot, {"", here.inventory}));
}

TEST_CASE("The identity covers the static half of a node, and not the dynamic half") {
  const TemporaryFolder tree;
  write_bootable_machine(tree);
  const std::string root = tree.path().string();
  const NodeIdentity first = read_identity(root);
  CHECK(first.boot == here.boot);
  REQUIRE(read_identity(root) == first);

  tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  tree.write("proc/net/route", "Iface\tDestination\n");
  CHECK(read_identity(root) == first);

  const auto changes = [&](const std::string& file, const std::string& content) {
    const NodeIdentity before = read_identity(root);
    tree.write(file, content);
    return read_identity(root) != before;
  };
  CHECK(changes("proc/sys/kernel/random/boot_id", "another\n"));
  CHECK(changes("sys/devices/system/cpu/online", "0-3\n"));
  CHECK(changes("sys/devices/system/node/online", "0\n"));
  CHECK(changes("sys/devices/system/node/has_memory", "0\n"));
  CHECK(changes("sys/bus/pci/devices/0000:ff:00.0/vendor", "0x10de\n"));
  CHECK(changes("proc/driver/nvidia/version", "NVRM version: 560.28.03\n"));
  CHECK(changes("proc/driver/nvidia/gpus/0000:e1:00.0/information", "Device Minor: 3\n"));
  // The GPU was detached and attached again: the same name, perhaps another minor number.
  const auto gpu = tree.path() / "proc/driver/nvidia/gpus/0000:81:00.0";
  const NodeIdentity before = read_identity(root);
  std::filesystem::rename(gpu, tree.path() / "away");
  write_gpu(tree, "0000:81:00.0", "GPU-bbbb", 0);
  CHECK(read_identity(root) != before);
}

TEST_CASE("A node without boot id, or with a GPU whose UUID the driver does not know yet, gets no snapshot") {
  Node node = make_node({});
  CHECK(write_snapshot(node, {"", 1}).empty());
  add_gpu(node, 0, 3);
  node.gpus.front().minor = -1;  // found on the PCI bus: without a driver, the UUID stays unknown
  CHECK_FALSE(write_snapshot(node, here).empty());
  node.gpus.front().minor = 0;
  node.gpus.front().uuid.clear();
  CHECK(write_snapshot(node, here).empty());
}

TEST_CASE("A node with a name that is not UTF-8 gets no snapshot, and nothing throws") {
  Node node = make_node({});
  node.notes.emplace_back("\xff\xfe");
  CHECK(write_snapshot(node, here).empty());
}

TEST_CASE("JSON with invalid content is refused even if its checksum is right") {
  const std::string body = snapshot_body(synthetic_snapshot());
  REQUIRE(read_snapshot_body(body, here));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = body;
    const auto at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  for (const auto& [from, to] : {
           std::pair("\"schema\":1", "\"schema\":2"),
           std::pair("\"schema\":1", "\"schema\":1.0"),
           std::pair("\"schema\":1", "\"schema\":\"1\""),
           std::pair("\"cores\":[", "\"cores\":[[0,0,\"\"],"),    // a core without CPUs
           std::pair("\"cores\":[", "\"cores\":[[0,0,\"0\"],"),   // a CPU twice
           std::pair("\"cores\":[", "\"cores\":[[0,7,\"77\"],"),  // a domain that does not exist
           std::pair("\"cores\":[", "\"cores\":[[0,0],"),
           std::pair("\"cores\":[", "\"cores\":[[0,0,\"65536\"],"),
           std::pair("\"cores\":[", "\"cores\":[[0,99999999999,\"77\"],"),
           std::pair("\"distances\":[", "\"distances\":[-2,"),
           std::pair("\"memory_bytes\":", "\"memory_bytes\":-"),
           std::pair("\"domains\":[", "\"domains\":[null,"),
           std::pair("\"gpus\":[", "\"gpus\":[{},"),
           std::pair("\"pci\":\"", "\"pci\":\"x"),
           std::pair("\"gpus\":", "\"gpu\":"),
           std::pair("\"notes\":[", "\"notes\":[1,"),
       }) {
    INFO(from << " -> " << to);
    CHECK_FALSE(read_snapshot_body(with(from, to), here));
  }
  for (const std::string text : {"", "null", "[]", "{}", "1e999", "\xff"})
    CHECK_FALSE(read_snapshot_body(text, here));
  CHECK_FALSE(read_snapshot_body(std::string(1 << 20, '['), here));
}

TEST_CASE("Random damage gives no node or a usable one, and random bytes give none") {
  const std::string body = snapshot_body(synthetic_snapshot());
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  for (int run = 0; run < 3000; ++run) {
    std::string damaged = body;
    for (std::size_t change = below(4) + 1; change > 0; --change) {
      const auto at = below(damaged.size());
      switch (below(3)) {
        case 0:
          damaged[at] = static_cast<char>(below(256));
          break;
        case 1:
          damaged[at] = "0123456789-,[]{}\":eE."[below(21)];
          break;
        default:
          damaged.erase(at, below(8) + 1);
      }
    }
    use(read_snapshot_body(damaged, here));
  }
  for (int run = 0; run < 1000; ++run) {
    std::string bytes(below(2000), '\0');
    for (auto& byte : bytes) byte = static_cast<char>(below(256));
    CHECK_FALSE(read_snapshot(bytes, here));
    CHECK_FALSE(read_snapshot_body(bytes, here));
  }
}
