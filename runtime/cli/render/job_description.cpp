// SPDX-License-Identifier: Apache-2.0
#include "render/job_description.hpp"

#include <algorithm>
#include <string_view>

#include "text/plural.hpp"

namespace muster::render {

namespace {

// A pod's host name, NAME-ranks-0-0-RANK, has at most 63 letters.
constexpr std::size_t longest_name = 40;
constexpr std::int64_t most_tasks = 1 << 20;

const Setting* find(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? nullptr : &found->second;
}

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

void check_name(const JobDescription& job) {
  const auto good = [](char c) { return is_letter_or_digit(c) || c == '-'; };
  const auto& name = job.name;
  if (name.empty() || name.size() > longest_name || !std::all_of(name.begin(), name.end(), good) ||
      !(name.front() >= 'a' && name.front() <= 'z') || name.back() == '-')
    reject(origin_of(job, "name"),
           "name must be 1 to 40 small letters, digits and hyphens, such as \"train-gpt\"");
}

void check_folder(const JobDescription& job, const std::string& key, const std::string& folder) {
  if (folder.empty() && find(job.settings, key) == nullptr) return;
  if (!folder.starts_with('/') || folder.find_first_of(",:}") != std::string::npos)
    reject(origin_of(job, key), key + " must be a whole path without , : and }, such as \"/scratch/run\"");
}

void take_command(JobDescription& job) {
  const auto words = texts_of(job, "command");
  const auto origin = origin_of(job, "command");
  const bool is_argument = words.empty() && job.arguments_required();
  if (!is_argument && (words.empty() || words.front().empty()))
    reject(origin, "command is missing: give it as a list, such as command = [\"python3\", \"train.py\"]");
  for (const auto& word : words) {
    job.command.push_back(expand(word, job.settings, origin));
    if (shell_quote(job.command.back()) == ":")
      reject(origin, "command has a word ':', at which srun and mpirun begin another command");
  }
}

void take_variables(JobDescription& job) {
  for (const auto& [key, setting] : job.settings) {
    const auto dot = key.find('.');
    const auto table = key.substr(0, dot);
    if (table != "environment" && table != "variables" && table != "script_variables") continue;
    const auto variable = key.substr(dot + 1);
    if (!is_variable_name(variable))
      reject(setting.origin, "'" + variable + "' is not the name of a variable");
    const auto& text = std::get<std::string>(setting.value);
    if (table == "environment")
      job.environment.emplace_back(variable, expand(text, job.settings, setting.origin));
    if (table == "script_variables")
      job.script_variables.push_back(expand("${" + variable + "}", job.settings, setting.origin).front());
  }
}

/// Tasks and GPUs of a node, each from the other where one is not given.
void take_tasks(JobDescription& job) {
  const bool per_node = find(job.settings, "tasks_per_node") != nullptr;
  const bool per_gpu = find(job.settings, "tasks_per_gpu") != nullptr;
  const int gpus = count_of(job, "gpus_per_node", -1);
  if (per_node && per_gpu)
    reject(origin_of(job, "tasks_per_gpu"),
           "tasks_per_node and tasks_per_gpu exclude each other: remove one");
  job.gpus_per_task = count_of(job, "gpus_per_task", gpus == 0 ? 0 : 1);
  job.tasks_per_gpu = count_of(job, "tasks_per_gpu", 1);
  if (per_gpu && gpus < 1)
    reject(origin_of(job, "tasks_per_gpu"), "tasks_per_gpu needs gpus_per_node, or a profile that has it");
  if (job.tasks_per_gpu > 1 && find(job.settings, "gpus_per_task") != nullptr)
    reject(origin_of(job, "gpus_per_task"),
           "several tasks share a GPU by tasks_per_gpu: remove gpus_per_task");
  if (!per_node && !per_gpu && (gpus < 1 || job.gpus_per_task < 1))
    reject(job.file,
           "the number of tasks is missing: give tasks_per_node, or tasks_per_gpu and gpus_per_node");
  if (!per_node && job.gpus_per_task > 0 && gpus % job.gpus_per_task != 0)
    reject(origin_of(job, "gpus_per_task"), "gpus_per_task = " + std::to_string(job.gpus_per_task) +
                                                " does not divide gpus_per_node = " + std::to_string(gpus));
  if (per_gpu && job.gpus_per_task < 1)
    reject(origin_of(job, "tasks_per_gpu"), "tasks_per_gpu needs tasks with GPUs: remove gpus_per_task = 0");
  job.tasks_per_node =
      per_node ? count_of(job, "tasks_per_node", 1) : gpus / job.gpus_per_task * job.tasks_per_gpu;
  job.gpus_per_node = job.tasks_per_gpu > 1 ? gpus : job.tasks_per_node * job.gpus_per_task;
  if (job.tasks_per_gpu > 1) job.gpus_per_task = 0;
  if (std::int64_t{job.nodes} * job.tasks_per_node > most_tasks)
    reject(origin_of(job, "nodes"), "the job has more than a million tasks: give fewer nodes");
  if (gpus >= 0 && job.gpus_per_node > gpus)
    reject(origin_of(job, per_node ? "tasks_per_node" : "gpus_per_task"),
           plural(job.tasks_per_node, "task") + " of " + plural(job.gpus_per_task, "GPU") +
               " need more than the " + std::to_string(gpus) + " of a node (gpus_per_node)");
}

void take_cpus(JobDescription& job) {
  const int cores = count_of(job, "cores_per_node", 0);
  job.cpus_per_task = count_of(job, "cpus_per_task", cores / job.tasks_per_node);
  if (job.cpus_per_task < 1 && cores == 0)
    reject(job.file, "cpus_per_task is missing: give it, or cores_per_node, or a profile that has it");
  if (cores > 0 && (job.cpus_per_task < 1 || job.cpus_per_task > cores / job.tasks_per_node))
    reject(origin_of(job, "cpus_per_task"),
           plural(job.tasks_per_node, "task") + " of " + plural(std::max(job.cpus_per_task, 1), "core") +
               " need more than the " + std::to_string(cores) + " of a node (cores_per_node)");
}

void take_rest(JobDescription& job) {
  const auto flag = [&](const std::string& key) {
    const auto* setting = find(job.settings, key);
    return setting != nullptr && std::get<bool>(setting->value);
  };
  job.preemptible = flag("preemptible");
  job.elastic = flag("elastic");
  job.nodes = count_of(job, "nodes", 1);
  job.restarts = count_of(job, "restarts", job.restarts);
  job.time_minutes = count_of(job, "time_minutes", 0);
  job.memory_gib_per_task = count_of(job, "memory_gib_per_task", 0);
  job.description = texts_of(job, "description");
  job.command_comment = texts_of(job, "command_comment");
  job.arguments = text_of(job, "arguments", "");
  job.data = text_of(job, "data", "");
  job.output = text_of(job, "output", "");
  if (job.arguments.find('}') != std::string::npos)
    reject(origin_of(job, "arguments"), "arguments must not have a }");
  if (find(job.settings, "image") != nullptr) job.image = word_of(job, "image", "");
  if (job.image && job.image->empty())
    reject(origin_of(job, "image"), "image is empty: name one, or remove the key");
}

}  // namespace

JobDescription make_description(const Settings& settings, const std::string& file) {
  JobDescription job;
  job.settings = settings;
  job.file = file.substr(file.find_last_of('/') + 1);
  job.hash = content_hash(settings);
  job.name = text_of(job, "name", "");
  check_name(job);
  take_rest(job);
  take_command(job);
  take_variables(job);
  take_tasks(job);
  take_cpus(job);
  check_folder(job, "data", job.data);
  check_folder(job, "output", job.output);
  return job;
}

std::string origin_of(const JobDescription& job, const std::string& key) {
  const auto* setting = find(job.settings, key);
  return setting != nullptr ? setting->origin : job.file;
}

Word word_of(const JobDescription& job, const std::string& key, const std::string& otherwise) {
  const auto* setting = find(job.settings, key);
  return expand(setting != nullptr ? std::get<std::string>(setting->value) : otherwise, job.settings,
                origin_of(job, key));
}

std::string text_of(const JobDescription& job, const std::string& key, const std::string& otherwise) {
  return plain_text(word_of(job, key, otherwise), origin_of(job, key));
}

int count_of(const JobDescription& job, const std::string& key, int otherwise) {
  const auto* setting = find(job.settings, key);
  return setting != nullptr ? static_cast<int>(std::get<std::int64_t>(setting->value)) : otherwise;
}

std::vector<std::string> texts_of(const JobDescription& job, const std::string& key) {
  const auto* setting = find(job.settings, key);
  if (setting == nullptr) return {};
  return std::get<std::vector<std::string>>(setting->value);
}

}  // namespace muster::render
