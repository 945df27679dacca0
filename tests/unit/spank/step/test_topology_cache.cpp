// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "content.hpp"
#include "spank/placement/trees.hpp"
#include "step/topology_cache.hpp"
#include "temporary_folder.hpp"

using muster::spank::TopologyCache;
namespace fs = std::filesystem;
namespace made_up = muster::placement::test;

namespace {

/// A made-up machine, and a cache folder for it.
struct MachineWithCache {
  MachineWithCache() {
    made_up::write_machine(tree);
    made_up::write_gpu(tree, "0000:81:00.0", "GPU-bbbb", 0);
    tree.write("proc/sys/kernel/random/boot_id", "one\n");
    fs::create_directory(folder);
    fs::permissions(folder, fs::perms(0755));
  }
  TopologyCache cache() const { return TopologyCache(folder, geteuid()); }
  /// Reads and stores; true if there was something to store.
  bool step() const {
    TopologyCache cache = this->cache();
    cache.read(root);
    if (!cache.is_dirty()) return false;
    cache.renew(root);
    return true;
  }
  int files() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  TemporaryFolder tree;
  std::string root = tree.path().string();
  std::string folder = root + "/kept";
  std::string file = folder + "/topology";
};

unsigned file_mode(const std::string& path) {
  struct stat found {};
  REQUIRE(lstat(path.c_str(), &found) == 0);
  return found.st_mode & 07777;
}

}  // namespace

TEST_CASE("The first step reads the machine, the next one the cache") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  CHECK_FALSE(machine.step());
  CHECK(machine.files() == 1);
  // A change that the identity does not cover shows the source of the answer.
  machine.tree.write("proc/driver/nvidia/gpus/0000:03:00.0/information", "Device Minor: 9\n");
  CHECK(machine.cache().read(machine.root).gpus.front().uuid == "GPU-aaaa");
}

TEST_CASE("The process that stores the topology reads the machine itself and takes nothing from the step") {
  const MachineWithCache machine;
  TopologyCache cache = machine.cache();
  cache.read(machine.root);
  REQUIRE(cache.is_dirty());
  machine.tree.write("proc/driver/nvidia/gpus/0000:03:00.0/information",
                     "Device Minor: 9\nGPU UUID: GPU-cccc\n");
  cache.renew(machine.root);
  CHECK(machine.cache().read(machine.root).gpus.front().uuid == "GPU-cccc");
}

TEST_CASE("The state of NICs never comes from the cache") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  machine.tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  const auto node = machine.cache().read(machine.root);
  REQUIRE_FALSE(node.nics.empty());
  CHECK(node.nics.front().up == false);
  CHECK(node.host == "n17");
}

TEST_CASE("After another boot or with other hardware, the cached file is replaced") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  machine.tree.write("proc/sys/kernel/random/boot_id", "two\n");
  CHECK(machine.step());
  CHECK_FALSE(machine.step());
  machine.tree.write("sys/devices/system/cpu/online", "0-6\n");
  CHECK(machine.step());
  CHECK(machine.cache().read(machine.root).cpus().to_list() == "0-6");
}

TEST_CASE("A damaged file is skipped and replaced") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  const std::string whole = content(machine.file);
  for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() / 2), whole + " ",
                                     std::string(whole).replace(200, 1, "#")}) {
    machine.tree.write("kept/topology", damaged);
    REQUIRE(content(machine.file) == damaged);
    CHECK(machine.step());
    CHECK(content(machine.file) == whole);
  }
}

TEST_CASE("A file that others may write to is skipped and replaced") {
  const MachineWithCache machine;
  for (const unsigned mode : {0664U, 0646U}) {
    machine.step();
    chmod(machine.file.c_str(), mode);
    CHECK(machine.step());
    CHECK(file_mode(machine.file) == 0644);
  }
}

TEST_CASE("A file of another owner is skipped, and a folder of another owner is not written") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  TopologyCache others(machine.folder, geteuid() + 1);
  others.read(machine.root);
  CHECK(others.is_dirty());
  CHECK_THROWS_WITH(others.renew(machine.root), Catch::Matchers::ContainsSubstring("not root's alone"));
  if (geteuid() != 0) return;  // only root can give a file away
  REQUIRE(chown(machine.file.c_str(), 12345, 12345) == 0);
  CHECK(machine.step());
  CHECK_FALSE(machine.step());
}

TEST_CASE("A folder that others may write to is neither read nor written") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  const std::string before = content(machine.file);
  fs::permissions(machine.folder, fs::perms(0777));
  TopologyCache cache = machine.cache();
  cache.read(machine.root);
  CHECK(cache.is_dirty());
  CHECK_THROWS_WITH(cache.renew(machine.root), Catch::Matchers::ContainsSubstring(machine.folder));
  CHECK(machine.files() == 1);
  CHECK(content(machine.file) == before);
}

TEST_CASE("Links are not followed, neither for the file nor for the folder") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  const std::string target = machine.root + "/elsewhere";
  fs::rename(machine.file, target);
  fs::create_symlink(target, machine.file);
  const std::string before = content(target);
  CHECK(machine.step());
  CHECK(fs::is_regular_file(fs::symlink_status(machine.file)));
  CHECK(content(target) == before);

  fs::create_directory_symlink(machine.folder, machine.root + "/link");
  TopologyCache through(machine.root + "/link", geteuid());
  through.read(machine.root);
  CHECK(through.is_dirty());
  CHECK_THROWS_AS(through.renew(machine.root), std::runtime_error);
}

TEST_CASE("A FIFO, a folder or a huge file in its place does not stop a step and is not read") {
  const MachineWithCache machine;
  REQUIRE(mkfifo(machine.file.c_str(), 0644) == 0);
  CHECK(machine.step());
  CHECK_FALSE(machine.step());

  const std::string whole = content(machine.file);
  std::ofstream(machine.file, std::ios::app) << std::string(5 << 20, ' ');
  CHECK(machine.step());
  CHECK(content(machine.file) == whole);

  fs::remove(machine.file);
  fs::create_directory(machine.file);
  TopologyCache cache = machine.cache();
  cache.read(machine.root);
  REQUIRE(cache.is_dirty());
  CHECK_THROWS_AS(cache.renew(machine.root), std::runtime_error);
  CHECK(machine.files() == 1);  // the temporary file has been removed
}

TEST_CASE("When only its last part is missing, the folder is made, readable for all whatever the umask") {
  const MachineWithCache machine;
  const std::string folder = machine.root + "/new";
  const mode_t before = umask(077);
  TopologyCache cache(folder, geteuid());
  cache.read(machine.root);
  cache.renew(machine.root);
  umask(before);
  CHECK(file_mode(folder) == 0755);
  CHECK(file_mode(folder + "/topology") == 0644);

  TopologyCache deeper(machine.root + "/not/there", geteuid());
  deeper.read(machine.root);
  CHECK_THROWS_WITH(deeper.renew(machine.root), Catch::Matchers::ContainsSubstring("No such file"));
}

TEST_CASE(
    "A leftover temporary file of the same process number is replaced, and a link in its place is not "
    "followed") {
  const MachineWithCache machine;
  const std::string victim = machine.tree.write("victim", "mine");
  fs::create_symlink(victim, machine.file + "." + std::to_string(getpid()));
  CHECK(machine.step());
  CHECK(content(victim) == "mine");
  CHECK(machine.files() == 1);
}

TEST_CASE("When the cache is off, nothing is read from it or written to it") {
  const MachineWithCache machine;
  TopologyCache off("");
  CHECK(off.read(machine.root).gpus.size() == 2);
  CHECK_FALSE(off.is_dirty());
  CHECK_NOTHROW(off.renew(machine.root));
  CHECK(machine.files() == 0);
}

TEST_CASE("When many steps run at once, each sees a whole file or none") {
  const MachineWithCache machine;
  REQUIRE(machine.step());
  const std::string whole = content(machine.file);
  constexpr int processes = 6, times = 50;
  for (int process = 0; process < processes; ++process) {
    if (fork() != 0) continue;
    bool good = true;
    for (int time = 0; time < times; ++time) {
      if (process % 2 == 0) {
        unlink(machine.file.c_str());
        machine.cache().renew(machine.root);
      } else {
        const std::string text = content(machine.file);
        good = (text.empty() || text == whole) && good;
      }
    }
    _exit(good ? 0 : 1);
  }
  int bad = 0;
  for (int process = 0; process < processes; ++process) {
    int status = 0;
    wait(&status);
    bad += status != 0;
  }
  CHECK(bad == 0);
  CHECK(machine.files() == 1);
}
