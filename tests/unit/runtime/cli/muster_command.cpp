// SPDX-License-Identifier: Apache-2.0
#include "muster_command.hpp"

#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "catch.hpp"

namespace muster::cli::test {

const std::string two_domains = "--topology '" MUSTER_FIXTURES "/two-domains.nccl.xml'";

Result shell(const std::string& command) {
  Result result;
  FILE* pipe = popen(("exec 2>&1; " + command).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  std::size_t got = 0;
  while ((got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) result.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

Result run_muster(const std::string& arguments) {
  return shell("timeout 60 '" MUSTER_COMMAND "' " + arguments);
}

}  // namespace muster::cli::test
