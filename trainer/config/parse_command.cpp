// SPDX-License-Identifier: Apache-2.0
#include "config/parse_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/suggest_name.hpp"
#include "muster/error.hpp"
#include "text/printable.hpp"

namespace muster {
namespace {

/// `choice`: what the argument may be, if no known word is near it.
std::string describe_unknown_argument(const std::string& argument, const CLI::App& app,
                                      std::vector<std::string> words, const std::string& choice) {
  if (!argument.starts_with("-") || argument == "-") {
    const std::string nearest = suggest_name(argument, words);
    return fmt::format("unexpected argument '{}'{}", argument,
                       nearest.empty() && !choice.empty() ? "; " + choice : nearest);
  }
  words.clear();
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) words.push_back("--" + known);
  }
  const std::string name = argument.substr(0, argument.find('='));
  return "unknown option " + name + suggest_name(name, words);
}

/// `command`: the subcommand that was given, or `app` itself.
std::string describe_parse_error(const CLI::App& app, const CLI::App& command, const CLI::ParseError& error,
                                 std::vector<std::string> words) {
  std::string text = error.what();
  // CLI11's text goes on with names of types.
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return text.substr(0, text.find(':')) + " needs a value";
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return text;
  std::vector<std::string> commands;
  for (const CLI::App* known : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(known->get_name());
  words.insert(words.end(), commands.begin(), commands.end());
  const std::string choice =
      commands.empty() || &command != &app ? "" : fmt::format("name one of: {}", fmt::join(commands, ", "));
  if (const auto extra = app.remaining(true); !extra.empty())
    return describe_unknown_argument(extra.front(), command, words, choice);
  return choice.empty() ? text : choice;
}

}  // namespace

bool parse_command(CLI::App& app, int argc, const char* const* argv,
                   const std::vector<std::string>& other_words) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::Success& success) {
    app.exit(success);
    return false;
  } catch (const CLI::ParseError& error) {
    const auto named = app.get_subcommands();
    const CLI::App& command = named.empty() ? app : *named.front();
    const std::string help = app.get_name() + (named.empty() ? "" : " " + command.get_name());
    throw Error(ErrorCode::usage, printable(describe_parse_error(app, command, error, other_words)) +
                                      " (see " + help + " --help)");
  }
}

}  // namespace muster
