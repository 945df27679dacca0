// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "catch.hpp"
#include "gpus/mig.hpp"
#include "temporary_folder.hpp"

using namespace muster::spank;
namespace fs = std::filesystem;

namespace {

// A made-up root with the driver's folders for instances; the device files in it are ordinary ones.
struct MigRoot {
  static constexpr const char* capabilities = "proc/driver/nvidia/capabilities/";

  fs::path root() const { return folder.path(); }
  void access_file(const std::string& name, const std::string& text) const {
    folder.write(capabilities + name + "/access", text);
  }
  void instance(int gpu, int gi, int ci, int outer, int inner) const {
    const std::string name = "gpu" + std::to_string(gpu) + "/mig/gi" + std::to_string(gi);
    access_file(name,
                "DeviceFileMinor: " + std::to_string(outer) + "\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
    access_file(name + "/ci" + std::to_string(ci), "DeviceFileMinor: " + std::to_string(inner) + "\n");
  }
  void device(const std::string& name) const { folder.write("dev/" + name, "x"); }

  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("Instances are found with their parent GPU and their files, in numerical order") {
  const MigRoot made;
  made.instance(10, 1, 0, 90, 91);
  made.instance(2, 11, 0, 50, 51);
  made.instance(2, 9, 1, 40, 42);
  made.instance(2, 9, 0, 40, 41);
  const auto found = read_mig_instances(made.root());
  REQUIRE(found.size() == 4);
  CHECK(found[0].label() == "gpu2/gi9/ci0");
  CHECK(found[1].label() == "gpu2/gi9/ci1");
  CHECK(found[2].label() == "gpu2/gi11/ci0");
  CHECK(found[3].label() == "gpu10/gi1/ci0");
  CHECK(found[1].capabilities == std::vector<int>{40, 42});
}

TEST_CASE("A machine without MIG, or with invalid files, has no instances") {
  const MigRoot made;
  CHECK(read_mig_instances(made.root()).empty());
  for (const char* name : {"mig", "gpu0/mig/gi1/ci0", "gpux/mig/gi1/ci0"})
    fs::create_directories(made.root() / MigRoot::capabilities / name);
  made.access_file("gpu1/mig/gi1", "DeviceFileMinor: -1\n");
  made.access_file("gpu1/mig/gi1/ci0", "DeviceFileMinor: abc\n");
  CHECK(read_mig_instances(made.root()).empty());
}

TEST_CASE("An instance can be opened when all three of its files open") {
  const MigRoot made;
  made.instance(0, 1, 0, 21, 22);
  const MigInstance one = read_mig_instances(made.root()).at(0);
  for (const char* file : {"nvidia0", "nvidia-caps/nvidia-cap21", "nvidia-caps/nvidia-cap22"}) {
    CHECK_FALSE(can_open(one, made.root()));
    made.device(file);
  }
  CHECK(can_open(one, made.root()));
}
