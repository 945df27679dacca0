// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/user_key.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "muster/error.hpp"
#include "runtime/launcher/variables.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using namespace muster::bootstrap;

namespace {

const std::string good = "9b1f04d2c7e85a36f20d8e4b7159ac63";

std::optional<control::Key> key_in_environment(const std::string& key, const std::string& job = "job") {
  return read_user_key(variables({{"MUSTER_KEY", key}}), job, 0);
}

std::optional<control::Key> key_in_file(const std::string& path) {
  return read_user_key(variables({{"MUSTER_KEY_FILE", path}}), "job", 0);
}

// What is thrown; empty when nothing is.
template <typename Read>
std::string refusal(Read read) {
  try {
    read();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::environment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the user's key is bound to the job") {
  CHECK_FALSE(read_user_key(variables({}), "job", 0));
  auto const key = key_in_environment(good);
  REQUIRE(key);
  CHECK(key == key_in_environment(good));
  CHECK(key != key_in_environment(good, "another job"));
  CHECK(key != key_in_environment(good + "0"));
}

TEST_CASE("a key that can be guessed is refused") {
  for (const auto& [key, why] :
       {std::pair<std::string, std::string>{"short", "has 5 characters and needs 32 hexadecimal digits"},
        {good.substr(1), "has 31 characters"},
        {"correct horse battery staple of mine", "has a character that is not a hexadecimal digit"},
        {"correcthorsebatterystapleandmoreofthem", "has a character that is not a hexadecimal digit"},
        {"0123456789abcdef0123456789abcdef0123456789abcdef", "repeats itself"},
        {std::string(64, '0'), "repeats itself"},
        {"deadbeefdeadbeefdeadbeefdeadbeef", "repeats itself"}}) {
    INFO(key);
    auto const text = refusal([&] { key_in_environment(key); });
    CHECK(has(text, "join: MUSTER_KEY " + why));
    CHECK(has(text, "openssl rand -hex 32"));
  }
}

TEST_CASE("the key may be in a file that nobody else can open") {
  const TemporaryFolder folder;
  auto const path = folder.write("key", good + "\n");
  for (mode_t const mode : {0600, 0400}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    CHECK(key_in_file(path) == key_in_environment(good));
  }
  for (mode_t const mode : {0640, 0604, 0620, 0602}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    CHECK(has(refusal([&] { key_in_file(path); }), "so that others can open it: chmod 600"));
  }
  CHECK(has(refusal([&] { key_in_file(folder.path() / "absent"); }), "it cannot be read"));
  auto const phrase = folder.write("phrase", "a phrase\n");
  REQUIRE(chmod(phrase.c_str(), 0600) == 0);
  CHECK(has(refusal([&] { key_in_file(phrase); }), "the key in MUSTER_KEY_FILE has 8 characters"));
  CHECK(has(refusal([&] {
              read_user_key(variables({{"MUSTER_KEY", good}, {"MUSTER_KEY_FILE", path}}), "job", 0);
            }),
            "both MUSTER_KEY and MUSTER_KEY_FILE are set"));
  if (geteuid() != 0) return;
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
  CHECK(has(refusal([&] { key_in_file(path); }), "belongs to user 65534"));
}
