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
#include <memory>
#include <string_view>

#include "deadline.hpp"
#include "hash/fnv1a.hpp"
#include "inventory/host_inventory.hpp"
#include "nccl_conf/nccl_conf.hpp"
#include "proc_file.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_variables = 64;
constexpr std::size_t max_value_length = 160;
// A driver may hang on its device; what it would report is then unknown.
constexpr std::chrono::milliseconds driver_timeout{2000};

std::vector<std::string> list_names(const std::string& folder) {
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

// access() also checks the device cgroup, and unlike open() it does not wake a GPU with an idle driver.
int count_openable_gpus(const std::string& root) {
  int found = 0;
  int openable = 0;
  for (const auto& name : list_names(root + "/dev")) {
    bool const gpu = name.size() > 6 && name.starts_with("nvidia") &&
                     name.find_first_not_of("0123456789", 6) == std::string::npos;
    if (!gpu) continue;
    ++found;
    if (access((root + "/dev/" + name).c_str(), R_OK | W_OK) == 0) ++openable;
  }
  return found == 0 ? -1 : openable;
}

int prefix_length(const sockaddr* mask) {
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
    found.push_back({at->ifa_name, text.data(), prefix_length(at->ifa_netmask)});
  }
  return found;
}

std::vector<RdmaPort> read_adapters(const std::string& root) {
  std::vector<RdmaPort> found;
  auto const folder = root + "/sys/class/infiniband/";
  for (const auto& name : list_names(folder)) {
    for (const auto& port : list_names(folder + name + "/ports")) {
      if (port.find_first_not_of("0123456789") != std::string::npos || port.size() > 4) continue;
      auto const below = folder + name + "/ports/" + port;
      RdmaPort adapter{name, std::stoi(port), false, read_first_line(below + "/link_layer"), ""};
      adapter.up = read_first_line(below + "/state").starts_with("4");  // "4: ACTIVE"
      if (adapter.link_layer == "InfiniBand")
        adapter.subnet = read_first_line(below + "/gids/0").substr(0, 19);
      found.push_back(std::move(adapter));
    }
  }
  return found;
}

bool is_relevant(std::string_view name, bool nccl) {
  if (name.starts_with("UCX_")) return true;
  if (name.starts_with("NCCL_")) return nccl;
  // The user's choices of Open MPI transports and algorithms. The launcher's own variables (orte_, ess_,
  // pmix_, …) differ from rank to rank.
  for (std::string_view prefix : {"OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_coll"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Makes a value short and printable; different values stay different.
std::string shorten_value(std::string value) {
  auto const unprintable = [](unsigned char c) { return c < 0x20 || c >= 0x7f; };
  if (value.size() <= max_value_length && std::none_of(value.begin(), value.end(), unprintable)) return value;
  auto const sum = fnv1a(value);
  value.resize(std::min(value.size(), max_value_length));
  std::replace_if(value.begin(), value.end(), unprintable, '?');
  return value + fmt::format("... (checksum {:016x})", sum);
}

}  // namespace

std::map<std::string, std::string> relevant_variables(const char* const* environment, bool nccl,
                                                      const std::map<std::string, std::string>& in_files) {
  std::map<std::string, std::string> variables;
  auto const add = [&](std::string_view name, std::string_view value) {
    if (variables.size() < max_variables && name.size() <= 100 && is_relevant(name, nccl))
      variables.emplace(name, shorten_value(std::string(value)));
  };
  for (auto at = environment; at != nullptr && *at != nullptr; ++at) {
    std::string_view const text = *at;
    auto const equals = text.find('=');
    if (equals != std::string_view::npos) add(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : in_files) add(name, value);
  return variables;
}

HostInventory read_host_inventory(const InventoryRequest& request, const std::string& root) {
  HostInventory inventory;
  const char* const preflight = std::getenv("MUSTER_PREFLIGHT");
  inventory.warn_only = preflight != nullptr && std::string_view(preflight) == "warn";
  inventory.nccl = request.nccl;
  inventory.local_first = request.local_rank == 0;
  auto const below = root == "/" ? std::string() : root;
  auto in_files = request.nccl ? read_nccl_confs(below) : std::map<std::string, std::string>();
  std::erase_if(in_files, [](const auto& variable) { return !variable.first.starts_with("NCCL_"); });
  inventory.variables = relevant_variables(environ, request.nccl, in_files);
  if (!request.nccl) return inventory;
  inventory.driver = read_first_line(below + "/sys/module/nvidia/version");
  inventory.gpus_openable = count_openable_gpus(below);
  inventory.imex_channels = imex_channels(below);
  if (request.has_peers && !request.gpu.empty())
    inventory.fabric = read_fabric(request.gpu, Deadline(driver_timeout));
  if (inventory.local_first && request.has_peers) {
    inventory.interfaces = read_interfaces();
    inventory.adapters = read_bounded([below] { return read_adapters(below); }, Deadline(driver_timeout))
                             .value_or(std::vector<RdmaPort>{});
  }
  return inventory;
}

}  // namespace muster::bootstrap
