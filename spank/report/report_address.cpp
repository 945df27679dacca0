// SPDX-License-Identifier: Apache-2.0
#include "report/report_address.hpp"

#include <algorithm>
#include <charconv>

namespace muster::spank {

namespace {

constexpr std::size_t most_hosts = 8;
constexpr std::size_t longest = 1024;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

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
  const char* end = text.data() + second;
  const auto [stop, error] = std::from_chars(text.data() + first + 1, end, address.port);
  if (error != std::errc() || stop != end || address.port < 1 || address.port > 65535) return std::nullopt;
  address.hosts = split(text.substr(second + 1), ',');
  if (address.hosts.size() > most_hosts || address.hosts.front().empty()) return std::nullopt;
  return address;
}

}  // namespace muster::spank
