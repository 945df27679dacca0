// SPDX-License-Identifier: Apache-2.0
// Reads options from the settings file, the environment and the command line. Errors name the place of the
// setting.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "config/declare_options.hpp"
#include "config/help_formatter.hpp"
#include "config/parse_command.hpp"
#include "config/setting_sources.hpp"
#include "config/settings.hpp"
#include "config/suggest_name.hpp"
#include "muster/error.hpp"
#include "muster/version.hpp"

namespace muster {
namespace {

constexpr const char* footer =
    "Each setting is also a line of a TOML file (--config FILE: learning-rate = 0.01) and a variable\n"
    "(MUSTER_TRAIN_LEARNING_RATE=0.01). Precedence, highest first: command line, environment, file.\n"
    "Unknown settings are refused.\n\n"
    "Example:\n"
    "  muster-train make-data language --output language\n"
    "  muster-train --data language --output run --steps 500\n"
    "Ctrl-C saves the run, and the same command continues it. Then open run/report.html or run/loss.svg:\n"
    "the curve approaches the entropy rate that make-data has printed. More: muster-train(1).";

struct CommandLine {
  Options options;
  std::string config;
  bool print_config = false;
};

[[noreturn]] void refuse(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  throw Error(ErrorCode::usage, text + " (see muster-train --help)");
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : list_settings(Options{})) names.push_back(setting.name);
  return names;
}

void declare_command_line(CLI::App& app, CommandLine& line) {
  app.set_version_flag("--version", std::string("muster-train ") + version);
  app.footer(footer);
  app.formatter(std::make_shared<PlainFormatter>());
  declare_options(app, line.options);
  app.add_option("--config", line.config, "Settings file, as --print-config prints it; MUSTER_TRAIN_CONFIG")
      ->group("Settings")
      ->type_name("FILE");
  app.add_flag("--print-config", line.print_config, "Print the settings in force and their sources, and exit")
      ->group("Settings");
}

/// An option without a value takes the next option as its value.
void refuse_swallowed_options(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.starts_with("--"))
        refuse(fmt::format("{} needs a value, but got {}", option->get_name(), value));
    }
  }
}

void parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them in reverse order
  try {
    app.parse(arguments);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ExtrasError&) {
    refuse_swallowed_options(app);
    refuse(describe_unknown_argument(app.remaining().front(), app, {"make-data", "scaling"}));
  } catch (const CLI::ArgumentMismatch& error) {
    refuse(describe_missing_value(error.what()));
  } catch (const CLI::ParseError& error) {
    refuse(first_line(error.what()));
  }
  refuse_swallowed_options(app);
}

std::vector<std::string> to_arguments(const GivenSetting& given) {
  if (given.value.empty())
    return {"--" + given.name, ""};  // "--name=" would take the next argument as its value
  return {"--" + given.name + "=" + given.value};
}

/// Parses one setting alone, so that an error names the setting's place.
void check_setting(const GivenSetting& given) {
  Options scratch;
  CLI::App app;
  app.set_help_flag();
  declare_options(app, scratch);
  const CLI::Option* option = app.get_option_no_throw("--" + given.name);
  const bool in_environment = given.where.starts_with(settings_variable_prefix);
  const bool other_case = in_environment && given.where != to_variable_name(given.name);
  if (option == nullptr || option->get_single_name() != given.name || other_case) {
    const auto suggestion = suggest_name(given.name, setting_names());
    const std::string hint =
        suggestion ? "; did you mean " + (in_environment ? to_variable_name(*suggestion) : *suggestion) + "?"
                   : "";
    refuse(in_environment ? fmt::format("unknown variable {}{}", given.where, hint)
                          : fmt::format("{}: unknown setting '{}'{}", given.where, given.name, hint));
  }
  if (given.is_boolean && option->get_items_expected_max() > 0)
    refuse(fmt::format("{}: {} is not a switch: it needs a value", given.where, given.name));
  const bool is_switch = option->get_items_expected_max() == 0;
  if (is_switch && given.value.empty())
    refuse(fmt::format("{}: {} must be true or false", given.where, given.name));
  std::vector<std::string> arguments = to_arguments(given);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    refuse(fmt::format("{}: {}", given.where, first_line(error.what())));
  }
}

std::vector<GivenSetting> read_settings(std::string config) {
  std::vector<GivenSetting> in_environment = read_settings_environment(environ);
  std::erase_if(in_environment, [&](const GivenSetting& given) {
    if (given.name != "config") return false;
    if (config.empty()) config = given.value;
    return true;
  });
  std::vector<GivenSetting> all = config.empty() ? std::vector<GivenSetting>{} : read_settings_file(config);
  all.insert(all.end(), in_environment.begin(), in_environment.end());
  return all;
}

void record_origins(const std::vector<GivenSetting>& given, const CLI::App& command_line, Options& options) {
  for (const GivenSetting& setting : given) options.origins[setting.name] = setting.where;
  for (const CLI::Option* option : command_line.get_options()) {
    if (option->count() > 0) options.origins[option->get_single_name()] = "command line";
  }
}

/// `lower_precedence` come before the command line, so the command line overrides them.
CommandLine parse_with(const std::vector<GivenSetting>& lower_precedence,
                       const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App app;
  declare_command_line(app, line);
  std::vector<std::string> all;
  for (const GivenSetting& given : lower_precedence) {
    check_setting(given);
    for (std::string& argument : to_arguments(given)) all.push_back(std::move(argument));
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  parse(app, all);
  return line;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  CommandLine alone;
  CLI::App app(
      "Trains a GPT on any text or on shards of tokens, or a small network on MNIST's files, data-parallel "
      "over the ranks\n"
      "of a job.\n"
      "Start it alone, with srun --mpi=pmix or with mpirun; every rank gets the same options.\n"
      "Two more commands: muster-train make-data generates training data, muster-train scaling compares\n"
      "runs; each has its own --help.",
      "muster-train");
  declare_command_line(app, alone);
  try {
    parse(app, arguments);
  } catch (const CLI::Success& success) {
    app.exit(success);
    return std::nullopt;
  }
  const std::vector<GivenSetting> given = read_settings(alone.config);
  CommandLine line = parse_with(given, arguments);
  record_origins(given, app, line.options);
  finalize_options(line.options);
  if (!line.print_config) return line.options;
  fmt::print("{}", settings_as_toml(line.options));
  std::fflush(stdout);
  return std::nullopt;
}

}  // namespace muster
