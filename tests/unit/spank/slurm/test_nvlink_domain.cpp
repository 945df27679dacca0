// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "catch.hpp"
#include "slurm/nvlink_domain.hpp"
#include "spank/placement/machines.hpp"
#include "temporary_folder.hpp"

using namespace muster::spank;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;
using muster::placement::Node;

namespace {

Node node_with(const std::string& model) {
  Node node = make_node({2, 1, 4, 1});
  add_gpu(node, 0, 0x10);
  node.gpus[0].model = model;
  return node;
}

using Variables = std::map<std::string, std::string>;

NvlinkDomain find_domain(const std::string& model, int nodes, const Variables& variables,
                         const TemporaryFolder& root) {
  const auto variable = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return nvlink_domain(node_with(model), nodes, variable, root.path().string());
}

}  // namespace

TEST_CASE("Channels that can be opened and Slurm's block are noted on any machine") {
  const TemporaryFolder root;
  CHECK(find_domain("NVIDIA H100", 4, {}, root).notes.empty());
  root.write("dev/nvidia-caps-imex-channels/channel3", "");
  CHECK(find_domain("NVIDIA H100", 4, {}, root).notes == std::vector<std::string>{"IMEX channel 3"});
  for (const char* name : {"channel0", "channel1", "channel", "channelx", "other7"})
    root.write(std::string("dev/nvidia-caps-imex-channels/") + name, "");
  const Variables variables = {{"SLURM_TOPOLOGY_ADDR", "b7.n3"},
                               {"SLURM_TOPOLOGY_ADDR_PATTERN", "block.node"},
                               {"SLURM_JOB_SEGMENT_SIZE", "4"},
                               {"NCCL_CUMEM_ENABLE", "0"}};
  const auto domain = find_domain("NVIDIA H100", 4, variables, root);
  CHECK(domain.notes == std::vector<std::string>{"IMEX channels 0-1,3",
                                                 "block b7 of Slurm's topology, in segments of 4 nodes"});
  CHECK(domain.warnings.empty());
}

TEST_CASE("A topology of switches has no block") {
  const TemporaryFolder root;
  const Variables variables = {{"SLURM_TOPOLOGY_ADDR", "s0.s1.n3"},
                               {"SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node"}};
  CHECK(find_domain("NVIDIA GB200", 1, variables, root).notes.empty());
  CHECK(find_domain("NVIDIA GB200", 1, {{"SLURM_TOPOLOGY_ADDR_PATTERN", "block.node"}}, root).notes.empty());
  const Variables escape = {{"SLURM_TOPOLOGY_ADDR", "\x1b[31m.n3"},
                            {"SLURM_TOPOLOGY_ADDR_PATTERN", "block.node"}};
  CHECK(find_domain("NVIDIA GB200", 1, escape, root).notes.empty());
}

TEST_CASE(
    "When GPUs with NVLink between nodes are in a step of several nodes, settings that keep NCCL from it "
    "are warnings") {
  const TemporaryFolder root;
  CHECK(find_domain("NVIDIA GB200", 1, {}, root).warnings.empty());
  CHECK(find_domain("NVIDIA H100 80GB HBM3", 2, {}, root).warnings.empty());
  const auto none = find_domain("NVIDIA GB200", 2, {}, root).warnings;
  REQUIRE(none.size() == 1);
  CHECK_THAT(none[0], ContainsSubstring("no IMEX channel can be opened"));
  root.write("dev/nvidia-caps-imex-channels/channel0", "");
  CHECK(find_domain("NVIDIA GB200", 2, {{"NCCL_CUMEM_ENABLE", "1"}}, root).warnings.empty());
  for (const char* name : {"NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE"}) {
    const auto warnings = find_domain("NVIDIA GB300", 2, {{name, "0"}}, root).warnings;
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], ContainsSubstring(std::string(name) + "=0 keeps NCCL from NVLink between nodes"));
  }
}
