// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_runtime_connect.hpp"

#include <cstdlib>
#include <fstream>
#include <optional>

namespace muster::detail {
namespace {

constexpr const char* variable = "NCCL_RUNTIME_CONNECT";

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// NCCL's files hold lines of NAME=VALUE, and of several for one name the first counts.
std::optional<std::string> in_file(const std::string& path) {
  std::ifstream file(path);
  std::string const start = std::string(variable) + "=";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(start)) return line.substr(start.size());
  return std::nullopt;
}

// As NCCL looks for it: the environment, the user's file, the machine's.
std::optional<std::string> own_setting() {
  if (std::getenv(variable) != nullptr) return environment(variable);
  auto users = environment("NCCL_CONF_FILE");
  if (users.empty()) users = environment("HOME") + "/.nccl.conf";
  if (auto const value = in_file(users)) return value;
  return in_file("/etc/nccl.conf");
}

// NCCL takes an empty text for its default, 1, and reads numbers as strtoll does.
std::uint8_t number(const std::string& text) {
  return text.empty() || std::strtoll(text.c_str(), nullptr, 0) != 0 ? 1 : 0;
}

}  // namespace

void connect_at_start() {
  if (!own_setting()) setenv(variable, "0", 1);
}

std::uint8_t connects_later() {
  auto const own = own_setting();
  return own ? number(*own) : 1;
}

}  // namespace muster::detail
