// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "catch.hpp"
#include "render/render_file.hpp"
#include "render/settings.hpp"
#include "runtime/cli/muster_command.hpp"

using namespace muster::render;
using Catch::Matchers::ContainsSubstring;
using muster::cli::test::shell;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/muster-render-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    fs::permissions(path / name, fs::perms::owner_all);
    return path / name;
  }

  fs::path path;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string small_job = R"(name = "job"
command = ["./train"]
nodes = 2
tasks_per_node = 4
cpus_per_task = 8
memory_gib_per_task = 16
image = "image:1"
slurm = { container = "none" }
mpirun = { container = "none", hostfile = "hosts" }
)";

std::string render_text(const std::string& text, const std::string& target,
                        const std::vector<std::string>& assignments = {}) {
  const Folder folder;
  return render_file(folder.write("job.toml", text), target, "", assignments);
}

std::string error_of(const std::string& text, const std::string& target,
                     const std::vector<std::string>& assignments = {}) {
  const Folder folder;
  const auto file = folder.write("job.toml", text);
  try {
    render_file(file, target, "", assignments);
  } catch (const DescriptionError& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == std::string::npos);
    return line.starts_with(folder.path.string()) ? line.substr(folder.path.string().size() + 1) : line;
  }
  return "no error";
}

/// Runs a rendered script with fakes of its commands in front.
std::string run_script(const Folder& folder, const std::string& script, const std::string& words = "") {
  folder.write("script", script);
  return shell("cd '" + folder.path.string() +
               "' && PATH=$PWD:$PATH SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n0 SLURM_NTASKS=8 "
               "SLURM_JOB_NUM_NODES=2 timeout 30 bash script " +
               words)
      .output;
}

constexpr const char* print_words = "#!/bin/bash\nprintf '<%s>' \"$@\"; echo\n";

}  // namespace

TEST_CASE("The templates are what their descriptions render to") {
  int compared = 0;
  const auto compare = [&](const fs::path& description, const std::string& target, const fs::path& output) {
    INFO("muster render " << description.string() << " --to " << target << " > " << output.string());
    CHECK(render_file(description, target, "", {}) == read_file(output));
    ++compared;
  };
  const fs::path sbatch = MUSTER_SOURCE "/sbatch", kubernetes = MUSTER_SOURCE "/etc/kubernetes";
  for (const auto& entry : fs::directory_iterator(sbatch / "descriptions"))
    compare(entry.path(), "slurm", sbatch / (entry.path().stem().string() + ".sbatch"));
  compare(kubernetes / "descriptions/jobset.toml", "jobset", kubernetes / "jobset.yaml");
  compare(kubernetes / "descriptions/mpijob.toml", "kubernetes-mpijob", kubernetes / "mpijob.yaml");
  CHECK(compared >= 16);
}

TEST_CASE("A command's words reach the program as they are written") {
  const Folder folder;
  folder.write("srun", print_words);
  folder.write("mpirun", print_words);
  const std::string odd = R"x(name = "job"
command = ["./my train", "", "a'b\"c", "$HOME `id` \\ $${X} $(Y)", "*", "{a,b}", "~", "#x", "!1", "a=b;c&d|e"]
tasks_per_node = 2
cpus_per_task = 1
[environment]
TITLE = "a $b 'c' \"d\""
[slurm]
mpi = "none"
)x";
  const std::string expected =
      R"x(<./my train><><a'b"c><$HOME `id` \ ${X} $(Y)><*><{a,b}><~><#x><!1><a=b;c&d|e>)x";
  CHECK_THAT(run_script(folder, render_text(odd, "slurm")), ContainsSubstring(expected));
  const auto by_mpirun = render_text(odd, "mpirun");
  CHECK_THAT(run_script(folder, by_mpirun),
             ContainsSubstring("<-x><TITLE><muster><exec><--cpus-per-task><1><-->" + expected));
  folder.write("mpirun", "#!/bin/bash\nprintf '%s' \"$TITLE\"\n");
  CHECK(run_script(folder, by_mpirun) == R"x(a $b 'c' "d")x");
  // Kubernetes reads $$ as $, and JSON's quotation as YAML does.
  const auto manifest = render_text(odd, "jobset", {"image=i", "memory_gib_per_task=1"});
  CHECK_THAT(
      manifest,
      ContainsSubstring(R"x(command: [muster, exec, --, "./my train"])x") &&
          ContainsSubstring(
              R"x(args: ["", "a'b\"c", "$$HOME `id` \\ $${X} $$(Y)", "*", "{a,b}", "~", "#x", "!1", "a=b;c&d|e"])x") &&
          ContainsSubstring(R"x({name: TITLE, value: "a $$b 'c' \"d\""})x"));
}

TEST_CASE("Manifests quote what YAML would read as something else") {
  const auto manifest =
      render_text(small_job, "jobset",
                  {R"(command=["yes", "on", "12", "1e3", "-1", "a: b", "x:", "--", "-x=1", "Null"])"});
  CHECK_THAT(manifest, ContainsSubstring(R"([muster, exec, --, "yes"])") &&
                           ContainsSubstring(R"(["on", "12", "1e3", "-1", "a: b", "x:", --, -x=1, "Null"])"));
}

TEST_CASE("Variables of a description have a value when it is rendered") {
  const std::string text = small_job + "[variables]\nrun = \"${name}-${step}\"\nstep = \"1\"\n";
  CHECK_THAT(render_text(text, "slurm", {R"(command=["./train", "${run}", "${nodes}"])"}),
             ContainsSubstring("./train job-1 2\n"));
  CHECK_THAT(render_text(text, "slurm", {R"(command=["${run}"])", "variables.step=a b"}),
             ContainsSubstring("\"job-a b\""));
  CHECK_THAT(error_of(text, "slurm", {R"(command=["${other}"])"}),
             ContainsSubstring("${other} has no value: set it below [variables]"));
  CHECK_THAT(error_of(text, "slurm", {"variables.step=${run}", R"(command=["${run}"])"}),
             ContainsSubstring("refers to itself"));
  std::string growing = small_job + "[variables]\na = \"x\"\n";
  for (const char* names : {"ba", "cb", "dc", "ed"}) {
    growing += std::string(1, names[0]) + " = \"";
    for (int i = 0; i < 10; ++i) growing += "${" + std::string(1, names[1]) + "}";
    growing += "\"\n";
  }
  CHECK_THAT(error_of(growing, "slurm", {R"(command=["${e}"])"}), ContainsSubstring("more than 1000 times"));
  const auto unset =
      "name = \"job\"\ntasks_per_node = 1\ncpus_per_task = 1\ncommand = [\"x\",\n \"${RUN}\"]\n";
  CHECK(error_of(unset, "slurm") ==
        "job.toml, line 4: ${RUN} has no value: set it below [variables] or with --set variables.RUN=VALUE; "
        "write $${ for ${");
}

TEST_CASE("Variables of a script are read when it starts") {
  const Folder folder;
  folder.write("srun", print_words);
  const auto script = render_text(small_job + "[script_variables]\nTRAIN = \"./a b\"\nDATA = \"\"\n", "slurm",
                                  {R"(command=["${TRAIN}", "--data=${DATA}/$x"])", "slurm.mpi=none"});
  CHECK_THAT(run_script(folder, "DATA=/d\n" + script), ContainsSubstring("<./a b><--data=/d/$x>"));
  CHECK_THAT(run_script(folder, "DATA=/d TRAIN=t\n" + script), ContainsSubstring("<t><--data=/d/$x>"));
  CHECK_THAT(run_script(folder, script),
             ContainsSubstring("DATA: is not set: start it as DATA=... sbatch job.sbatch"));
  CHECK_THAT(
      error_of(small_job + "[script_variables]\nDATA = \"\"\n", "jobset", {R"(command=["x", "${DATA}"])"}),
      ContainsSubstring("--set script_variables.DATA=VALUE"));
}

TEST_CASE("Times are written as hours, minutes and seconds, or in seconds") {
  CHECK_THAT(render_text(small_job, "slurm", {"time_minutes=30"}),
             ContainsSubstring("#SBATCH --time=00:30:00\n"));
  CHECK_THAT(render_text(small_job, "slurm", {"time_minutes=6005"}),
             ContainsSubstring("#SBATCH --time=100:05:00\n"));
  CHECK_THAT(render_text(small_job, "jobset", {"time_minutes=30"}),
             ContainsSubstring("activeDeadlineSeconds: 1800\n"));
  CHECK_THAT(render_text(small_job, "mpirun", {"time_minutes=30"}), ContainsSubstring("--timeout 1800 "));
}

TEST_CASE("An elastic job has --no-kill for sbatch and for srun") {
  const auto script = render_text(small_job, "slurm", {"elastic=true"});
  CHECK_THAT(script, ContainsSubstring("#SBATCH --no-kill\n") &&
                         ContainsSubstring("--no-kill --kill-on-bad-exit=0 --wait=0"));
  CHECK_THAT(render_text(small_job, "slurm"), !ContainsSubstring("--no-kill"));
}

TEST_CASE("A preemptible job saves at Slurm's signal, and goes back into the queue") {
  const Folder folder;
  folder.write(
      "srun",
      "#!/bin/bash\ntrap 'echo saved; exit 0' TERM\necho $$ >pid\nwhile :; do /bin/sleep 0.02; done\n");
  folder.write("scancel", "#!/bin/bash\necho \"scancel $*\"\nkill -TERM \"$(<pid)\"\n");
  folder.write("squeue", "#!/bin/bash\necho RUNNING\n");
  folder.write("scontrol", "#!/bin/bash\necho \"scontrol $*\"\n");
  folder.write("sleep", "#!/bin/bash\n");
  auto script = render_text(small_job, "slurm", {"preemptible=true", "slurm.mpi=none", "restarts=2"});
  CHECK_THAT(script,
             ContainsSubstring("#SBATCH --requeue\n") && ContainsSubstring("#SBATCH --signal=B:USR1@180\n"));
  folder.write("job", script);
  const auto output =
      run_script(folder, "bash job & until [ -s pid ]; do /bin/sleep 0.02; done; kill -USR1 $!; wait $!\n");
  CHECK_THAT(output, ContainsSubstring("scancel --quiet --signal=TERM 7\nsaved\n") &&
                         ContainsSubstring("scontrol requeue 7\n"));

  folder.write("srun", "#!/bin/bash\nexit 75\n");
  CHECK_THAT(run_script(folder, "export SLURM_RESTART_COUNT=1\n" + script),
             ContainsSubstring("scontrol requeue 7\n"));
  CHECK_THAT(run_script(folder, "export SLURM_RESTART_COUNT=2\n" + script + "\n"),
             !ContainsSubstring("requeue 7"));
  folder.write("srun", "#!/bin/bash\nexit 3\n");
  CHECK_THAT(run_script(folder, "bash -c 'bash job; echo code $?'"), ContainsSubstring("code 3\n"));
  const auto manifest = render_text(small_job, "jobset", {"preemptible=true"});
  CHECK_THAT(manifest,
             ContainsSubstring("RestartJobSetAndIgnoreMaxRestarts") && ContainsSubstring("DisruptionTarget"));
}

TEST_CASE("A profile supplies GPUs, cores and options, and the description replaces them") {
  const Folder folder;
  const auto job = folder.write("job.toml", "name = \"job\"\ncommand = [\"x\"]\ntasks_per_gpu = 1\n");
  CHECK_THAT(render_file(job, "slurm", "jean-zay-v100", {}),
             ContainsSubstring("--ntasks-per-node=4\n") && ContainsSubstring("--cpus-per-task=10\n"));
  CHECK_THAT(render_file(job, "slurm", "jean-zay-a100", {}),
             ContainsSubstring("--ntasks-per-node=8\n") && ContainsSubstring("--cpus-per-task=8\n") &&
                 ContainsSubstring("--constraint=a100\n") &&
                 ContainsSubstring("with the profile jean-zay-a100"));
  const auto own =
      folder.write("own.toml", "gpus_per_node = 2\ncores_per_node = 16\nslurm = { partition = \"gpu\" }\n");
  const auto script = render_file(job, "slurm", own, {"tasks_per_gpu=2", "slurm.partition=big"});
  CHECK_THAT(script, ContainsSubstring("--ntasks-per-node=4\n") && ContainsSubstring("--gpus-per-node=2\n") &&
                         ContainsSubstring("--cpus-per-task=4\n") && ContainsSubstring("--partition=big\n"));
  CHECK_THROWS_WITH(render_file(job, "slurm", "nowhere", {}),
                    ContainsSubstring("no profile is called \"nowhere\": there are jean-zay-a100, "));
}

TEST_CASE("The hash changes with every value, and not with comments") {
  const auto hash = [](const std::string& text) { return content_hash(parse_settings(text, "f")); };
  CHECK(hash("name = \"a\"\nnodes = 2") == hash("# why\nnodes = 2\nname = 'a'"));
  CHECK(hash("nodes = 2") != hash("nodes = 3"));
  CHECK(hash("command = [\"a b\"]") != hash("command = [\"a\", \"b\"]"));
  CHECK(hash("name = \"2\"") != hash("name = \"3\""));
  CHECK(hash("elastic = true") != hash("elastic = false"));
}

TEST_CASE("A wrong description is one line with its place and what to do") {
  const auto [text, target, line] = GENERATE(table<std::string, std::string, std::string>({
      {"nodes = \"2\"", "slurm", "job.toml, line 1: nodes must be a whole number from 1 to 65536"},
      {"nodes = 0", "slurm", "job.toml, line 1: nodes must be a whole number"},
      {"\nnode = 2", "slurm", "job.toml, line 2: there is no key 'node': known are name, "},
      {"slurm = 3", "slurm", "job.toml, line 1: slurm must be a table"},
      {"[slum]\na = 1", "slurm", "there is no table 'slum': known are "},
      {"slurm = { partitions = 'a' }", "slurm",
       "job.toml, line 1: there is no key 'slurm.partitions': known are launcher, mpi, "},
      {"command = \"./train\"", "slurm", "job.toml, line 1: command must be a list of texts"},
      {"command = [\"a\", 1]", "slurm", "job.toml, line 1: command must be a list of texts"},
      {"command = [\"a\\nb\"]", "slurm", "job.toml, line 1: command has a line break"},
      {"command = [\"a\", \":\"]", "slurm", "a word ':'"},
      {"command = []", "slurm", "command is missing"},
      {"name = \"Job 1\"", "slurm", "name must be 1 to 40 small letters"},
      {"elastic = 1", "slurm", "elastic must be true or false"},
      {"environment = { \"a-b\" = \"1\" }", "slurm", "'a-b' is not the name of a variable"},
      {"tasks_per_gpu = 1", "slurm", "exclude each other"},
      {"gpus_per_node = 2", "slurm", "4 tasks of 1 GPU need more than the 2 of a node"},
      {"cores_per_node = 16", "slurm", "4 tasks of 8 cores need more than the 16 of a node"},
      {"data = \"relative\"", "slurm", "data must be a whole path"},
      {"slurm = { container = \"docker\" }", "slurm", "slurm.container must be pyxis, apptainer or none"},
      {"slurm = { container = \"none\", options = [\"--comment=a b\"] }", "slurm", "must not have spaces"},
      {"slurm = {}", "slurm", "image needs to know how Slurm starts it"},
      {"slurm = { launcher = \"mpirun\", container = \"none\" }\nelastic = true", "slurm",
       "need slurm.launcher = \"srun\""},
      {"mpirun = { container = \"none\" }", "mpirun", "mpirun must know the 2 nodes: set mpirun.hostfile"},
      {"elastic = true", "jobset", "remove elastic"},
      {"preemptible = true", "kubernetes-mpijob", "use --to jobset"},
      {"preemptible = true", "mpirun", "no queue to go back to"},
      {"data = \"/data\"", "jobset", "set kubernetes.data_claim"},
      {"arguments = \"train.py\"", "jobset", "no arguments from outside"},
      {"environment = { WORLD_SIZE = \"3\" }", "jobset", "WORLD_SIZE is set by the manifest"},
      {"nodes = ", "slurm", "job.toml, line 1: "},
  }));
  INFO(text << " --to " << target);
  // The wrong line comes first, in place of the good one.
  std::string rest;
  std::istringstream lines(small_job);
  for (std::string good; std::getline(lines, good);)
    if (("\n" + text).find("\n" + good.substr(0, good.find(" =") + 2)) == std::string::npos)
      rest += good + "\n";
  const bool in_table = text.find('[') == 0;
  CHECK_THAT(error_of(in_table ? rest + text : text + "\n" + rest, target), ContainsSubstring(line));
}

TEST_CASE("--set names itself in an error") {
  CHECK(error_of(small_job, "slurm", {"nodes=many"}) ==
        "--set nodes=many: nodes must be a whole number from 1 to 65536");
  CHECK(error_of(small_job, "slurm", {"nodes"}).starts_with("--set nodes: write it as key=value"));
  CHECK(error_of(small_job, "slurm", {"nodes=2\nname=\"x\""}).starts_with("--set nodes=2"));
  CHECK_THAT(error_of(small_job, "slurm", {"nodess=2"}),
             ContainsSubstring("--set nodess=2: there is no key 'nodess'"));
  CHECK_THAT(render_text(small_job, "slurm", {"name=other", "nodes=3"}),
             ContainsSubstring("--job-name=other\n") && ContainsSubstring("--nodes=3\n"));
}
