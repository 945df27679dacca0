// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/user_key.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <set>
#include <string_view>

#include "file/regular_file.hpp"
#include "muster/error.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t min_digits = 32;  // 128 bits
constexpr std::size_t max_file_bytes = 4096;
// 32 random digits have 29 different pairs of neighbours on average, and fewer than 20 never. Digits that
// repeat after less than 20 places have fewer, and so have keys of few different digits.
constexpr std::size_t min_pairs = 20;
constexpr const char* hint = "make one with: openssl rand -hex 32";

// Why the key could be guessed; empty when it is good.
std::string weakness(std::string_view key) {
  if (key.size() < min_digits)
    return fmt::format("has {} characters and needs {} hexadecimal digits", key.size(), min_digits);
  if (key.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
    return "has a character that is not a hexadecimal digit (0-9, a-f): a phrase can be guessed";
  std::set<std::string_view> pairs;
  for (std::size_t i = 0; i + 1 < key.size(); ++i) pairs.insert(key.substr(i, 2));
  return pairs.size() < min_pairs ? "repeats itself: it can be guessed" : "";
}

// Why others may know the file's content; empty when they cannot.
std::string exposure(const struct stat& status) {
  bool const of_root = status.st_uid == 0 && ::geteuid() != 0;
  if (status.st_uid != ::geteuid() && !of_root)
    return fmt::format("belongs to user {}: it has to be yours", status.st_uid);
  mode_t const forbidden = of_root ? 0027 : 0077;
  if ((status.st_mode & forbidden) != 0)
    return fmt::format("has mode {:04o}, so that others can open it: chmod 600", status.st_mode & 07777);
  return "";
}

}  // namespace

std::optional<control::Key> read_user_key(const GetEnv& get_env, const std::string& job, int rank) {
  auto key = get_env("MUSTER_KEY");
  auto const path = get_env("MUSTER_KEY_FILE");
  if (key.empty() && path.empty()) return std::nullopt;
  auto const refuse = [rank](const std::string& text) {
    throw Error(ErrorCode::environment, "join: " + text, rank != 0);
  };
  if (!key.empty() && !path.empty()) refuse("both MUSTER_KEY and MUSTER_KEY_FILE are set: unset one of them");
  if (!path.empty()) {
    auto const file = read_regular_file(path, max_file_bytes);
    if (!file)
      refuse(fmt::format(
          "MUSTER_KEY_FILE={}: it cannot be read, is not a regular file, or has more than {} bytes", path,
          max_file_bytes));
    if (auto const why = exposure(file->status); !why.empty())
      refuse(fmt::format("MUSTER_KEY_FILE={} {}", path, why));
    key = file->text.substr(0, file->text.find_last_not_of(" \t\r\n") + 1);
  }
  if (auto const why = weakness(key); !why.empty())
    refuse(fmt::format("{} {}; {}", path.empty() ? "MUSTER_KEY" : "the key in MUSTER_KEY_FILE", why, hint));
  control::Key derived{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, derived.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(key.data()), key.size());
  // Other uses of the same secret and other jobs get other keys. No digit is a slash.
  auto const context = fmt::format("/muster job key/{}", job);
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(context.data()), context.size());
  crypto_generichash_final(&state, derived.data(), derived.size());
  return derived;
}

}  // namespace muster::bootstrap
