// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "render/pod.hpp"
#include "render/targets.hpp"

namespace muster::render {

namespace {

std::string launcher(const JobDescription& job) {
  std::vector<std::pair<std::string, std::string>> own{
      {"PRTE_MCA_prte_default_hostfile", "/etc/mpi/hostfile"},
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  std::vector<std::string> command{"mpirun", "--bind-to", "none"};
  const auto pass_on = [&command](const std::string& name) { command.insert(command.end(), {"-x", name}); };
  if (!key_file(job).empty()) {
    own.emplace_back("MUSTER_KEY_FILE", key_file(job));
    pass_on("MUSTER_KEY_FILE");
  }
  for (const auto& [name, value] : job.environment) pass_on(name);
  for (const auto& word : program_words(job)) command.push_back(word);
  return "- name: mpirun\n" +
         indented(2, image_line(job) + "# --bind-to none: muster exec binds each rank beside its own GPU.\n" +
                         "command: " + yaml_list(command) + "\n" + arguments_line(job) +
                         "# The operator names its hostfile for Open MPI 4. Open MPI 5 needs PRTE_MCA_...: "
                         "without it all ranks\n"
                         "# run in the launcher, which Muster refuses.\n" +
                         environment_lines(job, own) + "resources:\n  limits: {cpu: \"1\", memory: 1Gi}\n");
}

std::string worker(const JobDescription& job) {
  return "- name: ranks\n" + indented(2, image_line(job) + "command: [/usr/sbin/sshd, -De]\n" +
                                             container_lines(job, job.tasks_per_node, job.gpus_per_node));
}

std::string replicas(const std::string& kind, int count, const std::string& container) {
  return "    " + kind + ":\n      replicas: " + std::to_string(count) +
         "\n      template:\n        spec:\n          containers:\n" + indented(12, container);
}

}  // namespace

std::string mpijob_manifest(const JobDescription& job) {
  check_for_kubernetes(job);
  if (job.preemptible)
    reject(origin_of(job, "preemptible"),
           "an MPIJob counts a preempted pod as a failure: remove preemptible and set restarts, or use --to "
           "jobset");
  std::string policy = fmt::format("cleanPodPolicy: Running\nbackoffLimit: {}\n", job.restarts);
  if (job.time_minutes > 0) policy += fmt::format("activeDeadlineSeconds: {}\n", job.time_minutes * 60);
  return manifest_head(job, "kubernetes-mpijob", "kubeflow.org/v2beta1", "MPIJob") + "spec:\n" +
         fmt::format("  slotsPerWorker: {}\n", job.tasks_per_node) +
         "  launcherCreationPolicy: WaitForWorkersReady   # mpirun needs all workers\n  runPolicy:\n" +
         indented(4, policy) + "  mpiReplicaSpecs:\n" + replicas("Launcher", 1, launcher(job)) +
         replicas("Worker", job.nodes, worker(job)) + indented(10, volume_lines(job, job.tasks_per_node));
}

}  // namespace muster::render
