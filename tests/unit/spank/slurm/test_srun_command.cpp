// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "catch.hpp"
#include "slurm/srun_command.hpp"

using namespace muster::spank;

namespace {

using Environment = std::map<std::string, std::string>;
constexpr const char* from_salloc = "_SLURM_SPANK_OPTION_muster_muster";
constexpr const char* from_batch = "SLURM_SPANK__SLURM_SPANK_OPTION_muster_muster";

ReadVariable reader(const Environment& environment) {
  return [&environment](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  };
}

SrunCommand read(const std::vector<std::string>& line, const Environment& environment = {}) {
  return read_srun_command(line, reader(environment));
}

}  // namespace

TEST_CASE("srun's own --muster is found before the program, among any other options") {
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"srun", "--muster", "true"},
           {"srun", "-N2", "-n", "4", "--gpus-per-task=1", "-K", "--muster", "true"},
           {"srun", "--quiet", "--muster=auto", "true"}})
    CHECK(read(line).words.has_value());
  CHECK(read({"srun", "--muster=strict,cpu=off", "true"}).words->mode == Mode::strict);
  CHECK(read({"srun", "--muster=strict", "--muster=off", "true"}).words->mode == Mode::off);
}

TEST_CASE("The program's --muster is not srun's") {
  for (const std::vector<std::string>& line :
       std::vector<std::vector<std::string>>{{"srun", "prog", "--muster"},
                                             {"srun", "-n", "4", "prog", "--muster"},
                                             {"srun", "-n4", "--", "prog", "--muster"},
                                             {"srun", "--overcommit", "prog", "--muster"},
                                             {"srun", "--ntasks", "4", "--muster"},  // 4 could be the program
                                             {"srun", "-l", "prog", "--muster"},
                                             {"srun", "--musterfile", "--muster-x=1", "prog"},
                                             {"srun"},
                                             {}})
    CHECK_FALSE(read(line).words.has_value());
}

TEST_CASE("Without its own --muster, srun uses that of the surrounding job, under both of Slurm's names") {
  CHECK(read({"srun", "true"}, {{from_salloc, "off"}}).words->mode == Mode::off);
  CHECK(read({"srun", "true"}, {{from_batch, "strict"}}).words->mode == Mode::strict);
  CHECK(read({"srun", "true"}, {{from_batch, "(null)"}}).words.has_value());
  CHECK(read({"srun", "--muster=off", "true"}, {{from_batch, "strict"}}).words->mode == Mode::off);
  CHECK_FALSE(read({"srun", "true"}, {{from_batch, "nonsense"}}).words.has_value());
  CHECK_FALSE(read({"srun", "--muster=nonsense", "true"}, {{from_batch, "auto"}}).words.has_value());
}

TEST_CASE("GPUs per task are the step's, else the job's, and 0 if not certain") {
  const Environment job = {{"SLURM_GPUS_PER_TASK", "a100:2"}};
  CHECK(read({"srun", "true"}, job).gpus_per_task == 2);
  CHECK(read({"srun", "--gpus-per-task=1", "true"}, job).gpus_per_task == 1);
  CHECK(read({"srun", "--gpus-per-task=a100:1,h100:2", "true"}).gpus_per_task == 3);
  CHECK(read({"srun", "--gpus-per-task", "1", "true"}, job).gpus_per_task == 0);
  CHECK(read({"srun", "true"}).gpus_per_task == 0);
  // The components of a heterogeneous step: only a number on which all agree.
  CHECK(read({"srun", "-n1", "a", ":", "-n2", "--gpus-per-task=1", "b"}).gpus_per_task == 1);
  CHECK(read({"srun", "--gpus-per-task=1", "a", ":", "--gpus-per-task=1", "b"}).gpus_per_task == 1);
  CHECK(read({"srun", "--gpus-per-task=1", "a", ":", "--gpus-per-task=2", "b"}).gpus_per_task == 0);
  CHECK(read({"srun", "a", ":", "b"}, job).gpus_per_task == 2);
}

TEST_CASE("A GPU binding on the command line is found if it is srun's own") {
  CHECK(read({"srun", "-n2", "--gpu-bind=map_gpu:1,0", "true"}).gpu_binding == "gpu:map_gpu:1,0");
  CHECK(read({"srun", "--tres-bind=gres/gpu:closest", "true"}).gpu_binding == "gres/gpu:closest");
  CHECK_FALSE(read({"srun", "-n2", "true", "--gpu-bind=closest"}).gpu_binding);
}

TEST_CASE("A GPU binding that may be srun's own is the user's choice") {
  CHECK(read({"srun", "--gpu-bind=closest", "true"}).may_bind_gpus);
  CHECK(read({"srun", "--ntasks", "4", "--gpu-bind=closest", "true"}).may_bind_gpus);
  CHECK(read({"srun", "--ntasks", "4", "--tres-bind", "gres/gpu:closest", "true"}).may_bind_gpus);
  CHECK(read({"srun", "true", "--gpu-bind=closest"}).may_bind_gpus);
  CHECK_FALSE(read({"srun", "--ntasks", "4", "--gpu-binding=closest", "true"}).may_bind_gpus);
  CHECK_FALSE(read({"srun", "-n4", "true"}).may_bind_gpus);
}

TEST_CASE("Counts are parsed in Slurm's notation") {
  CHECK(parse_count("2") == 2);
  CHECK(parse_count("a100:2") == 2);
  for (const char* none : {"", "x", "0", "-1", "2x", "a100:", "1,x"}) CHECK(parse_count(none) == 0);
  CHECK(parse_count("16777216") == most_counted);
  for (const char* absurd : {"16777217", "2147483647,2147483647", "99999999999"})
    CHECK(parse_count(absurd) == 0);
}

TEST_CASE("A CPU binding that Slurm gave the surrounding task is distinguished from one that the user set") {
  const Environment in_a_task = {{"SLURM_CPU_BIND", "quiet,mask_cpu:0x1"}, {"SLURM_CPU_BIND_LIST", "0x1"}};
  const Environment by_the_user = {{"SLURM_CPU_BIND", "mask_cpu:0x1"}};
  CHECK(inherits_cpu_binding({"srun", "-n2", "true"}, reader(in_a_task)));
  CHECK_FALSE(inherits_cpu_binding({"srun", "-n2", "--cpu-bind=cores", "true"}, reader(in_a_task)));
  CHECK_FALSE(inherits_cpu_binding({"srun", "-n2", "--cpu-bind", "cores", "true"}, reader(in_a_task)));
  // 4 and `true` may both be the program; the user's choice comes first.
  CHECK_FALSE(inherits_cpu_binding({"srun", "--ntasks", "4", "--cpu-bind=cores", "true"}, reader(in_a_task)));
  CHECK_FALSE(inherits_cpu_binding({"srun", "-n2", "true", "--cpu-bind=cores"}, reader(in_a_task)));
  CHECK(inherits_cpu_binding({"srun", "-n2", "true", "--cpu-binding=cores"}, reader(in_a_task)));
  CHECK_FALSE(inherits_cpu_binding({"srun", "-n2", "true"}, reader(by_the_user)));
  CHECK_FALSE(inherits_cpu_binding({"srun", "-n2", "true"}, reader({})));
}
