// SPDX-License-Identifier: Apache-2.0
// Compares the documentation of the `muster` command with its behaviour.
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "catch.hpp"
#include "muster_command.hpp"

using namespace muster::cli::test;
using Json = nlohmann::json;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Collects a path such as "node.numa[].id" for every leaf value; names in an environment are data, not
/// fields.
void collect_fields(const Json& json, const std::string& path, std::set<std::string>& fields) {
  if (json.is_object() && !path.ends_with(".environment")) {
    for (const auto& [key, value] : json.items())
      collect_fields(value, (path.empty() ? "" : path + ".") + key, fields);
  } else if (json.is_array()) {
    for (const auto& value : json) collect_fields(value, path + "[]", fields);
  } else {
    fields.insert(path);
  }
}

std::set<std::string> field_names(const Json& json) {
  std::set<std::string> fields;
  collect_fields(json, "", fields);
  return fields;
}

std::set<std::string> documented_fields(const std::string& document) {
  std::set<std::string> fields;
  const std::regex row("\n\\| `([^`]+)` \\|");
  for (std::sregex_iterator found(document.begin(), document.end(), row), end; found != end; ++found)
    fields.insert((*found)[1]);
  return fields;
}

std::string difference(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::string text;
  for (const auto& one : a)
    if (!b.contains(one)) text += one + " ";
  return text;
}

/// Every long option that a help text lists.
std::set<std::string> parse_options(const std::string& help) {
  std::set<std::string> options;
  const std::regex option("\n +(?:-[a-z],)?(--[a-z-]+)");
  for (std::sregex_iterator found(help.begin(), help.end(), option), end; found != end; ++found)
    options.insert((*found)[1]);
  return options;
}

std::string json_document() { return read_file(MUSTER_SOURCE "/docs/plan-json.md"); }

}  // namespace

TEST_CASE("The fields of the plan's JSON are exactly the documented ones") {
  // Together these two plans have all fields: a note, a warning, several GPUs, a NIC that is left out.
  auto json = Json::parse(run_muster("plan " + two_domains + " --tasks-per-gpu 8 --format json").output);
  REQUIRE_FALSE(json.at("warnings").empty());
  REQUIRE_FALSE(json.at("node").at("notes").empty());
  auto fields = field_names(json);
  json = Json::parse(run_muster("plan " + two_domains + " --cpus-per-task 1 --format json").output);
  REQUIRE_FALSE(json.at("notes").empty());
  fields.merge(field_names(json));
  const auto documented = documented_fields(json_document());
  CHECK(documented.size() > 25);
  CHECK(difference(fields, documented) == "");
  CHECK(difference(documented, fields) == "");
  CHECK(json.at("tasks").at(0).at("environment").is_object());
}

TEST_CASE("The documented example is JSON and has documented fields only") {
  const auto document = json_document();
  const auto begin = document.find("```json\n") + 8;
  const auto example = Json::parse(document.substr(begin, document.find("\n```", begin) - begin));
  CHECK(example.at("schema") == 1);
  CHECK(difference(field_names(example), documented_fields(json_document())) == "");
}

TEST_CASE("Every option is in the man page and in the shell completion") {
  const auto page = read_file(MUSTER_SOURCE "/docs/man/muster.1");
  const auto completion = read_file(MUSTER_SOURCE "/etc/completions/muster");
  auto options = parse_options(run_muster("plan --help").output);
  for (const char* command : {"doctor", "bench", "render"}) {
    const auto more = parse_options(run_muster(std::string(command) + " --help").output);
    CHECK(more.size() >= 4);
    options.insert(more.begin(), more.end());
  }
  CHECK(options.size() >= 24);
  for (const auto& option : options) {
    INFO(option);
    CHECK_THAT(completion, Catch::Matchers::ContainsSubstring(option + " ") ||
                               Catch::Matchers::ContainsSubstring(option + "\""));
    if (option.starts_with("--help")) continue;
    CHECK_THAT(page, Catch::Matchers::ContainsSubstring("Fl Fl " + option.substr(2) + " ") ||
                         Catch::Matchers::ContainsSubstring("Fl Fl " + option.substr(2) + "\n"));
  }
  for (const auto& option : parse_options(run_muster("--help").output))
    CHECK_THAT(completion, Catch::Matchers::ContainsSubstring(option));
}

TEST_CASE("The shell completes commands, options, formats and machines") {
  const auto complete = [](const std::string& words, int index) {
    return shell("PATH=\"$(dirname '" MUSTER_COMMAND "'):$PATH\" bash -c 'set -u; . " MUSTER_SOURCE
                 "/etc/completions/muster; COMP_WORDS=(" +
                 words + "); COMP_CWORD=" + std::to_string(index) + "; _muster; echo \"${COMPREPLY[*]}\"'")
        .output;
  };
  CHECK(complete("muster pl", 1) == "plan\n");
  CHECK(complete("muster plan --ta", 2) == "--tasks --tasks-per-gpu\n");
  CHECK(complete("muster render --to k", 3) == "kubernetes-mpijob\n");
  CHECK(complete("muster render --profile jean-zay-", 3) == "jean-zay-a100 jean-zay-h100 jean-zay-v100\n");
  CHECK(complete("muster plan --format j", 3) == "json\n");
  CHECK(complete("muster plan --machine dgx-", 3) == "dgx-a100 dgx-b200 dgx-h100\n");
  CHECK(complete("muster plan --machine l", 3) == "list lenovo-h200 leonardo-booster\n");
  CHECK(complete("muster plan --root " MUSTER_SOURCE "/etc/completion", 3) == MUSTER_SOURCE
        "/etc/completions\n");
}
