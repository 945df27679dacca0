// SPDX-License-Identifier: Apache-2.0
// Catch2's own code, compiled once for all test programs.
#define CATCH_CONFIG_RUNNER
#include "run_tests.hpp"

#include "catch.hpp"

int run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }
