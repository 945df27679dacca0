// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "exec/process_gpus.hpp"

using namespace muster;
using namespace muster::spank;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Four GPUs whose device files are numbered against the PCI order.
placement::Node four_gpus() {
  placement::Node node;
  for (int i = 0; i < 4; ++i) {
    placement::Gpu gpu;
    gpu.pci.bus = static_cast<std::uint8_t>(i + 1);
    gpu.minor = 3 - i;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.model = "A";
    node.gpus.push_back(gpu);
  }
  return node;
}

placement::GetEnv devices(const std::optional<std::string>& list,
                          const std::string& order = "FASTEST_FIRST") {
  return [=](const std::string& name) {
    if (name == "CUDA_VISIBLE_DEVICES") return list;
    return name == "CUDA_DEVICE_ORDER" ? std::optional(order) : std::nullopt;
  };
}

using Minors = std::vector<int>;

struct Expected {
  Minors allotted, own;
  bool replaceable;
};

void check(const std::optional<std::string>& list, int local_size, const Expected& expected,
           const Minors& openable = {3, 2, 1, 0}, int tasks_per_gpu = 0) {
  CAPTURE(list.value_or("unset"), local_size);
  const auto found = choose_process_gpus(four_gpus(), openable, local_size, tasks_per_gpu, devices(list));
  CHECK(found.allotted == expected.allotted);
  CHECK(found.own == expected.own);
  CHECK(found.replaceable == expected.replaceable);
}

}  // namespace

TEST_CASE("Without CUDA_VISIBLE_DEVICES all GPUs that the process can open are allotted") {
  check({}, 2, {{3, 2, 1, 0}, {}, false});
  check({}, 2, {{3, 1}, {}, false}, {3, 1});
}

TEST_CASE(
    "CUDA_VISIBLE_DEVICES with enough GPUs is the allotment of all local processes, in CUDA's numbers") {
  check("0,1,2,3", 4, {{3, 2, 1, 0}, {}, true});
  check("0,1", 2, {{3, 2}, {}, true});
  check("GPU-3,GPU-2", 2, {{0, 1}, {}, true});
  check("0,1", 2, {{3, 1}, {}, true}, {3, 1});  // a container with two of the GPUs
  check("0,1", 4, {{3, 2}, {}, true}, {3, 2, 1, 0}, 2);
}

TEST_CASE("CUDA_VISIBLE_DEVICES with fewer GPUs than processes is this process's own share") {
  check("2", 2, {{3, 2, 1, 0}, {1}, false});
  check("0,1", 4, {{3, 2, 1, 0}, {3, 2}, false});
}

TEST_CASE("A process alone keeps its CUDA_VISIBLE_DEVICES") {
  check("3,0", 1, {{3, 0}, {}, false});
  for (const char* none : {"", "-1", "NoDevFiles"}) check(none, 1, {{}, {}, false});
  check("", 2, {{}, {}, false});
  check("0", 1, {{}, {}, false}, {});
}

TEST_CASE("GPUs that cannot be known are refused") {
  const auto error = [](const placement::Node& node, const std::string& list, const std::string& order) {
    try {
      choose_process_gpus(node, {3, 2, 1, 0}, 2, 0, devices(list, order));
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* list : {"4", "0,7", "GPU-7", "MIG-1", "x", "0,\x1b"})
    CHECK_THAT(error(four_gpus(), list, "PCI_BUS_ID"),
               ContainsSubstring("names a GPU that this process cannot open"));
  auto mixed = four_gpus();
  mixed.gpus.back().model = "B";
  CHECK_THAT(error(mixed, "0,1", "FASTEST_FIRST"), ContainsSubstring("set CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  CHECK(error(mixed, "0,1", "PCI_BUS_ID").empty());
  CHECK(error(mixed, "GPU-0,GPU-1", "FASTEST_FIRST").empty());
}
