// SPDX-License-Identifier: Apache-2.0
// main() for tests that run on several ranks: every rank runs the same cases in the same order.
#include <cstdlib>
#include <optional>

#include "exit_code.hpp"
#include "run_tests.hpp"
#include "world.hpp"

namespace {
std::optional<muster::Job> joined;
bool on_gpus() { return std::getenv("TEST_ON_GPUS") != nullptr; }
}  // namespace

muster::Job& job() {
  if (!joined)
    joined.emplace(
        muster::Job::join({.deadline = std::chrono::seconds(60),
                           .operation_timeout = std::chrono::seconds(60),
                           // A busy machine may give a rank no CPU for more than the usual ten.
                           .heartbeat_timeout = std::chrono::seconds(60),
                           .device = on_gpus() ? muster::Device::cuda : muster::Device::automatic}));
  return *joined;
}

muster::Communicator tested_world() { return on_gpus() ? job().world() : job().host_world(); }

int main(int argc, char** argv) {
  return exit_code_of(argv[0], [&] {
    job();
    int const failed = run_tests(argc, argv);
    joined->leave();
    return failed;
  });
}
