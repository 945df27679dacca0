// SPDX-License-Identifier: Apache-2.0
#include "slurm/srun_command.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "inherited_option.hpp"
#include "slurm/gpu_request.hpp"
#include "text/parse_number.hpp"

namespace muster::spank {

namespace {

// srun's options up to the first word that may be the program. After a long option without `=` the next word
// may be its argument or the program, so the search ends there.
std::vector<std::string_view> srun_options(const std::vector<std::string>& command_line) {
  // The short options that take an argument, from srun's manual (22.05).
  constexpr std::string_view with_argument = "ABCDFGJLMNSTWbcdeimnopqrtwx";
  std::vector<std::string_view> options;
  for (std::size_t i = 1; i < command_line.size(); ++i) {
    const std::string_view word = command_line[i];
    if (!word.starts_with('-') || word == "--" || word == "-") break;
    options.push_back(word);
    if (word.starts_with("--")) {
      const bool next_is_a_word = i + 1 < command_line.size() && !command_line[i + 1].starts_with('-');
      if (word.find('=') == std::string_view::npos && next_is_a_word) break;
    } else if (word.size() == 2 && with_argument.find(word[1]) != std::string_view::npos) {
      ++i;
    }
  }
  return options;
}

bool is_option(std::string_view word, std::string_view name) {
  return word == name || (word.starts_with(name) && word.substr(name.size()).starts_with('='));
}

// Whether srun may have this option. True also if only its program has it: then a binding of the user's is
// not overridden in error.
bool may_have_option(const std::vector<std::string>& command_line, std::string_view name) {
  return std::any_of(command_line.begin(), command_line.end(),
                     [&](const std::string& word) { return is_option(word, name); });
}

// The value of the last option of this name; "" for one without a value; nullopt: not given.
std::optional<std::string> find_value(const std::vector<std::string_view>& options, std::string_view name) {
  const auto last = std::find_if(options.rbegin(), options.rend(),
                                 [&](std::string_view word) { return is_option(word, name); });
  if (last == options.rend()) return std::nullopt;
  return std::string(last->substr(std::min(name.size() + 1, last->size())));
}

std::optional<OptionWords> try_parse_words(const char* list) {
  try {
    return parse_words(list);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::optional<OptionWords> find_words(const std::vector<std::string_view>& options,
                                      const ReadVariable& read) {
  if (const auto command_line_value = find_value(options, "--muster"))
    return try_parse_words(command_line_value->c_str());
  for (const char* name : inherited_option_variables)
    if (const char* list = read(name)) return try_parse_words(list);
  return std::nullopt;
}

// For a heterogeneous step, whose components each have their own options: the number on which they agree,
// else 0. nullopt for an ordinary step, or if no component gives a number.
std::optional<int> gpus_per_task_of_components(const std::vector<std::string>& command_line) {
  constexpr std::string_view name = "--gpus-per-task=";
  if (std::find(command_line.begin(), command_line.end(), ":") == command_line.end()) return std::nullopt;
  std::optional<int> agreed;
  for (const std::string_view word : command_line) {
    if (!word.starts_with(name)) continue;
    const int count = parse_count(std::string(word.substr(name.size())));
    if (agreed && *agreed != count) return 0;
    agreed = count;
  }
  return agreed;
}

int gpus_per_task(const std::vector<std::string_view>& options, const ReadVariable& read) {
  if (const auto command_line_value = find_value(options, "--gpus-per-task"))
    return parse_count(*command_line_value);
  if (const auto command_line_value = find_value(options, "--tres-per-task"))
    return gpus_in_tres(*command_line_value);
  if (const char* job_value = read("SLURM_TRES_PER_TASK")) return gpus_in_tres(job_value);
  if (const char* job_value = read("SLURM_GPUS_PER_TASK")) return parse_count(job_value);
  return 0;
}

std::optional<std::string> gpu_binding(const std::vector<std::string_view>& options) {
  if (auto of_all = find_value(options, "--tres-bind")) return of_all;
  auto command_line_value = find_value(options, "--gpu-bind");
  if (command_line_value) command_line_value->insert(0, "gpu:");
  return command_line_value;
}

}  // namespace

SrunCommand read_srun_command(const std::vector<std::string>& command_line, const ReadVariable& read) {
  const auto options = srun_options(command_line);
  const auto components = gpus_per_task_of_components(command_line);
  return {find_words(options, read), components.value_or(gpus_per_task(options, read)), gpu_binding(options),
          may_have_option(command_line, "--gpu-bind") || may_have_option(command_line, "--tres-bind")};
}

bool inherits_cpu_binding(const std::vector<std::string>& command_line, const ReadVariable& read) {
  // Users set SLURM_CPU_BIND; only Slurm sets its parts, in the environment of a task.
  return read("SLURM_CPU_BIND_LIST") != nullptr && !may_have_option(command_line, "--cpu-bind");
}

int parse_count(const std::string& request) {
  std::string_view rest = request;
  int total = 0;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const int count = parse_number<int>(part.substr(part.rfind(':') + 1)).value_or(0);
    if (count < 1 || count > most_counted - total) return 0;
    total += count;
  }
  return total;
}

}  // namespace muster::spank
