// SPDX-License-Identifier: Apache-2.0
#include "slurm/binding.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "placement/topology/live/sysfs.hpp"
#include "text/printable.hpp"

namespace muster::spank {

namespace {

// The kernel's node mask; MAX_NUMNODES is at most 1024 (CONFIG_NODES_SHIFT=10).
constexpr int max_domains = 1024;
constexpr int bits_per_word = 8 * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, max_domains / bits_per_word>;

NodeMask mask_of(const std::vector<int>& domains) {
  NodeMask mask{};
  for (const int domain : domains)
    if (domain >= 0 && domain < max_domains)
      mask[static_cast<std::size_t>(domain / bits_per_word)] |= 1UL << (domain % bits_per_word);
  return mask;
}

int set_policy(int mode, const std::vector<int>& domains) {
  const NodeMask mask = mask_of(domains);
  // The kernel reads one bit less than this count.
  return syscall(SYS_set_mempolicy, mode, mask.data(), max_domains + 1UL) == 0 ? 0 : errno;
}

}  // namespace

CpuSet read_affinity(int pid) {
  CpuSet cpus;
  // A fixed cpu_set_t holds 1024 CPUs; machines with more need a larger one, so size it to the placement's
  // own limit.
  cpu_set_t* mask = CPU_ALLOC(CpuSet::limit);
  const std::size_t bytes = CPU_ALLOC_SIZE(CpuSet::limit);
  if (mask == nullptr) throw std::bad_alloc();
  if (sched_getaffinity(pid, bytes, mask) == 0)
    for (int cpu = 0, left = CPU_COUNT_S(bytes, mask); left > 0; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, mask)) {
        cpus.add(cpu);
        --left;
      }
  CPU_FREE(mask);
  return cpus;
}

std::vector<int> read_memory_domains() {
  constexpr std::string_view key = "\nMems_allowed_list:";
  const std::string status = placement::Sysfs("/").text("/proc/self/status").value_or("");
  const auto at = status.find(key);
  if (at == std::string::npos) return {};
  const auto start = status.find_first_not_of(" \t", at + key.size());
  const std::string list = status.substr(start, status.find('\n', start) - start);
  const auto domains = CpuSet::parse_list(list);
  if (!domains)
    throw std::runtime_error("the kernel's Mems_allowed_list in /proc/self/status, '" +
                             printable(list.substr(0, 80)) + "', is not a list of NUMA domains like 0-3,8");
  return domains->to_vector();
}

int bind_to_cpus(const CpuSet& cpus) {
  cpu_set_t* mask = CPU_ALLOC(CpuSet::limit);
  if (mask == nullptr) return ENOMEM;
  const std::size_t bytes = CPU_ALLOC_SIZE(CpuSet::limit);
  CPU_ZERO_S(bytes, mask);
  for (int cpu = cpus.first(); cpu >= 0; cpu = cpus.next(cpu)) CPU_SET_S(cpu, bytes, mask);
  const int result = sched_setaffinity(0, bytes, mask) == 0 ? 0 : errno;
  CPU_FREE(mask);
  return result;
}

int set_memory(MemoryPolicy policy, const std::vector<int>& domains) {
  if (domains.empty() || policy == MemoryPolicy::off) return 0;
  int current = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &current, nullptr, 0UL, nullptr, 0UL) == 0 && current != MPOL_DEFAULT)
    return 0;
  if (policy == MemoryPolicy::bind) return set_policy(MPOL_BIND, domains);
  constexpr int preferred_many = 5;  // MPOL_PREFERRED_MANY, absent from older headers
  if (domains.size() > 1 && set_policy(preferred_many, domains) == 0) return 0;
  return set_policy(MPOL_PREFERRED, {domains.front()});
}

}  // namespace muster::spank
