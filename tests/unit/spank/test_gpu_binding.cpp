// SPDX-License-Identifier: Apache-2.0
#include "gpus/gpu_binding.hpp"

#include <string>

#include "catch.hpp"

using namespace muster::spank;

namespace {

// "2 0,1": the places of the first task, of the second.
std::string dealt(const std::string& binding, int tasks, const std::vector<int>& names = {0, 1, 2, 3}) {
  const auto bound = bound_gpus(binding, tasks, names);
  if (!bound) return "none";
  std::string text;
  for (const auto& places : *bound) {
    if (!text.empty()) text += ' ';
    for (std::size_t i = 0; i < places.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(places[i]);
  }
  return text;
}

}  // namespace

TEST_CASE("The GPUs of each task, as --gpu-bind says them") {
  CHECK(dealt("map_gpu:2,0,1", 3) == "2 0 1");
  CHECK(dealt("map_gpu:2,0", 5) == "2 0 2 0 2");
  CHECK(dealt("map_gpu:1*2,0", 4) == "1 1 0 1");
  CHECK(dealt("mask_gpu:0x4,0x3", 2) == "2 0,1");
  CHECK(dealt("mask_gpu:c*2", 3) == "2,3 2,3 2,3");
  CHECK(dealt("map:1,0", 2) == "1 0");
  CHECK(dealt("mask:0x1", 2) == "0 0");
  CHECK(dealt("single:1", 3) == "0 1 2");
  CHECK(dealt("single:2", 4) == "0 0 1 1");
  CHECK(dealt("single:1", 3, {0, 1}) == "0 1 0");
}

TEST_CASE("map_gpu and mask_gpu count as the device files do where Slurm hides none") {
  CHECK(dealt("map_gpu:6,4", 2, {4, 6}) == "1 0");
  CHECK(dealt("mask_gpu:0x50,0x10", 2, {4, 6}) == "0,1 0");
  CHECK(dealt("mask_gpu:0x1", 1, {0, 64}) == "0");
}

TEST_CASE("A binding that names no GPUs of the step says nothing") {
  for (const char* binding :
       {"", "none", "closest", "per_task:1", "map_gpu", "map_gpu:", "map_gpu:4", "map_gpu:-1", "map_gpu:0,,1",
        "map_gpu:0*0", "map_gpu:0*", "map_gpu:99999999999", "mask_gpu:0x0", "mask_gpu:0x10", "mask_gpu:zz",
        "mask_gpu:0x1ffffffffffffffff", "single:0", "single:", "single:-1"}) {
    INFO(binding);
    CHECK(dealt(binding, 2) == "none");
  }
  // A long list costs no more than the tasks need.
  CHECK(dealt("map_gpu:0*1000000000", 2) == "0 0");
}
