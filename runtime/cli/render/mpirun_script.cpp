// SPDX-License-Identifier: Apache-2.0
#include "render/script.hpp"
#include "render/targets.hpp"

namespace muster::render {

namespace {

std::string start(const JobDescription& job) {
  return "./" + job.file.substr(0, job.file.rfind(".toml")) + ".sh";
}

void check(const JobDescription& job) {
  if (job.preemptible)
    reject(origin_of(job, "preemptible"),
           "mpirun has no queue to go back to: remove preemptible, or --set preemptible=false");
  if (job.elastic)
    reject(origin_of(job, "elastic"),
           "mpirun ends all ranks with the first: remove elastic, or --set elastic=false");
  if (job.nodes > 1 && text_of(job, "mpirun.hostfile", "").empty())
    reject(origin_of(job, "nodes"), "mpirun must know the " + std::to_string(job.nodes) +
                                        " nodes: set mpirun.hostfile to a file with one host a line");
}

/// Empty where the command runs outside of a container.
std::string container_words(const JobDescription& job) {
  const auto container = text_of(job, "mpirun.container", "");
  const auto origin = origin_of(job, container.empty() ? "image" : "mpirun.container");
  if (!container.empty() && container != "none" && container != "apptainer")
    reject(origin, "mpirun.container must be apptainer or none");
  if (job.image && container.empty())
    reject(origin, "image needs to know how it is started: set mpirun.container to apptainer or none");
  if (container.empty() || container == "none") return "";
  if (!job.image) reject(origin, "mpirun.container needs an image: set image");
  std::string binds = "--bind \"$PWD\"";
  for (const auto& folder : {job.data, job.output})
    if (!folder.empty()) binds += " --bind " + shell_quote(folder);
  return apptainer_words(job, binds);
}

}  // namespace

std::string mpirun_script(const JobDescription& job) {
  check(job);
  const auto hostfile = text_of(job, "mpirun.hostfile", "");
  std::string options = "-n " + std::to_string(job.tasks());
  if (!hostfile.empty()) options += " --hostfile " + shell_quote(hostfile);
  options += " --map-by ppr:" + std::to_string(job.tasks_per_node) + ":node --bind-to none";
  if (job.time_minutes > 0) options += " --timeout " + std::to_string(job.time_minutes * 60);
  for (const auto& option : texts_of(job, "mpirun.options")) options += " " + shell_quote(option);
  for (const auto& [name, value] : job.environment) options += " -x " + name;
  std::string comments =
      "# ppr: the ranks of a node. --bind-to none: muster exec binds each rank, beside its GPU if it has "
      "one.\n";
  if (job.time_minutes > 0) comments += "# --timeout: seconds, after which mpirun ends the ranks.\n";
  return script_head(job, "mpirun", start(job)) + "set -euo pipefail\n" + script_checks(job, start(job)) +
         script_environment(job) + "\n" + comment(job.command_comment) + comments + "exec mpirun " + options +
         " \\\n  muster exec --cpus-per-task " + std::to_string(job.cpus_per_task) + " -- " +
         container_words(job) + command_words(job) + "\n";
}

}  // namespace muster::render
