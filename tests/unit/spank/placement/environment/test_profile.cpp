// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "nccl_conf/nccl_conf.hpp"
#include "placement/environment/profile.hpp"
#include "placement/topology/error.hpp"
#include "spank/placement/machines.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

GetMatchValues make_get_values(std::vector<std::pair<MatchKey, std::vector<std::string>>> values,
                               std::vector<MatchKey>* queried = nullptr) {
  return [values = std::move(values), queried](MatchKey key) -> std::vector<std::string> {
    if (queried != nullptr) queried->push_back(key);
    for (const auto& [one, list] : values)
      if (one == key) return list;
    return {};
  };
}

std::string error_text(const std::string& text) {
  try {
    parse_profile(text, "x.conf");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("Control characters in a profile are refused, since toml++ would abort the process") {
  CHECK(error_text(std::string("[match]\npartition = \"x\"\n[") + '\0' + "environment]\n") ==
        "x.conf: has control characters; not a text file");
  CHECK(error_text("[environment]\nA = \"\x7f\"\n") == "x.conf: has control characters; not a text file");
}

TEST_CASE("Letters beyond ASCII are accepted in strings and comments only") {
  const std::string where = ": a letter beyond ASCII outside of quotation marks";
  CHECK(error_text("\u03ff") == "x.conf, line 1" + where);
  CHECK(error_text("[environment]\nA = '''\na''' # '\n\u03ff = 'b'\n") == "x.conf, line 4" + where);
  CHECK(error_text("[environment]\nA = \"a\" \u03ff\n") == "x.conf, line 2" + where);
  CHECK(error_text("[environment]\nA = \"\"\"a\"\"\"\" \u03ff\n") == "x.conf, line 2" + where);
  CHECK(error_text("[environment]\n\u00a0 A = 'b'\n") == "x.conf, line 2" + where);
  const std::string quotes = "x.conf, line 2: a quotation mark inside a word";
  CHECK(error_text("[match]\npartition = [\"gpu*\",9\"N\u00f3 =1") == quotes);
  CHECK(error_text("[match]\npartition = -'['x\u0651'") == quotes);
  // Values from which toml++ looks ahead up to the letter.
  for (const char* value : {"+[m['\u03ff'", "1.'\u03ff'", "1='\u03ff'", "{a=1.'\u03ff'}", "[[1,\n2.'\u03ff'",
                            "4000-01-01 a['\u03ff'", "4000-01-01 ['\u03ff'", "1 .'\u03ff'"}) {
    INFO(value);
    CHECK(error_text("[environment]\nA = " + std::string(value) + "\n").starts_with("x.conf, line "));
  }
  CHECK(error_text("[environment]\nA = /bin\n") == "x.conf, line 2: a value that needs quotation marks");
  const std::string escape = ": a letter beyond ASCII behind a backslash";
  CHECK(error_text("[environment]\nA = \"\"\"\n\\\u03ff\"\"\"\n") == "x.conf, line 3" + escape);
  CHECK(error_text("[environment]\nA = \"\"\"a \\  \n\n \u03ff\"\"\"\n") == "x.conf, line 4" + escape);
  const Profile profile = parse_profile(
      "\xef\xbb\xbf# \xcf\xbf '\n[environment]\nA = \"\\\"\xcf\xbf#\" # \"\xcf\xbf\nB = '\xcf\xbf\\'\n"
      "C = '''\n\xcf\xbf''\n'''''\nD = \"\"\"\xcf\xbf\\\"\"\"\"\"\"\n",
      "x.conf");
  CHECK(profile.settings.size() == 4);
  // A key in quotation marks may follow a dot; a value may not.
  CHECK(error_text("x.\"\u03ff\" = [1.5, -2, 4000-01-01 07:32:00]\n[a.'\u03ff']\n").find("quotation") ==
        std::string::npos);
}

TEST_CASE("Deeply nested profiles are refused, since toml++ would overflow the stack") {
  std::string key = "a";
  while (key.size() < 400'000) key += ".a";
  const std::string parts = ": a key of more than 32 parts", levels = ": brackets in more than 32 levels";
  CHECK(error_text("[match]\n" + key + " = 1\n") == "x.conf, line 2" + parts);
  CHECK(error_text("\n[" + key + "]\n") == "x.conf, line 2" + parts);
  CHECK(error_text("x = {" + key + " = 1}\n") == "x.conf, line 1" + parts);
  CHECK(error_text("x = " + std::string(400'000, '[') + "\n") == "x.conf, line 1" + levels);
  CHECK(error_text("[match]\nx = [" + std::string(32, '{') + "\n") == "x.conf, line 2" + levels);
}

TEST_CASE("Profiles that violate toml++'s assertions are refused like any other error") {
  CHECK(error_text("[ = [[match]\nx = 1\n").substr(0, 6) == "x.conf");
  CHECK(error_text("[ = [[match].mmatch]\n.partigpon = [[match].mat\"cgh").substr(0, 6) == "x.conf");
}

TEST_CASE("A profile applies to nodes that match all of its keys, by any pattern of each") {
  const Profile profile = parse_profile(R"(
[match]
feature = ["h100", "h2??"]
cluster = "prod*"
[environment]
NCCL_IB_TC = "106"
OMP_NUM_THREADS = false
)",
                                        "x.conf");
  REQUIRE(profile.settings.size() == 2);
  CHECK(profile.settings[0].name == "NCCL_IB_TC");
  CHECK(profile.settings[0].value == "106");
  CHECK(profile.settings[0].file == "x.conf");
  CHECK_FALSE(profile.settings[1].value);
  CHECK(matches(profile,
                make_get_values({{MatchKey::cluster, {"prod-a"}}, {MatchKey::feature, {"ib", "h200"}}})));
  CHECK_FALSE(matches(
      profile, make_get_values({{MatchKey::cluster, {"prod-a"}}, {MatchKey::feature, {"ib", "a100"}}})));
  CHECK_FALSE(
      matches(profile, make_get_values({{MatchKey::cluster, {"test"}}, {MatchKey::feature, {"h100"}}})));
  CHECK_FALSE(matches(profile, make_get_values({})));
  CHECK(matches(parse_profile("", "all.conf"), make_get_values({})));
  // Keys that need a file access come last, and are not read if another key does not match.
  std::vector<MatchKey> queried;
  CHECK_FALSE(matches(profile, make_get_values({{MatchKey::cluster, {"test"}}}, &queried)));
  CHECK(queried == std::vector<MatchKey>{MatchKey::cluster});
}

TEST_CASE("The error for a wrong profile is one line with file, line and reason") {
  CHECK(error_text("[match]\nregion = \"eu\"\n") ==
        "x.conf, line 2: [match] has no key 'region': use cluster, partition, feature, instance, vendor or "
        "chassis");
  CHECK(error_text("[environment]\nA = 1\n") ==
        "x.conf, line 2: A must be a text in quotes, or false to leave the variable alone");
  CHECK(error_text("[environment]\nA = true\n") == error_text("[environment]\nA = 1\n"));
  CHECK(error_text("[environment]\n\"A B\" = \"1\"\n") ==
        "x.conf, line 2: 'A B' is not the name of a variable");
  CHECK(error_text("[environment]\nMUSTER_SET = \"1\"\n") == "x.conf, line 2: MUSTER_SET is Muster's own");
  CHECK(error_text("[env]\n") == "x.conf, line 1: env is not known: use [match] and [environment]");
  CHECK(error_text("match = 1\n") == "x.conf, line 1: match is not known: use [match] and [environment]");
  CHECK(error_text("[match]\ncluster = []\n")
            .starts_with("x.conf, line 2: cluster must be a text or a list of texts"));
  CHECK(error_text("[match]\ncluster = [\"a\", 1]\n").starts_with("x.conf, line 2: cluster must be"));
  CHECK(error_text("[environment]\nA = \"1\n").starts_with("x.conf, line 2: "));
  CHECK(error_text("[environment]\nA = \"1\n").find('\n') == std::string::npos);
  CHECK(error_text("[environment]\nA = \"1\"\nA = \"2\"\n").starts_with("x.conf, line 3: "));
}

TEST_CASE("Later profiles replace the settings of earlier ones, also whether a variable is set at all") {
  const auto one = parse_profile("[environment]\nA = \"1\"\nB = \"1\"\nC = false\n", "1.conf");
  const auto two = parse_profile("[environment]\nB = false\nC = \"2\"\nD = \"2\"\n", "2.conf");
  const auto merged = merge({one, two});
  REQUIRE(merged.size() == 4);
  CHECK(merged[0].value == "1");
  CHECK_FALSE(merged[1].value);
  CHECK(merged[1].file == "2.conf");
  CHECK(merged[2].value == "2");
  CHECK(merged[3].name == "D");
}

TEST_CASE("The variables of real nccl.conf files are kept") {
  const char* shared = std::getenv("MUSTER_SHARED");
  const std::filesystem::path folder =
      std::filesystem::path(shared == nullptr ? "" : shared) / "topologies/nccl-config";
  if (!std::filesystem::is_directory(folder)) {
    WARN("SKIPPED: no real nccl.conf files (MUSTER_SHARED is not set)");
    return;
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    FileSettings file_settings;
    for (const auto& [name, value] : muster::read_nccl_conf(entry.path().string()))
      file_settings.nccl_conf.push_back({name, value, entry.path().string()});
    INFO(entry.path());
    ++files;
    const std::vector<Variable> derived = {{"NCCL_IB_HCA", "=mlx5_0:1", "nearest"},
                                           {"NCCL_DEBUG", "INFO", "-"}};
    const auto change = decide_environment(
        derived, [](const std::string&) { return std::nullopt; }, {}, file_settings);
    REQUIRE(change.kept.size() == 2);
    CHECK(change.kept[0].value.starts_with("=mlx5_"));
    CHECK(change.kept[1].value == "WARN");
    CHECK(change.kept[1].reason == "set in " + entry.path().string());
    for (const auto& variable : change.set) CHECK(variable.name.starts_with("MUSTER_"));
  }
  CHECK(files >= 6);
}

TEST_CASE("The shipped profiles are valid, have conditions and cite a source") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_PROFILES)) {
    INFO(entry.path());
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto profile = parse_profile(text, entry.path().filename().string());
    CHECK_FALSE(profile.conditions.empty());  // if copied unchanged, it applies to its own kind of node only
    CHECK_FALSE(profile.settings.empty());
    CHECK(text.find("https://") != std::string::npos);
    // NCCL chooses the GID itself since 2.21; only a cloud's own value may override that.
    if (entry.path().filename() != "oci.conf") CHECK(text.find("NCCL_IB_GID_INDEX =") == std::string::npos);
    ++files;
  }
  CHECK(files == 6);
}
