// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_runtime_connect.hpp"

#include <cstdlib>
#include <fstream>
#include <optional>

namespace muster::detail {
namespace {

constexpr const char* variable = "NCCL_RUNTIME_CONNECT";

std::string get_env(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// NCCL's files have lines NAME=VALUE; the first one for a name counts.
std::optional<std::string> read_from_file(const std::string& path) {
  std::ifstream file(path);
  std::string const start = std::string(variable) + "=";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(start)) return line.substr(start.size());
  return std::nullopt;
}

// In the order in which NCCL searches: the environment, the user's file, the machine's file.
std::optional<std::string> configured_value() {
  if (std::getenv(variable) != nullptr) return get_env(variable);
  auto user_file = get_env("NCCL_CONF_FILE");
  if (user_file.empty()) user_file = get_env("HOME") + "/.nccl.conf";
  if (auto value = read_from_file(user_file)) return value;
  return read_from_file("/etc/nccl.conf");
}

// NCCL takes an empty text as its default, 1, and parses numbers with strtoll.
std::uint8_t parse_flag(const std::string& text) {
  return text.empty() || std::strtoll(text.c_str(), nullptr, 0) != 0 ? 1 : 0;
}

}  // namespace

void set_eager_connect() {
  if (!configured_value()) setenv(variable, "0", 1);
}

std::uint8_t lazy_connect() {
  auto const configured = configured_value();
  return configured ? parse_flag(*configured) : 1;
}

}  // namespace muster::detail
