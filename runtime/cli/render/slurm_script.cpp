// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "render/script.hpp"
#include "render/targets.hpp"

namespace muster::render {

namespace {

constexpr const char* find_mpi =
    R"sh(# In a Slurm without PMIx, such as Debian testing's, the ranks meet through MUNGE and compute over Muster's own connections.
[[ $(srun --mpi=list 2>&1) == *pmix* ]] && mpi=pmix || mpi=none
)sh";
constexpr const char* announce =
    R"sh(
echo "job $SLURM_JOB_ID on $SLURM_JOB_NODELIST, $SLURM_NTASKS tasks, start number $((${SLURM_RESTART_COUNT:-0} + 1))"

)sh";
constexpr const char* cpus_comment =
    "# --cpus-per-task is passed on by hand: srun of Slurm 22.05 to 23.02 does not take it from the job.\n";

std::string start(const JobDescription& job) {
  return "sbatch " + job.file.substr(0, job.file.rfind(".toml")) + ".sbatch";
}

enum class Container { none, pyxis, apptainer };

Container container_of(const JobDescription& job) {
  const auto name = text_of(job, "slurm.container", "");
  const auto origin = origin_of(job, name.empty() ? "image" : "slurm.container");
  if (!name.empty() && name != "none" && name != "pyxis" && name != "apptainer")
    reject(origin, "slurm.container must be pyxis, apptainer or none");
  if (job.image && name.empty())
    reject(origin,
           "image needs to know how Slurm starts it: set slurm.container to pyxis, apptainer or none");
  if (name.empty() || name == "none") return Container::none;
  if (!job.image) reject(origin, "slurm.container needs an image: set image");
  return name == "pyxis" ? Container::pyxis : Container::apptainer;
}

bool starts_by_mpirun(const JobDescription& job) {
  const auto launcher = text_of(job, "slurm.launcher", "srun");
  const auto origin = origin_of(job, "slurm.launcher");
  if (launcher != "srun" && launcher != "mpirun") reject(origin, "slurm.launcher must be srun or mpirun");
  if (launcher == "mpirun" && (job.preemptible || job.elastic))
    reject(origin,
           "mpirun ends all ranks with the first: preemptible and elastic need slurm.launcher = \"srun\"");
  if (launcher == "mpirun" && container_of(job) != Container::none)
    reject(origin, "a container needs slurm.launcher = \"srun\", or slurm.container = \"none\"");
  return launcher == "mpirun";
}

/// sbatch splits these lines at spaces, and reads quotation marks and # in its own way.
std::string directive(const JobDescription& job, const std::string& key, const std::string& option) {
  if (option.find_first_of(" \t\"'\\#") != std::string::npos)
    reject(origin_of(job, key),
           "an option of sbatch must not have spaces, quotation marks, \\ or #: '" + option + "'");
  return "#SBATCH " + option + "\n";
}

std::string wall_clock(int minutes) { return fmt::format("{:02}:{:02}:00", minutes / 60, minutes % 60); }

std::string resources(const JobDescription& job) {
  std::string text =
      fmt::format("#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n", job.nodes, job.tasks_per_node);
  const bool per_node = job.gpus_per_task == 0 || starts_by_mpirun(job);
  if (job.gpus_per_node > 0)
    text += per_node ? fmt::format("#SBATCH --gpus-per-node={}\n", job.gpus_per_node)
                     : fmt::format("#SBATCH --gpus-per-task={}\n", job.gpus_per_task);
  text += fmt::format("#SBATCH --cpus-per-task={}\n", job.cpus_per_task);
  if (job.memory_gib_per_task > 0)
    text += fmt::format("#SBATCH --mem={}G\n", std::int64_t{job.memory_gib_per_task} * job.tasks_per_node);
  return text;
}

/// Options whose values stand in [slurm].
std::string own_options(const JobDescription& job) {
  std::string text;
  for (const char* option : {"hint", "partition", "account", "qos", "constraint"}) {
    const auto key = std::string("slurm.") + option;
    const auto value = text_of(job, key, option == std::string("hint") ? "nomultithread" : "");
    if (!value.empty()) text += directive(job, key, std::string("--") + option + "=" + value);
  }
  for (const auto& option : texts_of(job, "slurm.options")) text += directive(job, "slurm.options", option);
  const auto words = text_of(job, "slurm.muster", "");
  if (!starts_by_mpirun(job))
    text += directive(job, "slurm.muster", "--muster" + (words.empty() ? "" : "=" + words));
  return text;
}

std::string directives(const JobDescription& job) {
  std::string text = "#SBATCH --job-name=" + job.name + "\n" + resources(job) + own_options(job);
  if (job.time_minutes > 0) text += "#SBATCH --time=" + wall_clock(job.time_minutes) + "\n";
  if (job.elastic) text += "#SBATCH --no-kill\n";
  if (job.preemptible)
    text += fmt::format("#SBATCH --requeue\n#SBATCH --signal=B:USR1@{}\n",
                        count_of(job, "slurm.signal_seconds", 180));
  text += "#SBATCH --open-mode=append\n";
  return text + directive(job, "slurm.log", "--output=" + text_of(job, "slurm.log", "%x-%j.out"));
}

std::string other_layouts(const Layouts& layouts) {
  if (layouts.empty()) return "";
  std::string text =
      "#\n# Other layouts, to take in place of the same options above (\"##SBATCH\" is a comment):\n";
  for (const auto& [description, job] : layouts) {
    text += "# " + description + "\n##SBATCH --ntasks-per-node=" + std::to_string(job.tasks_per_node) +
            " --cpus-per-task=" + std::to_string(job.cpus_per_task);
    for (const char* option : {"partition", "constraint"})
      if (const auto value = text_of(job, std::string("slurm.") + option, ""); !value.empty())
        text += std::string(" --") + option + "=" + value;
    for (const auto& option : texts_of(job, "slurm.options")) text += " " + option;
    text += "\n";
  }
  return text;
}

std::string mpirun_run(const JobDescription& job) {
  std::string exports;
  for (const auto& [name, value] : job.environment) exports += "-x " + name + " ";
  return R"sh(per_node=$((SLURM_NTASKS / SLURM_JOB_NUM_NODES))
cpus=${SLURM_CPUS_PER_TASK:-1}
)sh" + comment(job.command_comment) +
         R"sh(# ppr: the number of ranks on a node; PE: the cores of each.
exec mpirun -n "$SLURM_NTASKS" --map-by "ppr:$per_node:node:PE=$cpus" --bind-to core \
  )sh" + exports +
         command_words(job) + "\n";
}

/// --mpi's value, as a word of the shell.
std::string mpi_word(const JobDescription& job) {
  const auto mpi = word_of(job, "slurm.mpi", "auto");
  return mpi.size() == 1 && mpi.front().text == "auto" && !mpi.front().is_variable ? "\"$mpi\""
                                                                                   : shell_quote(mpi);
}

/// Whether --mpi may be pmix when the script runs.
bool may_use_pmix(const std::string& mpi) { return mpi == "pmix" || mpi.find('$') != std::string::npos; }

/// The variables of the start that a container's folders depend on, with their defaults.
std::vector<std::string> container_variables(const JobDescription& job) {
  const auto container = container_of(job);
  if (container == Container::pyxis)
    return {job.data.empty() && job.output.empty() ? "MOUNTS ($PWD)" : "MOUNTS ($PWD, data and output)"};
  if (container == Container::apptainer && may_use_pmix(mpi_word(job))) return {"SLURM_SPOOL (/var/spool)"};
  return {};
}

/// The folders that an Apptainer image sees, in the array `binds`.
std::string apptainer_binds(const JobDescription& job) {
  constexpr const char* for_pmix = R"sh(--bind "${SLURM_SPOOL:-/var/spool},/tmp")sh";
  const auto mpi = mpi_word(job);
  std::string folders = "--bind \"$PWD\"";
  for (const auto& folder : {job.data, job.output})
    if (!folder.empty()) folders += " --bind " + shell_quote(folder);
  if (mpi == "pmix") folders += std::string(" ") + for_pmix;
  std::string text = "# --nv: the driver's libraries and the devices.";
  if (may_use_pmix(mpi))
    text +=
        " With PMIx the one in the image must be able to read the host's files, which are bound\n"
        "# (apptainer/singularity#5195, #5203): Slurm keeps them below its spool folder and /tmp.";
  text += "\nbinds=(" + folders + ")\n";
  if (mpi.find('$') != std::string::npos)
    text += "if [ " + mpi + " = pmix ]; then binds+=(" + for_pmix + "); fi\n";
  return text;
}

/// Mounts the folder of munged's socket where the host has it.
std::string munge_mount(Container container) {
  if (container == Container::none) return "";
  const std::string reason =
      "# By munged's socket the ranks of libmuster authenticate one another without PMIx.\n";
  return reason + (container == Container::apptainer ? "[ ! -d /run/munge ] || binds+=(--bind /run/munge)\n"
                                                     : "munge=\n[ ! -d /run/munge ] || munge=,/run/munge\n");
}

std::string command_in_container(const JobDescription& job, Container container) {
  if (container == Container::apptainer) return apptainer_words(job, "\"${binds[@]}\"") + command_words(job);
  if (container == Container::none) return command_words(job);
  std::string mounts = "$PWD";
  for (const auto& folder : {job.data, job.output})
    if (!folder.empty()) mounts += "," + shell_inner(Word{{folder, false, ""}});
  return "--container-image=" + shell_quote(*job.image) + " --container-mounts=\"${MOUNTS:-" + mounts +
         "}$munge\" --container-workdir=\"$PWD\" \\\n  " + command_words(job);
}

std::string srun_command(const JobDescription& job, Container container) {
  const char* on_failure =
      job.elastic ? "--no-kill --kill-on-bad-exit=0 --wait=0" : "--kill-on-bad-exit=1 --wait=60";
  return "srun --mpi=" + mpi_word(job) + " --cpus-per-task=\"${SLURM_CPUS_PER_TASK:-1}\" " + on_failure +
         " \\\n  " + command_in_container(job, container);
}

std::string run_comments(const JobDescription& job, Container container) {
  std::string text = comment(job.command_comment);
  if (container == Container::pyxis)
    text +=
        "# Most containers have no scontrol (NVIDIA/pyxis#129): commands that need it belong into this "
        "script.\n";
  text += cpus_comment;
  text += job.elastic ? "# sbatch does not pass --no-kill on to srun. With --kill-on-bad-exit=0 and --wait=0 "
                        "the end of some "
                        "tasks does not end the others.\n"
                      : "# --kill-on-bad-exit and --wait: when one rank fails, the others end too.\n";
  return text;
}

/// Runs srun beside the script, which gets Slurm's signal and requeues the job.
std::string preemptible_run(const JobDescription& job, const std::string& command) {
  return R"sh(again=false signals=0
trap 'again=true; signals=$((signals + 1)); scancel --quiet --signal=TERM "$SLURM_JOB_ID"' USR1
trap 'signals=$((signals + 1))' TERM  # of a preemption: Slurm signals the ranks and requeues the job itself
)sh" + command +
         R"sh( &
while :; do  # a signal interrupts `wait`
  before=$signals code=0
  wait "$!" || code=$?
  ((signals != before)) || break
done
if $again || ((code == 75 && ${SLURM_RESTART_COUNT:-0} < )sh" +
         std::to_string(job.restarts) + R"sh()); then
  # scontrol would requeue even a job that was cancelled, so only a running one is requeued.
  if [[ $(squeue --noheader --format=%T --job="$SLURM_JOB_ID") == RUNNING ]]; then
    echo "job $SLURM_JOB_ID goes back into the queue"
    scontrol requeue "$SLURM_JOB_ID"
    sleep 60  # Slurm ends this script
  fi
fi
exit "$code"
)sh";
}

std::string srun_run(const JobDescription& job) {
  const auto container = container_of(job);
  const auto command = srun_command(job, container);
  const auto text = (container == Container::apptainer ? apptainer_binds(job) : "") + munge_mount(container) +
                    run_comments(job, container);
  if (!job.preemptible) return text + "exec " + command + "\n";
  return text +
         fmt::format(
             "# {} seconds before the time limit Slurm signals this script (B:), which signals the ranks. "
             "They save and end,\n"
             "# and the job goes back into the queue. So it does after exit code 75 (a rank was lost), "
             "{} times at the most.\n",
             count_of(job, "slurm.signal_seconds", 180), job.restarts) +
         preemptible_run(job, command);
}

}  // namespace

std::string slurm_script(const JobDescription& job, const Layouts& layouts) {
  const bool by_mpirun = starts_by_mpirun(job);
  return script_head(job, "slurm", start(job), container_variables(job)) + directives(job) +
         other_layouts(layouts) + "set -euo pipefail\n" + script_checks(job, start(job)) +
         (mpi_word(job) == "\"$mpi\"" && !by_mpirun ? find_mpi : "") + script_environment(job) + announce +
         (by_mpirun ? mpirun_run(job) : srun_run(job));
}

}  // namespace muster::render
