// SPDX-License-Identifier: Apache-2.0
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "catch.hpp"
#include "slurm/binding.hpp"

using namespace muster::spank;
using muster::CpuSet;

namespace {

// Runs `body` in a child process, so that this process keeps its binding. Returns the child's exit code.
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

TEST_CASE("A process is bound to exactly the given CPUs") {
  const int cpu = one_allowed_cpu();
  const int result = in_child([&] {
    if (bind_to_cpus(CpuSet{cpu}) != 0) return 1;
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 2;
    return CPU_COUNT(&mask) == 1 && CPU_ISSET(cpu, &mask) ? 0 : 3;
  });
  CHECK(result == 0);
}

TEST_CASE("CPUs that this machine does not have are an error") {
  CHECK(in_child([] { return bind_to_cpus(CpuSet{60000}); }) == EINVAL);
  CHECK(in_child([] { return bind_to_cpus(CpuSet{}); }) == EINVAL);
}

TEST_CASE("Memory of a nonexistent domain is an error; without a domain or a policy nothing is set") {
  for (const MemoryPolicy policy : {MemoryPolicy::prefer, MemoryPolicy::bind}) {
    CHECK(in_child([&] { return set_memory(policy, {}); }) == 0);
    CHECK(in_child([&] { return set_memory(policy, {1000}); }) == EINVAL);
  }
  CHECK(in_child([] { return set_memory(MemoryPolicy::off, {1000}); }) == 0);
}

TEST_CASE("Memory is preferred or bound, and an existing policy stays") {
  const auto policy_after = [](MemoryPolicy first, MemoryPolicy second) {
    return in_child([&] {
      if (set_memory(first, {0}) != 0 || set_memory(second, {0}) != 0) return -1;
      int mode = 0;
      return syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) == 0 ? mode : -1;
    });
  };
  CHECK(policy_after(MemoryPolicy::bind, MemoryPolicy::off) == MPOL_BIND);
  CHECK(policy_after(MemoryPolicy::prefer, MemoryPolicy::bind) == MPOL_PREFERRED);
  CHECK(policy_after(MemoryPolicy::bind, MemoryPolicy::prefer) == MPOL_BIND);
  CHECK(policy_after(MemoryPolicy::off, MemoryPolicy::off) == MPOL_DEFAULT);
}
