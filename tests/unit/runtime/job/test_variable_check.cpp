// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "job/variable_check.hpp"
#include "runtime/launcher/variables.hpp"

using muster::detail::describe_wrong_variable;

TEST_CASE("variables that are unset, empty or have one of their words are right") {
  CHECK_FALSE(describe_wrong_variable(variables({})));
  CHECK_FALSE(describe_wrong_variable(variables({{"MUSTER_LOG", ""}})));
  for (auto const& [name, word] : {std::pair{"MUSTER_LOG", "info"},
                                   {"MUSTER_LOG", "debug"},
                                   {"MUSTER_CHECK", "calls"},
                                   {"MUSTER_CHECK", "off"},
                                   {"MUSTER_PREFLIGHT", "warn"},
                                   {"MUSTER_SHARED_MEMORY", "off"}})
    CHECK_FALSE(describe_wrong_variable(variables({{name, word}})));
}

TEST_CASE("a variable with another word is named, with the words that it may have") {
  CHECK(describe_wrong_variable(variables({{"MUSTER_LOG", "verbose"}})) ==
        "MUSTER_LOG is 'verbose': must be info or debug, or unset");
  CHECK(describe_wrong_variable(variables({{"MUSTER_CHECK", "all"}})) ==
        "MUSTER_CHECK is 'all': must be calls or off, or unset");
  CHECK(describe_wrong_variable(variables({{"MUSTER_PREFLIGHT", "Warn"}})) ==
        "MUSTER_PREFLIGHT is 'Warn': must be warn, or unset");
  CHECK(describe_wrong_variable(variables({{"MUSTER_SHARED_MEMORY", "o\nff"}})) ==
        "MUSTER_SHARED_MEMORY is 'o?ff': must be off, or unset");
}
