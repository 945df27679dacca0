// SPDX-License-Identifier: Apache-2.0
#include "binding.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "catch.hpp"

using namespace muster::spank;
using muster::placement::CpuSet;

namespace {

// Runs `body` in a child process, so that this one keeps its own binding, and returns the child's exit code.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int one_allowed_cpu() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) return cpu;
  return -1;
}

}  // namespace

TEST_CASE("A process is bound to exactly the CPUs given") {
  const int cpu = one_allowed_cpu();
  const int result = in_child([&] {
    if (bind_to_cpus(CpuSet{cpu}) != 0) return 1;
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 2;
    return CPU_COUNT(&mask) == 1 && CPU_ISSET(cpu, &mask) ? 0 : 3;
  });
  CHECK(result == 0);
}

TEST_CASE("CPUs that this machine does not have are refused, not ignored") {
  CHECK(in_child([] { return bind_to_cpus(CpuSet{60000}); }) == EINVAL);
  CHECK(in_child([] { return bind_to_cpus(CpuSet{}); }) == EINVAL);
}

TEST_CASE("Memory of a domain that does not exist cannot be preferred; no domain is no wish") {
  CHECK(in_child([] { return prefer_memory({}); }) == 0);
  CHECK(in_child([] { return prefer_memory({1000}); }) == EINVAL);
}
