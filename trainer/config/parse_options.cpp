// SPDX-License-Identifier: Apache-2.0
// CLI11's own files and variables are not used: a file would override a variable, and an error in a value
// would not name the line or the variable.
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <memory>

#include "config/declare_options.hpp"
#include "config/option_validators.hpp"
#include "config/parse_command.hpp"
#include "config/settings.hpp"
#include "config/suggest_name.hpp"
#include "muster/error.hpp"
#include "muster/version.hpp"
#include "text/printable.hpp"

namespace muster {
namespace {

constexpr std::string_view variable_prefix = "MUSTER_TRAIN_";
constexpr const char* config_variable = "MUSTER_TRAIN_CONFIG";

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

/// Removes CLI11's "{false}" after the --no- forms.
class PlainFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_option_name(option, is_positional), "{false}",
                                         "");
  }
};

void declare_command_line(CLI::App& app, CommandLine& line) {
  app.set_version_flag("--version", std::string("muster-train ") + version);
  app.footer(footer);
  app.formatter(std::make_shared<PlainFormatter>());
  declare_options(app, line.options);
  app.option_defaults()->group("Settings")->configurable(false);
  app.add_option("--config", line.config, "Settings file, as --print-config prints it")
      ->check(not_an_option())
      ->envname(config_variable)
      ->type_name("FILE");
  app.add_flag("--print-config", line.print_config,
               "Print the settings in force and their sources, and exit");
}

char to_upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }
char to_lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Converts "learning-rate" to "MUSTER_TRAIN_LEARNING_RATE".
std::string to_variable_name(const std::string& setting) {
  std::string name(variable_prefix);
  for (const char c : setting) name += c == '-' ? '_' : to_upper(c);
  return name;
}

/// All variables with the prefix, whether the setting is known or not.
std::vector<GivenSetting> read_settings_environment() {
  std::vector<GivenSetting> settings;
  for (const char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || !variable.starts_with(variable_prefix)) continue;
    const std::string where = variable.substr(0, equals);
    std::string name = where.substr(variable_prefix.size());
    for (char& c : name) c = c == '_' ? '-' : to_lower(c);
    if (where != config_variable) settings.push_back({name, variable.substr(equals + 1), where});
  }
  return settings;
}

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::usage, printable(text) + " (see muster-train --help)");
}

[[noreturn]] void refuse_unknown(const CLI::App& app, const GivenSetting& given, bool is_variable) {
  const auto spell = [&](const std::string& name) { return is_variable ? to_variable_name(name) : name; };
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_configurable()) names.push_back(spell(option->get_single_name()));
  }
  refuse((is_variable ? "unknown variable " + given.where
                      : fmt::format("{}: unknown setting '{}'", given.where, given.name)) +
         suggest_name(spell(given.name), names));
}

/// Sets one option, as CLI11 does it for a line of its own configuration files.
void apply(CLI::App& app, const GivenSetting& given) {
  CLI::Option* option = app.get_option_no_throw("--" + given.name);
  const bool is_variable = given.where.starts_with(variable_prefix);
  const bool is_known = option != nullptr && option->get_configurable() &&
                        option->get_single_name() == given.name &&
                        (!is_variable || given.where == to_variable_name(given.name));
  if (!is_known) refuse_unknown(app, given, is_variable);
  const bool is_flag = option->get_items_expected_max() == 0;
  if (given.is_boolean && !is_flag)  // as a text, "true" would be valid
    refuse(fmt::format("{}: {} must be a number or a text in quotes, not {}", given.where, given.name,
                       given.value));
  if (given.value.empty() && is_flag)  // CLI11 does not validate it
    refuse(fmt::format("{}: {} must be true or false", given.where, given.name));
  try {
    option->clear();
    option->add_result(given.value);
    option->run_callback();
  } catch (const CLI::ParseError& error) {
    refuse(fmt::format("{}: {}", given.where, error.what()));
  }
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  CommandLine line;
  CLI::App app(
      "Trains a GPT on any text or on shards of tokens, or a network on pictures or the files of MNIST and "
      "CIFAR,\n"
      "over the ranks of a job.\n"
      "Start it alone, with srun --mpi=pmix or with mpirun; every rank gets the same options.\n"
      "More commands, each with its own --help: make-data and tokenize make training data, generate "
      "continues a\n"
      "text with a trained model, evaluate computes its loss, export writes it for other programs, scaling\n"
      "compares runs.",
      "muster-train");
  declare_command_line(app, line);
  const auto parse = [&] {
    return parse_command(app, argc, argv,
                         {"evaluate", "export", "generate", "make-data", "scaling", "tokenize"});
  };
  if (!parse()) return std::nullopt;
  auto given = line.config.empty() ? std::vector<GivenSetting>{} : read_settings_file(line.config);
  for (const GivenSetting& variable : read_settings_environment()) given.push_back(variable);
  for (const GivenSetting& setting : given) {
    apply(app, setting);
    line.options.origins[setting.name] = setting.where;
  }
  parse();  // again, since the command line overrides the others
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) line.options.origins[option->get_single_name()] = "command line";
  }
  finalize_options(line.options);
  if (!line.print_config) return line.options;
  fmt::print("{}", settings_as_toml(line.options));
  std::fflush(stdout);
  return std::nullopt;
}

}  // namespace muster
