// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "doctor/finding_table.hpp"

using namespace muster::cli::doctor;

namespace {

const std::vector<Row> rows{{Verdict::pass, "join", "through pmix", ""},
                            {Verdict::warn, "clocks", "5 s ahead", "start chrony"},
                            {Verdict::skipped, "GPUs", "none", ""}};

}  // namespace

TEST_CASE("the doctor's table has a line for each check, the fix below it, and a count") {
  CHECK(table_of(rows) ==
        "pass     join    through pmix\n"
        "warn     clocks  5 s ahead\n"
        "                 -> start chrony\n"
        "skipped  GPUs    none\n"
        "1 passed, 1 warned, 0 failed, 1 skipped\n");
}

TEST_CASE("only a failed check makes the exit code 1") {
  CHECK(exit_code_of(rows) == 0);
  auto failed = rows;
  failed.push_back({Verdict::fail, "variables", "NCCL_ALGO differs", "set it alike"});
  CHECK(exit_code_of(failed) == 1);
}

TEST_CASE("the doctor's JSON can be read") {
  auto const report = nlohmann::json::parse(json_of(rows, {"join: alone", "bad \xff byte"}));
  CHECK(report.at("schema") == 1);
  CHECK(report.at("failed") == false);
  REQUIRE(report.at("checks").size() == 3);
  CHECK(report.at("checks").at(1).at("verdict") == "warn");
  CHECK(report.at("checks").at(1).at("fix") == "start chrony");
  CHECK(report.at("trace").at(0) == "join: alone");
}
