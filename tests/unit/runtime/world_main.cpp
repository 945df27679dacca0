// SPDX-License-Identifier: Apache-2.0
// main() for tests that run on several ranks: every rank runs the same cases in the same order.
#include <optional>

#include "exit_code.hpp"
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
  return exit_code_of(argv[0], [&] {
    job();
    int const failed = run_tests(argc, argv);
    joined->leave();
    return failed;
  });
}
