// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "catch.hpp"
#include "gpus/gpu_binding.hpp"

using namespace muster::spank;

namespace {

// "2 0,1": the GPU indices of the first task, of the second.
std::string assigned(const std::string& binding, int tasks,
                     const std::vector<int>& gpu_numbers = {0, 1, 2, 3}) {
  const auto bound = parse_gpu_binding(binding, tasks, gpu_numbers);
  if (!bound) return "none";
  std::string text;
  for (const auto& indices : *bound) {
    if (!text.empty()) text += ' ';
    for (std::size_t i = 0; i < indices.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(indices[i]);
  }
  return text;
}

}  // namespace

TEST_CASE("--gpu-bind gives the GPUs of each task") {
  CHECK(assigned("map_gpu:2,0,1", 3) == "2 0 1");
  CHECK(assigned("map_gpu:2,0", 5) == "2 0 2 0 2");
  CHECK(assigned("map_gpu:1*2,0", 4) == "1 1 0 1");
  CHECK(assigned("mask_gpu:0x4,0x3", 2) == "2 0,1");
  CHECK(assigned("mask_gpu:c*2", 3) == "2,3 2,3 2,3");
  CHECK(assigned("map:1,0", 2) == "1 0");
  CHECK(assigned("mask:0x1", 2) == "0 0");
  CHECK(assigned("single:1", 3) == "0 1 2");
  CHECK(assigned("single:2", 4) == "0 0 1 1");
  CHECK(assigned("single:1", 3, {0, 1}) == "0 1 0");
}

TEST_CASE("When Slurm hides no devices, map_gpu and mask_gpu count by device file") {
  CHECK(assigned("map_gpu:6,4", 2, {4, 6}) == "1 0");
  CHECK(assigned("mask_gpu:0x50,0x10", 2, {4, 6}) == "0,1 0");
  CHECK(assigned("mask_gpu:0x1", 1, {0, 64}) == "0");
}

TEST_CASE("A binding that names no GPUs of the step gives no assignment") {
  for (const char* binding :
       {"", "none", "closest", "per_task:1", "map_gpu", "map_gpu:", "map_gpu:4", "map_gpu:-1", "map_gpu:0,,1",
        "map_gpu:0*0", "map_gpu:0*", "map_gpu:99999999999", "mask_gpu:0x0", "mask_gpu:0x10", "mask_gpu:zz",
        "mask_gpu:0x1ffffffffffffffff", "single:0", "single:", "single:-1"}) {
    INFO(binding);
    CHECK(assigned(binding, 2) == "none");
  }
  // The cost of a long list is limited by the number of tasks.
  CHECK(assigned("map_gpu:0*1000000000", 2) == "0 0");
}
