// SPDX-License-Identifier: Apache-2.0
#include "stall_warning.hpp"

#include <regex>

namespace simulator {
namespace {

const char* const list = "((?:(?:, )?rank [0-9]+ \\(host h[0-9]+\\))+(?: and [0-9]+ more)?)";
const char* const duration = "([0-9.]+ m?s)";

NamedRanks parse_ranks(const std::string& text, const std::string& did = "") {
  static const std::regex rank("rank ([0-9]+)");
  static const std::regex others(" and ([0-9]+) more");
  NamedRanks named;
  for (std::sregex_iterator at(text.begin(), text.end(), rank), end; at != end; ++at)
    named.ranks.insert(std::stoi((*at)[1]));
  std::smatch found;
  if (std::regex_search(text, found, others)) named.more = std::stoul(found[1]);
  named.did = did;
  return named;
}

std::chrono::milliseconds parse_duration(const std::string& text) {
  double const unit = text.ends_with(" ms") ? 1 : 1000;
  return std::chrono::milliseconds(static_cast<int>(std::stod(text) * unit + 0.5));
}

}  // namespace

std::optional<StallWarning> parse_stall_warning(const std::string& text) {
  static const std::regex operation(std::string("rank ([0-9]+) \\(host h[0-9]+\\) waits for ") + duration +
                                    " in ([a-z_]+ \\(operation [0-9]+ on communicator '[a-z]+'\\))(;.*)");
  static const std::regex round(std::string("([a-z0-9 ]+) waits: ([0-9]+) of ([0-9]+) ranks missing after ") +
                                duration + ": " + list + "(?:, (?:never|of which).*)?");
  static const std::regex behind(std::string("; not entered by ") + list + ", ([^;]*)");
  static const std::regex silent(std::string("; no answer from ") + list);
  std::smatch found;
  StallWarning warning;
  if (std::regex_match(text, found, round)) {
    warning.call = found[1];
    warning.members = std::stoul(found[3]);
    warning.waited = parse_duration(found[4]);
    warning.not_entered.push_back(parse_ranks(found[5]));
    if (warning.not_entered.front().count() != std::stoul(found[2])) return std::nullopt;
    return warning;
  }
  if (!std::regex_match(text, found, operation)) return std::nullopt;
  warning.waiting = std::stoi(found[1]);
  warning.waited = parse_duration(found[2]);
  warning.call = found[3];
  std::string const rest = found[4];
  for (std::sregex_iterator at(rest.begin(), rest.end(), behind), end; at != end; ++at)
    warning.not_entered.push_back(parse_ranks((*at)[1], (*at)[2]));
  if (std::regex_search(rest, found, silent)) warning.silent = parse_ranks(found[1]);
  return warning;
}

}  // namespace simulator
