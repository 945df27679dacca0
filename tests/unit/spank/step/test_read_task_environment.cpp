// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "catch.hpp"
#include "step/read_task_environment.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using namespace muster::spank;

TEST_CASE("NCCL's file of the user is looked for where NCCL does") {
  const TemporaryFolder folder;
  folder.write(".nccl.conf", "NCCL_ALGO=Ring\n");
  folder.write("own.conf", "NCCL_PROTO=LL\n");
  const auto names = [&](std::map<std::string, std::string> variables) {
    const placement::GetEnv get_env = [&](const std::string& name) -> std::optional<std::string> {
      const auto at = variables.find(name);
      return at == variables.end() ? std::nullopt : std::optional(at->second);
    };
    std::vector<std::string> warnings, found;
    const auto environment =
        read_task_environment({}, {}, folder.path().string() + "/profiles", get_env, warnings);
    for (const auto& setting : environment.file_settings.user_files) found.push_back(setting.name);
    return found;
  };
  const std::string path = folder.path();
  const auto in_home = names({});
  CHECK(names({{"HOME", path}}) == in_home);  // NCCL takes the home from the user database
  CHECK(names({{"NCCL_CONF_FILE", path + "/own.conf"}}) == std::vector<std::string>{"NCCL_PROTO"});
  CHECK(names({{"NCCL_CONF_FILE", "own.conf"}, {"PWD", path}}) == std::vector<std::string>{"NCCL_PROTO"});
}
