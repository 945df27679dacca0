// SPDX-License-Identifier: Apache-2.0
#include "render/script.hpp"

#include <fmt/format.h>

namespace muster::render {

namespace {

/// "IMAGE=... sbatch job.sbatch [arguments]"
std::string start_line(const JobDescription& job, const std::string& start) {
  std::string line;
  for (const auto& variable : job.script_variables)
    if (variable.fallback.empty()) line += variable.text + "=... ";
  return line + start + (job.arguments.empty() ? "" : " " + job.arguments);
}

}  // namespace

std::string comment(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line.empty() ? "#\n" : "# " + line + "\n";
  return text;
}

std::string rendered_by(const JobDescription& job, const std::string& target) {
  const auto profile = job.profile.empty() ? "" : " with the profile " + job.profile;
  return fmt::format("Rendered by muster render --to {} from {}{}, description {}.", target, job.file,
                     profile, job.hash);
}

std::string script_head(const JobDescription& job, const std::string& target, const std::string& start,
                        const std::vector<std::string>& more_variables) {
  std::string text =
      "#!/bin/bash\n" + comment(job.description) + "# Start:  " + start_line(job, start) + "\n";
  std::string defaults;
  const auto add = [&](const std::string& variable) {
    defaults += (defaults.empty() ? "" : ", ") + variable;
  };
  for (const auto& variable : job.script_variables)
    if (!variable.fallback.empty()) add(variable.text + " (" + variable.fallback + ")");
  for (const auto& variable : more_variables) add(variable);
  if (!defaults.empty()) text += "# Variables that it reads, and their defaults:  " + defaults + "\n";
  return text + "# " + rendered_by(job, target) + "\n";
}

std::string script_checks(const JobDescription& job, const std::string& start) {
  std::string text;
  for (const auto& variable : job.script_variables)
    if (variable.fallback.empty())
      text += fmt::format(": \"${{{0}:?is not set: start it as {1}}}\"\n", variable.text,
                          shell_inner(Word{{start_line(job, start), false, ""}}));
  const auto usage = shell_quote("arguments are missing: " + start_line(job, start));
  if (job.arguments_required()) text += "[ $# -gt 0 ] || { echo " + usage + " >&2; exit 64; }\n";
  if (job.arguments.empty()) {
    const auto none = shell_quote("it takes no arguments: " + start_line(job, start));
    text += "[ $# -eq 0 ] || { echo " + none + " >&2; exit 64; }\n";
  }
  if (!job.data.empty())
    text += fmt::format("[ -e {} ] || {{ echo \"$HOSTNAME has no {}, where the data are\" >&2; exit 66; }}\n",
                        shell_quote(job.data), shell_inner(Word{{job.data, false, ""}}));
  return text;
}

std::string script_environment(const JobDescription& job) {
  std::string text;
  for (const auto& [name, value] : job.environment)
    text += "export " + name + "=" + shell_quote(value) + "\n";
  return text;
}

std::string command_words(const JobDescription& job) {
  std::string text;
  for (const auto& word : job.command) text += (text.empty() ? "" : " ") + shell_quote(word);
  return job.arguments.empty() ? text : text + (text.empty() ? "" : " ") + "\"$@\"";
}

std::string apptainer_words(const JobDescription& job, const std::string& binds) {
  return "apptainer exec --nv " + binds + " --pwd \"$PWD\" " + shell_quote(*job.image) + " ";
}

}  // namespace muster::render
