// SPDX-License-Identifier: Apache-2.0
// A checkpoint's state.json: unchanged, and with a correct checksum, which no damaged text has.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoint/training_state.hpp"
#include "files/hash.hpp"
#include "printable_error.hpp"

using namespace muster;

namespace {

void parse(std::string_view text) {
  try {
    StoredState const stored = parse_state(text);
    StoredState const again = parse_state(write_state(stored));
    if (again.state != stored.state || again.tensor_hash != stored.tensor_hash) std::abort();
  } catch (const std::runtime_error& error) {
    fuzz::check_printable(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<const char*>(data), size);
  parse(text);
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return 0;
  json.erase("checksum");
  std::string const content = json.dump();
  json["checksum"] = fmt::format("{:016x}", hash_bytes(content.data(), content.size()));
  parse(json.dump());
  return 0;
}
