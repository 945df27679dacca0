// SPDX-License-Identifier: Apache-2.0
#include "config/parse_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/suggest_name.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

/// The subcommand that was given, or `app` itself.
const CLI::App& named_command(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? app : *named.front();
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(command->get_name());
  if (const auto extra = app.remaining(true); !extra.empty())
    text = describe_unknown_argument(extra.front(), named_command(app), commands);
  else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    text = describe_missing_value(text);
  else if (!commands.empty() && &named_command(app) == &app)
    text = fmt::format("name one of: {}", fmt::join(commands, ", "));
  text = text.substr(0, text.find('\n'));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

}  // namespace

std::string describe_unknown_argument(const std::string& argument, const CLI::App& app,
                                      const std::vector<std::string>& commands) {
  const bool is_option = argument.starts_with("-") && argument != "-";
  const std::string name = is_option ? argument.substr(0, argument.find('=')) : argument;
  std::vector<std::string> names = commands;
  if (is_option) {
    names.clear();
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
    }
  }
  const auto suggestion = suggest_name(name, names);
  const std::string what =
      is_option ? "unknown option " + name : fmt::format("unexpected argument '{}'", name);
  return what + (suggestion ? "; did you mean " + *suggestion + "?" : "");
}

std::string describe_missing_value(const std::string& mismatch) {
  return mismatch.substr(0, mismatch.find(':')) + " needs a value";
}

bool parse_command(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::Success& success) {
    app.exit(success);
    return false;
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = named_command(app);
    const std::string help = app.get_name() + (&command == &app ? "" : " " + command.get_name());
    throw Error(ErrorCode::usage, describe_parse_error(app, error) + " (see " + help + " --help)");
  }
}

}  // namespace muster
