// SPDX-License-Identifier: Apache-2.0
// `muster render` as a user runs it.
#include "catch.hpp"
#include "runtime/cli/muster_command.hpp"

using namespace muster::cli::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string train = "render " MUSTER_SOURCE "/sbatch/descriptions/train.toml";
const std::string script = " --diff " MUSTER_SOURCE "/sbatch/train.sbatch";

}  // namespace

TEST_CASE("muster render compares its output with a file") {
  const auto same = run_muster(train + " --to slurm" + script);
  CHECK(same.code == 0);
  CHECK(same.output == "");
  const auto other = run_muster(train + " --to slurm --set nodes=3" + script);
  CHECK(other.code == 1);
  CHECK_THAT(other.output, ContainsSubstring("+++ rendered\n") &&
                               ContainsSubstring("-#SBATCH --nodes=2\n+#SBATCH --nodes=3\n"));
}

TEST_CASE("muster render lists its profiles, one line each") {
  const auto result = run_muster("render --list-profiles");
  CHECK(result.code == 0);
  CHECK_THAT(result.output, ContainsSubstring("jean-zay-a100  8 GPUs and 64 cores a node"));
}

TEST_CASE("muster render refuses wrong command lines and files in one line") {
  const auto [arguments, code, line] = GENERATE(table<std::string, int, std::string>({
      {"render", 64, "FILE is required"},
      {train, 64, "--to is required"},
      {train + " --to pbs", 64, "--to: "},
      {"render /nowhere.toml --to slurm", 65, "/nowhere.toml: No such file or directory"},
      {"render /dev/null --to slurm", 65, "/dev/null: is not a file"},
      {train + " --to slurm --profile nowhere", 65, "no profile is called \"nowhere\""},
      {train + " --to slurm --set nodes=x", 65, "muster: --set nodes=x: nodes must be a whole number"},
      {train + " --to slurm --diff /nowhere", 65, "/nowhere: No such file or directory"},
      {train + " --to jobset", 65, "image is missing"},
  }));
  INFO(arguments);
  const auto result = run_muster(arguments);
  CHECK(result.code == code);
  CHECK_THAT(result.output, ContainsSubstring(line));
  CHECK(result.output.find('\n') == result.output.size() - 1);
}
