// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_runtime_connect.hpp"

#include <cstdlib>
#include <optional>

#include "nccl_conf/nccl_conf.hpp"

namespace muster::detail {
namespace {

constexpr const char* variable = "NCCL_RUNTIME_CONNECT";

// From where NCCL takes it: the environment, or one of its files.
std::optional<std::string> configured_value() {
  if (const char* const value = std::getenv(variable); value != nullptr) return value;
  auto const settings = read_nccl_confs();
  auto const found = settings.find(variable);
  return found == settings.end() ? std::nullopt : std::optional(found->second);
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
