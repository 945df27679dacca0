// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace muster {

/// Removes CLI11's "{false}" after the --no- forms, and the type's name where a range follows it.
class PlainFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_option_name(option, is_positional), "{false}",
                                         "");
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::size_t colon = text.find(':'), range = text.find(" in [");
    if (colon == std::string::npos || range == std::string::npos || range < colon) return text;
    return text.substr(0, colon) + text.substr(range);
  }
};

}  // namespace muster
