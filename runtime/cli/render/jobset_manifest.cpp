// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "render/pod.hpp"
#include "render/targets.hpp"

namespace muster::render {

namespace {

/// A pod that the cluster takes away (condition DisruptionTarget) starts the job again without counting.
std::string failure_policy(const JobDescription& job) {
  std::string text = fmt::format("  failurePolicy:\n    maxRestarts: {}\n", job.restarts);
  if (job.preemptible)
    text += R"(    rules:                  # a preempted or evicted pod does not count
      - name: disruption
        action: RestartJobSetAndIgnoreMaxRestarts
        onJobFailureReasons: [PodFailurePolicy]
)";
  return text;
}

std::string job_lines(const JobDescription& job) {
  std::string text = fmt::format(
      "completionMode: Indexed\ncompletions: {0}\nparallelism: {0}\n"
      "backoffLimit: 0   # one failed rank ends the job, and the JobSet starts all ranks again\n",
      job.tasks());
  if (job.time_minutes > 0) text += fmt::format("activeDeadlineSeconds: {}\n", job.time_minutes * 60);
  if (job.preemptible)
    text += R"(podFailurePolicy:
  rules:
    - action: FailJob
      onPodConditions: [{type: DisruptionTarget, status: "True"}]
)";
  return text;
}

std::string container(const JobDescription& job) {
  std::vector<std::pair<std::string, std::string>> own{
      {"WORLD_SIZE", std::to_string(job.tasks())},
      {"MASTER_ADDR", fmt::format("{0}-ranks-0-0.{0}", job.name)}};
  if (!key_file(job).empty()) own.emplace_back("MUSTER_KEY_FILE", key_file(job));
  return "- name: rank\n" +
         indented(2, image_line(job) +
                         "# muster exec binds the process to the GPU's cores, memory and network card.\n" +
                         "command: " + yaml_list(program_words(job)) + "\n" + arguments_line(job) +
                         "# MASTER_ADDR: the pod of rank 0, JOBSET-REPLICATEDJOB-0-0.JOBSET\n" +
                         environment_lines(job, own) + container_lines(job, 1, job.gpus_per_task));
}

}  // namespace

std::string jobset_manifest(const JobDescription& job) {
  check_for_kubernetes(job);
  if (job.tasks_per_gpu > 1)
    reject(origin_of(job, "tasks_per_gpu"),
           "pods of a JobSet do not share GPUs: set tasks_per_gpu = 1, or use --to kubernetes-mpijob");
  return manifest_head(job, "jobset", "jobset.x-k8s.io/v1alpha2", "JobSet") + "spec:\n" +
         failure_policy(job) +
         "  replicatedJobs:\n    - name: ranks\n      replicas: 1\n      template:\n        spec:\n" +
         indented(10, job_lines(job)) +
         "          template:\n            spec:\n              restartPolicy: Never\n" +
         "              containers:\n" + indented(16, container(job)) + indented(14, volume_lines(job, 1));
}

}  // namespace muster::render
