// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>

#include "deadline.hpp"
#include "inventory/nccl_conf.hpp"
#include "inventory/host_inventory.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t most_variables = 64;
constexpr std::size_t longest_value = 160;
// A driver whose device hangs may never answer; what it would have said is then not known.
constexpr std::chrono::milliseconds driver_patience{2000};

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  auto const close = [](DIR* opened) { closedir(opened); };
  std::unique_ptr<DIR, decltype(close)> const opened(opendir(folder.c_str()), close);
  if (!opened) return names;
  while (const dirent* entry = readdir(opened.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// access() asks the device cgroup too, and unlike open() it does not wake a GPU whose driver is idle.
int openable_gpus(const std::string& root) {
  int found = 0;
  int openable = 0;
  for (const auto& name : names_in(root + "/dev")) {
    bool const gpu = name.size() > 6 && name.starts_with("nvidia") &&
                     name.find_first_not_of("0123456789", 6) == std::string::npos;
    if (!gpu) continue;
    ++found;
    if (access((root + "/dev/" + name).c_str(), R_OK | W_OK) == 0) ++openable;
  }
  return found == 0 ? -1 : openable;
}

int bits_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  if (mask->sa_family == AF_INET)
    return std::popcount(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr.s_addr);
  int bits = 0;
  for (unsigned const byte : reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr)
    bits += std::popcount(byte);
  return bits;
}

std::vector<Interface> read_interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> const owner(list, &freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    int const family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 && (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    auto const known = [&](const Interface& other) { return other.name == at->ifa_name; };
    if (std::any_of(found.begin(), found.end(), known)) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* const raw =
        family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr)
            : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr);
    if (inet_ntop(family, raw, text.data(), text.size()) == nullptr) continue;
    found.push_back({at->ifa_name, text.data(), bits_of(at->ifa_netmask)});
  }
  return found;
}

std::vector<RdmaPort> read_adapters(const std::string& root) {
  std::vector<RdmaPort> found;
  auto const folder = root + "/sys/class/infiniband/";
  for (const auto& name : names_in(folder)) {
    for (const auto& port : names_in(folder + name + "/ports")) {
      if (port.find_first_not_of("0123456789") != std::string::npos || port.size() > 4) continue;
      auto const below = folder + name + "/ports/" + port;
      RdmaPort adapter{name, std::stoi(port), false, line_of(below + "/link_layer"), ""};
      adapter.up = line_of(below + "/state").starts_with("4");  // "4: ACTIVE"
      if (adapter.link_layer == "InfiniBand") adapter.subnet = line_of(below + "/gids/0").substr(0, 19);
      found.push_back(std::move(adapter));
    }
  }
  return found;
}

bool matters(std::string_view name, bool nccl) {
  if (name.starts_with("UCX_")) return true;
  if (name.starts_with("NCCL_")) return nccl;
  // What a user gives Open MPI about its transports and algorithms; the launcher's own variables (orte_,
  // ess_, pmix_, …) differ from rank to rank.
  for (std::string_view prefix : {"OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_coll"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// FNV-1a: tells values apart, no more.
std::uint64_t checksum(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (unsigned char const c : text) sum = (sum ^ c) * 0x100000001b3;
  return sum;
}

// Short and printable, and still another text for another value.
std::string shown(std::string value) {
  auto const odd = [](unsigned char c) { return c < 0x20 || c >= 0x7f; };
  if (value.size() <= longest_value && std::none_of(value.begin(), value.end(), odd)) return value;
  auto const sum = checksum(value);
  value.resize(std::min(value.size(), longest_value));
  std::replace_if(value.begin(), value.end(), odd, '?');
  return value + fmt::format("... (checksum {:016x})", sum);
}

}  // namespace

std::map<std::string, std::string> relevant_variables(const char* const* environment, bool nccl,
                                                         const std::map<std::string, std::string>& in_files) {
  std::map<std::string, std::string> kept;
  auto const keep = [&](std::string_view name, std::string_view value) {
    if (kept.size() < most_variables && name.size() <= 100 && matters(name, nccl))
      kept.emplace(name, shown(std::string(value)));
  };
  for (auto at = environment; at != nullptr && *at != nullptr; ++at) {
    std::string_view const text = *at;
    auto const equals = text.find('=');
    if (equals != std::string_view::npos) keep(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : in_files) keep(name, value);
  return kept;
}

HostInventory read_host_inventory(const InventoryRequest& wish, const std::string& root) {
  HostInventory around;
  const char* const preflight = std::getenv("MUSTER_PREFLIGHT");
  around.lenient = preflight != nullptr && std::string_view(preflight) == "warn";
  around.nccl = wish.nccl;
  around.local_first = wish.local_rank == 0;
  auto const below = root == "/" ? std::string() : root;
  auto const in_files = wish.nccl ? read_nccl_confs(below) : std::map<std::string, std::string>();
  around.variables = relevant_variables(environ, wish.nccl, in_files);
  if (!wish.nccl) return around;
  around.driver = line_of(below + "/sys/module/nvidia/version");
  around.gpus_openable = openable_gpus(below);
  around.imex_channels = imex_channels(below);
  if (wish.others && !wish.gpu.empty()) around.fabric = read_fabric(wish.gpu, Deadline(driver_patience));
  if (around.local_first && wish.others) {
    around.interfaces = read_interfaces();
    around.adapters = read_bounded([below] { return read_adapters(below); }, Deadline(driver_patience))
                          .value_or(std::vector<RdmaPort>{});
  }
  return around;
}

}  // namespace muster::bootstrap
