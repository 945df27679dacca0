// SPDX-License-Identifier: Apache-2.0
// For tests/bench/join: the time from main() until roster and control plane are ready. The argument is the
// bootstrap that must have been used.
#include <cstring>
#include <muster/muster.hpp>

#include "stopwatch.hpp"

int main(int argc, char** argv) {
  Stopwatch const stopwatch;
  try {
    auto job = muster::Job::join({.device = muster::Device::cpu});
    if (argc > 1 && std::strcmp(argv[1], job.bootstrap()) != 0) {
      std::fprintf(stderr, "join_muster: joined through %s, not %s\n", job.bootstrap(), argv[1]);
      return 1;
    }
    stopwatch.print();
    job.leave();
    return 0;
  } catch (const muster::Error& error) {
    if (!error.reported_elsewhere()) std::fprintf(stderr, "join_muster: %s\n", error.what());
    return error.exit_code();
  }
}
