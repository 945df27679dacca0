// SPDX-License-Identifier: Apache-2.0
#include "launcher/local_hello.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "cpu_set/cpu_set.hpp"
#include "muster/version.hpp"
#include "proc_file.hpp"

namespace muster::bootstrap {
namespace {

std::string allowed_cpus() {
  // A mask of 8192 CPUs; the fixed cpu_set_t ends at 1024.
  constexpr int limit = 8192;
  auto const free_set = [](cpu_set_t* set) { CPU_FREE(set); };
  std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(limit), free_set);
  std::size_t const bytes = CPU_ALLOC_SIZE(limit);
  if (!set || sched_getaffinity(0, bytes, set.get()) != 0) return "";
  CpuSet cpus;
  int left = CPU_COUNT_S(bytes, set.get());
  for (int cpu = 0; left > 0; ++cpu) {
    if (!CPU_ISSET_S(cpu, bytes, set.get())) continue;
    cpus.add(cpu);
    --left;
  }
  return cpus.to_list();
}

std::string numeric_address(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* raw =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return inet_ntop(address->sa_family, raw, text.data(), text.size()) != nullptr ? text.data() : "";
}

// This host's source address for packets to `target`. connect() on a UDP socket looks up the route and sends
// nothing.
std::string address_towards(const std::string& target) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  if (target.empty() || inet_pton(AF_INET, target.c_str(), &to.sin_addr) != 1) return "";
  int const fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  std::string found;
  sockaddr_in own{};
  socklen_t length = sizeof own;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    found = numeric_address(reinterpret_cast<sockaddr*>(&own));
  }
  close(fd);
  return found;
}

// Lower is more likely reachable from other hosts.
int address_priority(const ifaddrs& interface) {
  std::string_view const name = interface.ifa_name;
  for (std::string_view prefix :
       {"docker", "virbr", "br-", "cni", "flannel", "veth", "lxc", "podman", "cali"}) {
    if (name.starts_with(prefix)) return 2;
  }
  return interface.ifa_addr->sa_family == AF_INET ? 0 : 1;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string get_env(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string network_namespace() {
  std::array<char, 64> link{};
  auto const length = ::readlink("/proc/self/ns/net", link.data(), link.size());
  return length > 0 ? std::string(link.data(), static_cast<std::size_t>(length)) : "";
}

std::string placed_gpu() {
  auto const list = get_env("MUSTER_GPUS");
  return list.substr(0, list.find(','));
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> const owner(list, &freeifaddrs);
  std::vector<std::pair<int, std::string>> found;
  auto const preferred = address_towards(get_env("SLURM_LAUNCH_NODE_IPADDR"));
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    int const family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    auto const text = numeric_address(at->ifa_addr);
    if (text.empty() || text.starts_with("fe80:") || text.starts_with("169.254.")) continue;
    found.emplace_back(text == preferred ? -1 : address_priority(*at), text);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> addresses;
  for (auto& [priority, text] : found) addresses.push_back(std::move(text));
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");
  return addresses;
}

Hello make_hello() {
  Hello hello;
  hello.host = host_name();
  hello.boot_id = read_first_line("/proc/sys/kernel/random/boot_id");
  hello.pid = getpid();
  hello.gpu = placed_gpu();
  hello.cpus = allowed_cpus();
  hello.muster_version = version;
  hello.plugin_version = get_env("MUSTER_VERSION");
  return hello;
}

}  // namespace muster::bootstrap
