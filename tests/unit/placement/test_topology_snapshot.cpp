// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <random>

#include "catch.hpp"
#include "machines.hpp"
#include "placement/topology/read.hpp"
#include "placement/topology/topology_snapshot.hpp"
#include "trees.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

const NodeIdentity here = {"5d6e2f0c-0000-4000-8000-000000000001", 42};

void write_bootable_machine(const TemporaryFolder& tree) {
  write_machine(tree);
  tree.write("proc/sys/kernel/random/boot_id", here.boot + "\n");
  tree.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
  // The GPU that the tree leaves unnamed, as the driver does before its first use.
  write_gpu(tree, "0000:81:00.0", "GPU-bbbb", 0);
}

std::string record_of_made_up_machine() {
  const TemporaryFolder tree;
  write_bootable_machine(tree);
  Node node = read_stable(tree.path().string());
  node.source = "live";
  return write_record(node, here);
}

std::string body_of(const std::string& record) { return record.substr(record.find('\n') + 1); }

/// Whatever came out of damaged JSON must be a node that can be placed on.
void use(std::optional<Node> node) {
  if (!node) return;
  finish(*node);
  Request request;
  request.gpus = addresses(*node);
  CHECK_NOTHROW(place(*node, request));
}

}  // namespace

TEST_CASE("A record gives back the node that it was made of") {
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
    const std::string record = write_record(node, here);
    auto again = read_record(record, here);
    REQUIRE(again);
    CHECK(write_record(*again, here) == record);
    CHECK(again->cores.size() == node.cores.size());
    CHECK(again->domains.size() == node.domains.size());
    CHECK(again->gpus.size() == node.gpus.size());
    CHECK(again->notes == node.notes);
  }
}

TEST_CASE("A record of any other length or with any other byte is refused") {
  const std::string record = record_of_made_up_machine();
  REQUIRE(read_record(record, here));
  REQUIRE(record.size() > 500);
  int accepted = 0;
  for (std::size_t length = 0; length < record.size(); ++length)
    accepted += read_record(std::string_view(record).substr(0, length), here).has_value();
  CHECK(accepted == 0);
  for (std::size_t at = 0; at < record.size(); ++at) {
    for (const int change : {0x01, 0x20, 0x80}) {
      std::string damaged = record;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      accepted += read_record(damaged, here).has_value();
    }
  }
  CHECK(accepted == 0);
  CHECK_FALSE(read_record(record + "\n", here));
  CHECK_FALSE(read_record(record + record, here));
}

TEST_CASE("A record holds for its boot and its hardware only") {
  const std::string record = record_of_made_up_machine();
  CHECK_FALSE(read_record(record, {"another boot", here.inventory}));
  CHECK_FALSE(read_record(record, {here.boot, here.inventory + 1}));
  CHECK_FALSE(read_record(record, {"", here.inventory}));
}

TEST_CASE("What must stay the same is in the identity, and what may change is not") {
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
  // Taken from the driver and given back to it: the same name, perhaps another minor number.
  const auto gpu = tree.path() / "proc/driver/nvidia/gpus/0000:81:00.0";
  const NodeIdentity before = read_identity(root);
  std::filesystem::rename(gpu, tree.path() / "away");
  write_gpu(tree, "0000:81:00.0", "GPU-bbbb", 0);
  CHECK(read_identity(root) != before);
}

TEST_CASE("A node without boot id, or with a GPU that the driver has not named yet, is not kept") {
  Node node = make_node({});
  CHECK(write_record(node, {"", 1}).empty());
  add_gpu(node, 0, 3);
  node.gpus.front().minor = -1;  // found on the PCI bus: there is no driver, and nothing more to come
  CHECK_FALSE(write_record(node, here).empty());
  node.gpus.front().minor = 0;
  node.gpus.front().uuid.clear();
  CHECK(write_record(node, here).empty());
}

TEST_CASE("A name that is not UTF-8 costs the record and nothing else") {
  Node node = make_node({});
  node.notes.emplace_back("\xff\xfe");
  CHECK(write_record(node, here).empty());
}

TEST_CASE("JSON that is none of ours is refused, however right its checksum") {
  const std::string body = body_of(record_of_made_up_machine());
  REQUIRE(read_record_body(body, here));
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
           std::pair("\"cores\":[", "\"cores\":[[0,7,\"77\"],"),  // a domain that is not there
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
    CHECK_FALSE(read_record_body(with(from, to), here));
  }
  for (const std::string text : {"", "null", "[]", "{}", "1e999", "\xff"})
    CHECK_FALSE(read_record_body(text, here));
  CHECK_FALSE(read_record_body(std::string(1 << 20, '['), here));
}

TEST_CASE("Random damage and random bytes end in nothing or in a node that can be used") {
  const std::string body = body_of(record_of_made_up_machine());
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
    use(read_record_body(damaged, here));
  }
  for (int run = 0; run < 1000; ++run) {
    std::string bytes(below(2000), '\0');
    for (auto& byte : bytes) byte = static_cast<char>(below(256));
    CHECK_FALSE(read_record(bytes, here));
    CHECK_FALSE(read_record_body(bytes, here));
  }
}
