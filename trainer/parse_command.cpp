// SPDX-License-Identifier: Apache-2.0
#include "parse_command.hpp"

#include <string>

#include "muster/error.hpp"

namespace muster {

bool parse_command(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::Success& asked) {
    app.exit(asked);
    return false;
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    throw Error(Fault::usage, text.substr(0, text.find('\n')) + " (see " + app.get_name() + " --help)");
  }
}

}  // namespace muster
