// SPDX-License-Identifier: Apache-2.0
#include "report/report_address.hpp"

#include <algorithm>

#include "text/parse_number.hpp"
#include "text/split.hpp"

namespace muster::spank {

namespace {

constexpr std::size_t most_hosts = 8;
constexpr std::size_t longest = 1024;

}  // namespace

std::string ReportAddress::to_string() const {
  std::string text = token + ":" + std::to_string(port) + ":";
  for (std::size_t i = 0; i < std::min(hosts.size(), most_hosts); ++i) text += (i == 0 ? "" : ",") + hosts[i];
  return text;
}

std::optional<ReportAddress> ReportAddress::parse(const std::string& text) {
  if (text.size() > longest) return std::nullopt;
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  ReportAddress address;
  address.token = text.substr(0, first);
  if (address.token.size() != report_token_digits ||
      address.token.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  address.port = parse_number<int>(std::string_view(text).substr(first + 1, second - first - 1)).value_or(0);
  if (address.port < 1 || address.port > 65535) return std::nullopt;
  const auto hosts = split(std::string_view(text).substr(second + 1), ',');
  address.hosts.assign(hosts.begin(), hosts.end());
  if (address.hosts.size() > most_hosts || address.hosts.front().empty()) return std::nullopt;
  return address;
}

}  // namespace muster::spank
