// SPDX-License-Identifier: Apache-2.0
// main() for tests that run on several ranks: every rank runs the same cases in the same order.
#include <cstdio>
#include <optional>

#include "run_tests.hpp"
#include "world.hpp"

namespace {
std::optional<muster::Job> joined;
}

muster::Job& job() {
  if (!joined)
    joined.emplace(muster::Job::join(
        {.deadline = std::chrono::seconds(60), .operation_timeout = std::chrono::seconds(60)}));
  return *joined;
}

int main(int argc, char** argv) {
  try {
    job();
    int const failed = run_tests(argc, argv);
    joined->leave();
    return failed;
  } catch (const muster::Error& error) {
    if (!error.repeated()) std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
